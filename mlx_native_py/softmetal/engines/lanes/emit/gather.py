"""Emits gathers and scatters: accesses at unrelated addresses."""

from __future__ import annotations

from ..analysis.shape import LANES, WIDTH
from ..ir.layout import stored_bytes
from ..ir.model import PointerType, Type
from .address import POINTERS, Address, safe_pointers
from .frame import Frame

_BITS = f"<{WIDTH} x i1>"
_EVERY = "splat (i1 true)"
_WORD = 4  # bytes of the smallest elements that plain hardware gathers
_MANGLED = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}


def mangled(kind: Type) -> str:
    """A scalar type as it stands in the name of an intrinsic function."""
    return "p0" if isinstance(kind, PointerType) else _MANGLED.get(str(kind), str(kind))


def gather(frame: Frame, kind: Type, address: Address, align: int) -> str:
    """The vector that lanes load."""
    whole = f"<{WIDTH} x {kind}>"
    if not frame.native_masks and stored_bytes(kind) < _WORD and not _is_constant(frame, address):
        return frame.let("gathered", f"call {whole} {_gatherer(frame, kind, align)}({_where(frame, address)})")
    name = f"@llvm.masked.gather.v{WIDTH}{mangled(kind)}.v{WIDTH}p0"
    frame.declare(f"declare {whole} {name}({POINTERS}, i32, {_BITS}, {whole})")
    return frame.let("gathered", f"call {whole} {name}({_chosen(frame, address, align)}, {whole} poison)")


def scatter(frame: Frame, kind: Type, values: str, address: Address, align: int) -> None:
    """Stores a vector, the highest lane of each place last."""
    whole = f"<{WIDTH} x {kind}>"
    if not frame.native_masks and not _is_constant(frame, address):
        frame.emit(f"call void {_scatterer(frame, kind, align)}({_where(frame, address)}, {whole} {values})")
        return
    name = f"@llvm.masked.scatter.v{WIDTH}{mangled(kind)}.v{WIDTH}p0"
    frame.declare(f"declare void {name}({whole}, {POINTERS}, i32, {_BITS})")
    frame.emit(f"call void {name}({whole} {values}, {_chosen(frame, address, align)})")


def _is_constant(frame: Frame, address: Address) -> bool:
    """Whether single accesses would need no vector of pointers."""
    return frame.full and not address.shape.varying and address.shape.stride is None


def _where(frame: Frame, address: Address) -> str:
    return f"{POINTERS} {safe_pointers(frame, address)}"


def _chosen(frame: Frame, address: Address, align: int) -> str:
    """The arguments of a gather or scatter that say where and who."""
    if frame.native_masks:
        return f"{POINTERS} {address.pointers(frame)}, i32 {align}, {_BITS} {frame.lanes()}"
    return f"{_where(frame, address)}, i32 {align}, {_BITS} {_EVERY}"


# Where hardware has no such instruction, the single accesses are written once and called: a hundred instructions for
# each place would make code that takes the compiler minutes.


def _gatherer(frame: Frame, kind: Type, align: int) -> str:
    name, whole = f"@lanes.gather.{mangled(kind)}.{align}", f"<{WIDTH} x {kind}>"
    lines = []
    for lane in LANES:
        before = f"%v{lane - 1}" if lane else "poison"
        lines += [
            f"  %p{lane} = extractelement {POINTERS} %where, i64 {lane}",
            f"  %e{lane} = load {kind}, ptr %p{lane}, align {align}",
            f"  %v{lane} = insertelement {whole} {before}, {kind} %e{lane}, i64 {lane}",
        ]
    lines.append(f"  ret {whole} %v{WIDTH - 1}")
    return frame.helper(name, f"{whole} {name}({POINTERS} %where)", lines)


def _scatterer(frame: Frame, kind: Type, align: int) -> str:
    name, whole = f"@lanes.scatter.{mangled(kind)}.{align}", f"<{WIDTH} x {kind}>"
    lines = []
    for lane in LANES:
        lines += [
            f"  %p{lane} = extractelement {POINTERS} %where, i64 {lane}",
            f"  %e{lane} = extractelement {whole} %values, i64 {lane}",
            f"  store {kind} %e{lane}, ptr %p{lane}, align {align}",
        ]
    lines.append("  ret void")
    return frame.helper(name, f"void {name}({POINTERS} %where, {whole} %values)", lines)

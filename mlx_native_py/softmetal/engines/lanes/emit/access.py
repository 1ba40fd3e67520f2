"""Emits accesses of all lanes at given addresses: as vectors, in a few runs, or per element."""

from __future__ import annotations

from ..analysis.shape import LANES, VARYING, WIDTH
from ..ir.layout import stored_bytes
from ..ir.model import I32, IntType, Type
from .address import POINTERS, Address
from .frame import Frame, numbers
from .gather import gather, mangled, scatter
from .outline import outlined
from .runs import read_runs, read_singles, write_runs

_BITS = f"<{WIDTH} x i1>"
_ALIKE = f"<{WIDTH} x i32> zeroinitializer"
_INLINE = 2  # pieces that an access may have without becoming a function in a large kernel
_PAGE = 4096  # the smallest there is; memory is readable by pages


def read(frame: Frame, kind: Type, address: Address, align: int) -> str:
    """The vector that lanes load."""
    size, whole = stored_bytes(kind), f"<{WIDTH} x {kind}>"
    if frame.full and (runs := address.few(size) or address.singles(size)) and len(runs) > _INLINE:
        return _read_pieces(frame, kind, address, align)
    if frame.full and address.few(size) or address.own and address.is_contiguous(size):
        return read_runs(frame, kind, address, align)
    if address.is_contiguous(size) and _has_masks(frame, size):
        name = f"@llvm.masked.load.v{WIDTH}{mangled(kind)}.p0"
        frame.declare(f"declare {whole} {name}(ptr, i32, {_BITS}, {whole})")
        arguments = f"ptr {address.text}, i32 {align}, {_BITS} {_tested(frame)}, {whole} poison"
        return frame.let("loaded", f"call {whole} {name}({arguments})")
    if frame.native_masks and size < 4 and size <= align:
        words = _read_words(frame, IntType(size * 8), address)
        plain = f"<{WIDTH} x i{size * 8}>"
        return words if isinstance(kind, IntType) else frame.let("loaded", f"bitcast {plain} {words} to {whole}")
    if address.is_contiguous(size):
        return _read_nearby(frame, kind, address, align)
    return gather(frame, kind, address, align)


def _read_pieces(frame: Frame, kind: Type, address: Address, align: int) -> str:
    """The vector that lanes load from several places."""
    size = stored_bytes(kind)

    def pieces(own: Frame, where: Address) -> str:
        if where.few(size):
            return read_runs(own, kind, where, align)
        return read_singles(own, kind, where, align, where.singles(size))

    if not frame.writer.is_large:
        return pieces(frame, address)
    return outlined(frame, ("read", str(kind), align), address, f"<{WIDTH} x {kind}>", pieces)


def write(frame: Frame, kind: Type, values: str, address: Address, align: int) -> None:
    """Stores a vector; where lanes meet at one place, the highest of them has the last word."""
    size, whole = stored_bytes(kind), f"<{WIDTH} x {kind}>"
    if (frame.full or address.own) and address.is_contiguous(size):
        if not frame.full:
            old = frame.let("old", f"load {whole}, ptr {address.text}, align {align}")
            values = frame.let("new", f"select {_BITS} {frame.lanes()}, {whole} {values}, {whole} {old}")
        frame.emit(f"store {whole} {values}, ptr {address.text}, align {align}")
    elif frame.full and address.few(size) and write_runs(frame, kind, values, address, align):
        return
    elif address.is_contiguous(size) and _has_masks(frame, size):
        name = f"@llvm.masked.store.v{WIDTH}{mangled(kind)}.p0"
        frame.declare(f"declare void {name}({whole}, ptr, i32, {_BITS})")
        arguments = f"{whole} {values}, ptr {address.text}, i32 {align}, {_BITS} {_tested(frame)}"
        frame.emit(f"call void {name}({arguments})")
    else:
        scatter(frame, kind, values, address, align)


def _tested(frame: Frame) -> str:
    """The mask of a masked access: plain hardware makes it far quicker of comparisons than of bits."""
    if frame.native_masks or frame.full:
        return frame.lanes()
    words, own = f"<{WIDTH} x i32>", numbers(I32, [1 << lane for lane in LANES])
    one = frame.let("one", f"insertelement {words} poison, i32 {frame.bits()}, i64 0")
    alike = frame.let("alike", f"shufflevector {words} {one}, {words} poison, {_ALIKE}")
    bits = frame.let("bits", f"and {words} {alike}, {own}")
    return frame.let("tested", f"icmp eq {words} {bits}, {own}")


def _has_masks(frame: Frame, size: int) -> bool:
    """Plain hardware masks elements of 32 and 64 bits only."""
    return size >= 4 or frame.native_masks


def _read_nearby(frame: Frame, kind: Type, address: Address, align: int) -> str:
    """Small elements side by side: on one page, what a lane at work may read the idle ones may read as well."""
    whole, room = f"<{WIDTH} x {kind}>", WIDTH * stored_bytes(kind)
    frame.lanes()  # made here, because both ways need it
    near, far, done = (frame.writer.name(stem) for stem in ("near", "far", "loaded"))
    number = frame.let("number", f"ptrtoint ptr {address.text} to i64")
    place = frame.let("place", f"and i64 {number}, {_PAGE - 1}")
    fits = frame.let("fits", f"icmp ule i64 {place}, {_PAGE - room}")
    frame.emit(f"br i1 {fits}, label %{near}, label %{far}")
    frame.label(near)
    plain = frame.let("plain", f"load {whole}, ptr {address.text}, align {align}")
    frame.emit(f"br label %{done}")
    frame.label(far)
    gathered = gather(frame, kind, address, align)
    frame.emit(f"br label %{done}")
    frame.label(done)
    return frame.let("loaded", f"phi {whole} [ {plain}, %{near} ], [ {gathered}, %{far} ]")


def _read_words(frame: Frame, kind: IntType, address: Address) -> str:
    """Hardware gathers nothing smaller than 32 bits; the aligned word around an element is on the same page."""
    longs, words = f"<{WIDTH} x i64>", f"<{WIDTH} x i32>"
    exact = frame.let("exact", f"ptrtoint {POINTERS} {address.pointers(frame)} to {longs}")
    down = frame.let("down", f"and {longs} {exact}, splat (i64 -4)")
    around = Address(frame.let("around", f"inttoptr {longs} {down} to {POINTERS}"), VARYING)
    loaded = read(frame, I32, around, 4)
    low = frame.let("low", f"trunc {longs} {exact} to {words}")
    part = frame.let("part", f"and {words} {low}, splat (i32 3)")
    bits = frame.let("bits", f"shl {words} {part}, splat (i32 3)")
    shifted = frame.let("shifted", f"lshr {words} {loaded}, {bits}")
    return frame.let("element", f"trunc {words} {shifted} to <{WIDTH} x {kind}>")

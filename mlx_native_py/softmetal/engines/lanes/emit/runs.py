"""Emits accesses that consist of a few contiguous runs: vector loads and stores with shuffles."""

from __future__ import annotations

from ..analysis.runs import Run, in_order_of_lanes
from ..analysis.shape import LANES, WIDTH
from ..ir.layout import stored_bytes
from ..ir.model import I32, Type
from .address import Address
from .frame import Frame, numbers

# Rows of a matrix that lanes read side by side are worth a prefetch of the rows that come next.
_LEAST_ROWS = 4
_LEAST_BYTES = 16
_LEAST_GAP = 128
_LINE = 64  # bytes that come together
_AHEAD = 4  # times as many rows as one access has: kernels unroll so many


def read_runs(frame: Frame, kind: Type, address: Address, align: int) -> str:
    """The vector that lanes load."""
    size, whole = stored_bytes(kind), f"<{WIDTH} x {kind}>"
    assert address.shape.offsets is not None
    runs = address.few(size)
    if len(runs) > 1 and all(run.count == 1 for run in runs):
        return read_singles(frame, kind, address, align, runs)
    _prefetch(frame, address, runs, size)
    places = list(zip(address.shape.factors, address.shape.offsets, strict=True))
    total = ""
    for run in runs:
        narrow, end = f"<{run.count} x {kind}>", run.first + run.count * size
        here = address.at(frame, run.factor, run.first)
        part = frame.let("run", f"load {narrow}, ptr {here}, align {align}")
        lanes = [
            (offset - run.first) // size if factor == run.factor and run.first <= offset < end else -1
            for factor, offset in places
        ]
        if lanes == list(LANES) and run.count == WIDTH:
            return part
        spread = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in lanes)
        wide = frame.let("wide", f"shufflevector {narrow} {part}, {narrow} poison, <{WIDTH} x i32> <{spread}>")
        chosen = numbers(I32, [lane if at < 0 else lane + WIDTH for lane, at in enumerate(lanes)])
        blend = f"shufflevector {whole} {total}, {whole} {wide}, <{WIDTH} x i32> {chosen}"
        total = frame.let("merged", blend) if total else wide
    return total


def read_singles(frame: Frame, kind: Type, address: Address, align: int, singles: tuple[Run, ...]) -> str:
    """Single elements, each for some lanes: into a small vector, and from there to their lanes by one shuffle."""
    assert address.shape.offsets is not None
    narrow, total = f"<{len(singles)} x {kind}>", "poison"
    for i, run in enumerate(singles):
        one = frame.let("one", f"load {kind}, ptr {address.at(frame, run.factor, run.first)}, align {align}")
        total = frame.let("few", f"insertelement {narrow} {total}, {kind} {one}, i64 {i}")
    index = {(run.factor, run.first): i for i, run in enumerate(singles)}
    lanes = [index[place] for place in zip(address.shape.factors, address.shape.offsets, strict=True)]
    return frame.let(
        "spread", f"shufflevector {narrow} {total}, {narrow} poison, <{WIDTH} x i32> {numbers(I32, lanes)}"
    )


def write_runs(frame: Frame, kind: Type, values: str, address: Address, align: int) -> bool:
    """Stores a vector, the highest lane of each place last; False where that order cannot be kept."""
    size, whole = stored_bytes(kind), f"<{WIDTH} x {kind}>"
    runs = in_order_of_lanes(address.shape, address.few(size), size)
    for run, lanes in runs:
        mask = f"<{run.count} x i32> {numbers(I32, lanes)}"
        part = frame.let("run", f"shufflevector {whole} {values}, {whole} poison, {mask}")
        here = address.at(frame, run.factor, run.first)
        frame.emit(f"store <{run.count} x {kind}> {part}, ptr {here}, align {align}")
    return bool(runs)


def _prefetch(frame: Frame, address: Address, runs: tuple[Run, ...], size: int) -> None:
    """Asks for the rows that follow those that lanes read now."""
    if not address.distant or len(runs) < _LEAST_ROWS or runs[0].count * size < _LEAST_BYTES:
        return
    steps = {(b.factor - a.factor, b.first - a.first) for a, b in zip(runs, runs[1:], strict=False)}
    if len(steps) > 1:
        return
    factor, gap = steps.pop()
    if not factor and gap < _LEAST_GAP or _is_at_hand(frame, address):
        return
    frame.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    ahead = _AHEAD * len(runs)
    for run in runs:
        there = address.at(frame, run.factor + ahead * factor, run.first + ahead * gap)
        frame.emit(f"call void @llvm.prefetch.p0(ptr {there}, i32 0, i32 2, i32 1)")


def _is_at_hand(frame: Frame, address: Address) -> bool:
    """Whether rows so near have been asked for in this block."""
    depends, place = address.place
    places = frame.prefetched.setdefault((depends, address.shape), [])
    if any(abs(place - other) < _LINE for other in places):
        return True
    places.append(place)
    return False

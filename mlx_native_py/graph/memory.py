"""Memory of temporaries: dead-store elimination and memory sharing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..dtypes import DType
from ..encoder import CapturedNode, DeviceContext, Dispatch
from ..hazards.intervals import IntervalSet
from ..hazards.ranges import Memory, Span
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from .order import is_annotated, placed
from .remap import BufferRemap, whole_allocation

__all__ = ["shared_memory", "without_dead_stores"]

ALIGNMENT = 256


def without_dead_stores(nodes: Sequence[CapturedNode], temporaries: Collection[Allocation]) -> list[CapturedNode]:
    """Removes dispatches that write only temporaries which no later dispatch reads.

    One pass from the end suffices, because reads by removed dispatches do not count. Everything before a dispatch with
    unknown writes is kept, because that dispatch may read anything.
    """
    hidden = {each.memory for each in temporaries if not each.memory.aliases}
    wanted: dict[Memory, IntervalSet] = {}
    kept: list[CapturedNode] = []
    for node in reversed(nodes):
        if isinstance(node, Dispatch):
            if not is_annotated(node):
                hidden = set()
            elif all(_unwanted(each.span, hidden, wanted) for each in node.writes):
                continue
            for memory, start, end in (each.span for each in node.reads):
                wanted.setdefault(memory, IntervalSet()).add(start, end)
        kept.append(node)
    return kept[::-1]


def _unwanted(span: Span, hidden: Collection[Memory], wanted: dict[Memory, IntervalSet]) -> bool:
    memory, start, end = span
    return memory in hidden and not (memory in wanted and wanted[memory].meets(start, end))


@dataclass(slots=True)
class _Life:
    """The lifetime of a temporary: from the first to the last group of dispatches between barriers that uses it."""

    allocation: Allocation
    first: int
    last: int
    written: IntervalSet
    offset: int = -1

    @property
    def nbytes(self) -> int:
        return -(-self.allocation.nbytes // ALIGNMENT) * ALIGNMENT


def shared_memory(
    nodes: Sequence[CapturedNode], temporaries: Collection[Allocation], device: DeviceContext
) -> tuple[list[CapturedNode], int, Allocation | None]:
    """The nodes with their temporaries in shared memory, the bytes saved, and that memory.

    A temporary qualifies if every byte that is read was written before in the same run. Temporaries reuse memory only
    across existing barriers. Nothing moves if a dispatch has unknown writes, since it may use any of them.
    """
    if not all(is_annotated(node) for node in nodes if isinstance(node, Dispatch)):
        return list(nodes), 0, None
    lives = _lives(nodes, temporaries)
    size = _place(lives)
    if size >= sum(life.allocation.nbytes for life in lives):
        return list(nodes), 0, None
    home = device.empty(size, DType.U8, label="t")
    remap = BufferRemap(
        (whole_allocation(life.allocation), home.slice_view(life.offset, life.allocation.nbytes)) for life in lives
    )
    saved = sum(life.allocation.nbytes for life in lives) - size
    return [remap.node(node) for node in nodes], saved, home.allocation


def _lives(nodes: Sequence[CapturedNode], temporaries: Collection[Allocation]) -> list[_Life]:
    hidden = {each.memory: each for each in temporaries}
    lives: dict[Memory, _Life] = {}
    fixed: set[Memory] = set()
    group = 0
    for step in placed(nodes):
        node = step.node
        group += step.barrier
        bound = {each.value.span[0] for each in node.bindings if isinstance(each.value, MlxBuffer)}
        # A dispatch reaches unbound memory by its address, which would not follow if the buffer moved.
        fixed |= {each.allocation for each in (*node.reads, *node.writes)} - bound
        for memory, start, end in (each.span for each in node.reads):
            life = lives.get(memory)
            if memory in hidden and (life is None or not _covers(life.written, start, end)):
                fixed.add(memory)
            if life is not None:
                life.last = group
        for memory, start, end in (each.span for each in node.writes):
            if memory in hidden:
                life = lives.setdefault(memory, _Life(hidden[memory], group, group, IntervalSet()))
                life.written.add(start, end)
                life.last = group
    return [life for memory, life in lives.items() if memory not in fixed and not memory.aliases]


def _covers(written: IntervalSet, start: int, end: int) -> bool:
    return any(low <= start and end <= high for low, high in written)


def _place(lives: list[_Life]) -> int:
    """Assigns offsets, largest first, in the lowest gap among overlapping lifetimes; returns the total size."""
    done: list[_Life] = []
    for life in sorted(lives, key=lambda each: (-each.nbytes, each.first)):
        taken = sorted((o.offset, o.offset + o.nbytes) for o in done if o.first <= life.last and life.first <= o.last)
        offset = 0
        for low, high in taken:
            if low - offset >= life.nbytes:
                break
            offset = max(offset, high)
        life.offset = offset
        done.append(life)
    return max((life.offset + life.nbytes for life in done), default=0)

"""Order of dispatches: barrier placement, and reordering to need fewer barriers.

Nothing moves across a barrier placed by the caller, which may stand for an order that no buffer shows, nor across a
dispatch with no known writes, whose ranges must be incomplete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..encoder import CapturedNode, Dispatch
from ..hazards.ranges import Span
from ..hazards.tracker import Conflict, MemRanges

__all__ = ["Step", "ends_fenced", "is_annotated", "placed", "reordered"]

LOOK_AHEAD = 64
"""How many dispatches are examined for one that can run earlier."""


@dataclass(frozen=True, slots=True)
class Step:
    """A dispatch and whether a barrier precedes it; `conflict` gives the reason, None if the caller placed it."""

    node: Dispatch
    barrier: bool = False
    conflict: Conflict | None = None


def is_annotated(node: Dispatch) -> bool:
    """Whether the ranges can be complete: a dispatch without writes would have no effect."""
    return bool(node.writes)


def ends_fenced(nodes: Sequence[CapturedNode]) -> bool:
    """Whether anything that follows must wait: the last node is a barrier or has unknown ranges."""
    last = nodes[-1] if nodes else None
    return last is not None and not (isinstance(last, Dispatch) and is_annotated(last))


def placed(nodes: Iterable[CapturedNode]) -> Iterator[Step]:
    """The dispatches in order with the fewest barriers that this order allows, plus those placed by the caller.

    Each barrier is placed as late as possible, which is optimal. A dispatch without ranges has a barrier on both sides.
    """
    tracker = MemRanges()
    by_hand = unknown = False
    for index, node in enumerate(nodes):
        if not isinstance(node, Dispatch):
            by_hand = True
            continue
        fence = by_hand or unknown or not is_annotated(node)
        if fence:
            tracker.reset()
        conflict = tracker.track(*node.spans, index)
        yield Step(node, barrier=fence or conflict is not None, conflict=conflict)
        by_hand, unknown = False, not is_annotated(node)


def reordered(nodes: Sequence[CapturedNode]) -> list[CapturedNode]:
    """Groups dispatches that need no barrier between them.

    When a dispatch must wait, later ones that neither wait nor depend on anything they overtake are moved before it.
    """
    order: list[CapturedNode] = []
    stretch: list[Dispatch] = []
    for node in nodes:
        if isinstance(node, Dispatch) and is_annotated(node):
            stretch.append(node)
        else:
            order += [*_grouped(stretch), node]
            stretch = []
    return [*order, *_grouped(stretch)]


def _grouped(nodes: list[Dispatch]) -> Iterator[Dispatch]:
    group = MemRanges()
    touched = [node.spans for node in nodes]
    used = [False] * len(nodes)
    for first, node in enumerate(nodes):
        if used[first]:
            continue
        if group.find(*touched[first]) is not None:
            for other in _that_can_go_first(nodes, touched, used, first, group):
                used[other] = True
                yield nodes[other]
            group.reset()
        group.record(*touched[first])
        used[first] = True
        yield node


def _that_can_go_first(
    nodes: list[Dispatch],
    touched: list[tuple[list[Span], list[Span]]],
    used: list[bool],
    first: int,
    group: MemRanges,
) -> Iterator[int]:
    overtaken = MemRanges()
    overtaken.record(*touched[first])
    if not nodes[first].op_kind.is_reorderable():
        return
    for other in range(first + 1, min(first + LOOK_AHEAD, len(nodes))):
        if used[other]:
            continue
        if not nodes[other].op_kind.is_reorderable():
            return
        if group.find(*touched[other]) is None and overtaken.find(*touched[other]) is None:
            group.record(*touched[other])
            yield other
        else:
            overtaken.record(*touched[other])

"""Order of dispatches: where barriers are needed, and reordering so that fewer are.

A barrier placed by hand may stand for an order that no buffer tells of, so nothing moves across one. The same holds for
a dispatch that is not said to write anything: its ranges cannot be complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..encoder import CapturedNode, Dispatch
from ..hazards.ranges import Span
from ..hazards.tracker import Conflict, MemRanges

__all__ = ["Step", "ends_fenced", "is_annotated", "placed", "reordered"]

LOOK_AHEAD = 64
"""Dispatches that are looked at for one that can go first, the one that waits among them."""


@dataclass(frozen=True, slots=True)
class Step:
    """A dispatch of a sequence with its barriers; `conflict` says why, and is None for one placed by hand."""

    node: Dispatch
    barrier: bool = False
    conflict: Conflict | None = None


def is_annotated(node: Dispatch) -> bool:
    """Whether its ranges can be complete: a dispatch that writes nothing would be for nothing."""
    return bool(node.writes)


def ends_fenced(nodes: Sequence[CapturedNode]) -> bool:
    """Whether what follows has to wait for all of this: it ends with a barrier by hand, or with unknown ranges."""
    last = nodes[-1] if nodes else None
    return last is not None and not (isinstance(last, Dispatch) and is_annotated(last))


def placed(nodes: Iterable[CapturedNode]) -> Iterator[Step]:
    """Dispatches in their order, with as few barriers as that order allows, and those placed by hand.

    Each barrier comes as late as it can, which no other choice beats. A dispatch without ranges has one on each side.
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
    """An order in which dispatches that need no barrier stand together.

    Whenever one has to wait, those behind it that neither wait nor depend on what they overtake go first.
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

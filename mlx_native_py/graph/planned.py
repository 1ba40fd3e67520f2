"""The dispatches of a plan, with their scalars in an arena, and the messages that replay them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..encoder import DeviceContext, Dispatch
from ..encoder.dispatch import Value
from ..encoder.parameters import Cell
from ..encoder.sender import Sender
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from .arena import Arena
from .order import Step

__all__ = ["Message", "Planned", "PlannedValue", "allocations", "final_binding", "in_arena", "messages"]

Message = tuple[str, tuple[Any, ...]]
"""A selector of the compute encoder and its arguments; `ARENA` stands for the arena's MTLBuffer."""
PlannedValue = MlxBuffer | Cell | None
"""What a plan binds at a slot: every inline number lies in a buffer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One dispatch, and its barrier; the numbers among its values are cells of the arena."""

    step: Step
    values: tuple[PlannedValue, ...]
    settable: Mapping[int, Cell]
    """Numbers that can be set between replays, by slot."""

    @property
    def dispatch(self) -> Dispatch:
        return replace(self.step.node, values=self.values)

    def current(self, arena: Arena) -> Dispatch:
        """With its numbers inline, as they are now: for an encoder that is told one dispatch at a time."""
        values: list[Value] = list(self.step.node.values)
        for slot, cell in self.settable.items():
            values[slot] = arena.number_at(cell)
        return replace(self.step.node, values=tuple(values))


def in_arena(steps: Iterable[Step], arena: Arena) -> list[Planned]:
    """Each dispatch with its numbers in the arena."""
    planned = []
    for step in steps:
        node = step.node
        values: tuple[PlannedValue, ...] = tuple(
            arena.number(node, slot, value) if isinstance(value, bytes) else value
            for slot, value in enumerate(node.values)
        )
        cells = {slot: value for slot, value in enumerate(values) if isinstance(value, Cell)}
        settable = {slot: cell for slot, cell in cells.items() if arena.can_be_set(node, slot)}
        planned.append(Planned(step, values, settable))
    arena.close()
    return planned


def final_binding(sequence: Sequence[Planned], arena: Arena, slot: int) -> Value:
    """What is bound at `slot` after a sequence, with the scalars that were set last; None if nothing is."""
    for each in reversed(sequence):
        values = each.step.node.values
        if slot < len(values) and values[slot] is not None:
            return each.current(arena).values[slot]
    return None


def allocations(nodes: Iterable[Dispatch]) -> list[Allocation]:
    """All memory that the dispatches bind, or say that they use."""
    return list(dict.fromkeys(buffer.allocation for node in nodes for buffer in node.buffers))


class _Messages:
    """Stands where a compute encoder would, and writes down what is sent to it."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def __getattr__(self, selector: str) -> Any:
        return lambda *arguments: self.sent.append((selector, arguments))


def messages(sequence: Iterable[Planned], device: DeviceContext, *, closes: bool) -> list[Message]:
    """All messages of a replay to an encoder in which nothing is set; `closes` ends it with a barrier."""
    target = _Messages()
    barrier = partial(target.memoryBarrierWithScope_, device.barrier_scope)
    sender = Sender(target, barrier)
    for each in sequence:
        if each.step.barrier:
            barrier()
        each.dispatch.declare(device.backend, target)
        sender.send(each.dispatch)
    if closes:
        barrier()
    return target.sent

"""The dispatches of a plan with their scalars in an arena, and the messages that replay them."""

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
"""A bound value in a plan: every inline value is stored in a buffer."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One dispatch and its barrier, with arena cells for its inline values."""

    step: Step
    values: tuple[PlannedValue, ...]
    settable: Mapping[int, Cell]
    """Values that can be set between replays, by slot."""

    @property
    def dispatch(self) -> Dispatch:
        return replace(self.step.node, values=self.values)

    def current(self, arena: Arena) -> Dispatch:
        """The dispatch with its current values inline, for an encoder that sends one dispatch at a time."""
        values: list[Value] = list(self.step.node.values)
        for slot, cell in self.settable.items():
            values[slot] = arena.number_at(cell)
        return replace(self.step.node, values=tuple(values))


def in_arena(steps: Iterable[Step], arena: Arena) -> list[Planned]:
    """Moves the inline values of each dispatch to the arena."""
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
    """The value bound at `slot` after a sequence, with current scalars; None if nothing is bound."""
    for each in reversed(sequence):
        values = each.step.node.values
        if slot < len(values) and values[slot] is not None:
            return each.current(arena).values[slot]
    return None


def allocations(nodes: Iterable[Dispatch]) -> list[Allocation]:
    """All memory that the dispatches bind or declare."""
    return list(dict.fromkeys(buffer.allocation for node in nodes for buffer in node.buffers))


class _Messages:
    """Stands in for a compute encoder and records the messages sent to it."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def __getattr__(self, selector: str) -> Any:
        return lambda *arguments: self.sent.append((selector, arguments))


def messages(sequence: Iterable[Planned], device: DeviceContext, *, closes: bool) -> list[Message]:
    """All messages of a replay to an encoder with no state set; `closes` adds a barrier at the end."""
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

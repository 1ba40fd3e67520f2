"""Indirect commands: dispatches encoded once, and their prepared launches, kept until a command is edited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from operator import attrgetter
from typing import Any

from .. import memory
from ..memory import DeviceMemory
from ..misuse import MetalMisuse
from ..program import Size
from ..values import within
from .bindings import Bindings
from .device import DeviceState
from .launches import LaunchBatch, is_settled
from .passes import Declared, EncodedDispatch, LostResource, PassItem
from .pipeline import PipelineState
from .residency import Resident

_is_live = attrgetter("live")


@dataclass(frozen=True)
class IndirectRules:
    """The limits of an indirect command buffer's commands."""

    types: int
    inherit_buffers: bool
    inherit_pipeline: bool
    most_buffers: int
    most_threadgroup: int

    def allow(self, kind: int) -> None:
        if not self.types & kind:
            raise MetalMisuse(f"the descriptor's commandTypes {self.types} do not include {kind}")


class IndirectCommand:
    """One dispatch; it holds addresses, not references."""

    __slots__ = ("barrier", "buffers", "by_threads", "count", "declared", "group", "index", "pipeline", "threadgroup")

    def __init__(self, index: int) -> None:
        self.index = index
        self.clear()

    def clear(self) -> None:
        self.pipeline: PipelineState | None = None
        self.declared: Declared | None = None
        self.buffers: dict[int, tuple[DeviceMemory, int]] = {}
        self.threadgroup: dict[int, int] = {}
        self.barrier = False
        self.by_threads = False
        self.count: Size | None = None  # of threads or threadgroups; None where nothing was encoded
        self.group: Size = (1, 1, 1)

    def take(self, other: IndirectCommand) -> None:
        """Becomes a copy of another command."""
        self.pipeline, self.barrier, self.declared = other.pipeline, other.barrier, other.declared
        self.by_threads, self.count, self.group = other.by_threads, other.count, other.group
        self.buffers, self.threadgroup = dict(other.buffers), dict(other.threadgroup)

    def dispatch(self, bindings: Bindings, resident: Resident, path: str) -> EncodedDispatch | None:
        """What this command does now, on top of what it inherits; None where nothing was encoded."""
        if self.count is None:
            return None
        if self.pipeline is not None:
            bindings.pipeline = self.pipeline
        for slot, (allocation, offset) in self.buffers.items():
            self._check_memory(allocation, slot, resident)
            bindings.bind(allocation, offset, slot)
        for slot, length in self.threadgroup.items():
            bindings.set_threadgroup(length, slot)
        (a, b, d), (x, y, z) = self.count, self.group
        if self.by_threads:
            groups = (-(-a // x), -(-b // y), -(-d // z)) if x and y and z else (1, 1, 1)
            size = bindings.size(self.count, groups, self.group)
        else:
            size = bindings.size((a * x, b * y, d * z), self.count, self.group)
        encoded = bindings.dispatch(size, resident, path)
        if self.declared is not None:
            encoded.declared = self.declared
        return encoded

    def _check_memory(self, allocation: DeviceMemory, slot: int, resident: Resident) -> None:
        name = f"indirect command {self.index}: buffer {allocation.label or ''!r} at index {slot}"
        if not allocation.live:
            raise LostResource(f"{name} was released before the command ran")
        # A member itself, mostly; else part of a heap.
        inside = allocation in resident or any(
            home.address <= allocation.address < home.address + home.length for home in resident
        )
        if not inside:
            raise LostResource(f"{name} is not resident; call useResource_usage_ or add it to a residency set")


class IndirectState:
    """The commands of an indirect command buffer, and the prepared launches of ranges."""

    def __init__(self, device: DeviceState, rules: IndirectRules, count: int) -> None:
        self.device = device
        self.rules = rules
        self.label: str | None = None
        self.commands = [IndirectCommand(place) for place in range(count)]
        self.expanded: dict[tuple[int, int, str], Expanded] = {}

    def edited(self) -> None:
        """A command changes: nothing that was worked out holds any longer."""
        self.expanded = {}

    def reset(self, first: int, count: int) -> None:
        self.edited()
        for command in self.commands[first : first + count]:
            command.clear()

    def copy(self, source: IndirectState, first: int, count: int, target: int) -> None:
        self.edited()
        for step in range(count):
            self.commands[target + step].take(source.commands[first + step])


@dataclass(eq=False, slots=True)
class Replay(PassItem):
    """The execution of a range of an indirect command buffer."""

    commands: IndirectState
    first: int
    count: int
    inherited: Bindings  # the encoder's, of that moment where the commands inherit any
    resident: Resident
    path: str = ""
    span: tuple[DeviceMemory, int] | None = None  # where (location, length) will be read instead

    def expand(self, resident: Resident) -> list[list[EncodedDispatch]]:
        """The dispatches of the range, split where a command has a barrier before it."""
        known = self._known(resident)
        return known if isinstance(known, list) else known.again(resident)

    def kept(self, resident: Resident) -> KeptBatch | None:
        """The same as one batch that was made before; None while the commands, or their engines, may change."""
        known = self._known(resident)
        return None if isinstance(known, list) else known.batch()

    def _known(self, resident: Resident) -> Expanded | list[list[EncodedDispatch]]:
        first, count = self._range()
        rules, table = self.commands.rules, self.commands.expanded
        if rules.inherit_buffers or rules.inherit_pipeline:
            return self._run_through(first, count, resident)
        known = table.get((first, count, self.path))
        if known is None or not known.holds(resident):
            known = table[first, count, self.path] = Expanded(self._run_through(first, count, resident), resident)
        return known

    def _range(self) -> tuple[int, int]:
        if self.span is None:
            return self.first, self.count
        allocation, offset = self.span
        first, count = memory.view(allocation.address + offset, 8).cast("I")
        within((first, count), len(self.commands.commands), "range read from the indirect buffer")
        return first, count

    def _run_through(self, first: int, count: int, resident: Resident) -> list[list[EncodedDispatch]]:
        epochs: list[list[EncodedDispatch]] = [[]]
        for command in self.commands.commands[first : first + count]:
            if command.barrier and epochs[-1]:
                epochs.append([])
            dispatched = command.dispatch(self._inherited(), resident, self.path)
            if dispatched is not None:
                epochs[-1].append(dispatched)
        return epochs

    def _inherited(self) -> Bindings:
        """What each command starts from."""
        rules = self.commands.rules
        if rules.inherit_buffers:
            return self.inherited.snapshot()
        fresh = Bindings(self.commands.device)
        if rules.inherit_pipeline and self.inherited.pipeline is not None:
            fresh.pipeline = self.inherited.pipeline
        return fresh


class KeptBatch(LaunchBatch):
    """The dispatches of a replay as one batch, timed as a whole."""

    __slots__ = ("has_loops", "taken_ns")

    def __init__(self, dispatches: Sequence[EncodedDispatch]) -> None:
        super().__init__(dispatches)
        self.has_loops = any(dispatch.pipeline.code.has_loops for dispatch in dispatches)
        self.taken_ns: int | None = None  # by the last run

    def ran(self, times: Any) -> None:
        self.taken_ns = times[-1] - times[0]


class Expanded:
    """Dispatches of commands without inherited state, valid until a command is edited."""

    def __init__(self, epochs: list[list[EncodedDispatch]], resident: Resident) -> None:
        self._epochs = epochs
        self._resident = resident  # where all the memory was found last
        self._batch: KeptBatch | None = None
        dispatches = [dispatch for epoch in epochs for dispatch in epoch]
        self._needed = {each for dispatch in dispatches for each in dispatch.allocations if each is not None}

    def holds(self, resident: Resident) -> bool:
        """Whether all memory is there as plainly as it was; otherwise each command is looked at again."""
        if resident is not self._resident:
            if not self._needed <= resident.keys():
                return False
            self._resident = resident
        return all(map(_is_live, self._needed))

    def again(self, resident: Resident) -> list[list[EncodedDispatch]]:
        """Dispatches with launches of their own."""
        return [[dispatch.again(resident) for dispatch in epoch] for epoch in self._epochs]

    def batch(self) -> KeptBatch | None:
        """All of them as one batch, once the engine of each is settled."""
        if self._batch is None:
            dispatches = [dispatch for epoch in self._epochs for dispatch in epoch]
            if dispatches and all(starmap(is_settled, {(each.pipeline, each.shape) for each in dispatches})):
                self._batch = KeptBatch([dispatch.again(self._resident) for dispatch in dispatches])
        return self._batch

"""Dispatches reduced to the messages they take: state that is already set is not sent, numbers lie in one arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..encoder import CapturedDispatch
from ..encoder.resolver import Resolver, Values
from ..errors import InvalidArgument
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import BUFFER_SLOTS, Pipeline
from .arena import Arena
from .bindless import ADDRESS_BYTES, bindless_source
from .order import Step

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["Bound", "Left", "Message", "Prepared", "allocations", "bindings", "check", "declare", "messages", "tables"]

Bound = tuple[Any, int, int]
"""MTLBuffer (None for the arena), offset and slot."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to the compute encoder; where a buffer is None, the arena is meant."""

    selector: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """One dispatch: its pipeline, and everything that it binds."""

    step: Step
    pipeline: Pipeline
    bound: tuple[Bound, ...]
    numbers: tuple[tuple[int, int], ...] = ()
    """Slot and offset in the arena of each number that can be set."""

    def values(self, arena: Arena) -> Values:
        """What the kernel itself takes at each slot, for an encoder that is told one dispatch at a time."""
        found: Values = [None] * len(self.step.node.pipeline.buffers)
        for each in self.step.node.bindings:
            found[each.slot] = each.value
        for slot, offset in self.numbers:
            found[slot] = arena.number_at(offset, found[slot])
        return found


class Left:
    """What is bound at each slot after a sequence, with the numbers that were set last."""

    def __init__(self, sequence: Iterable[Prepared], arena: Arena) -> None:
        self._arena = arena
        self._values: Values = [None] * BUFFER_SLOTS
        self._cells: dict[int, int] = {}
        for each in sequence:
            for binding in each.step.node.bindings:
                self._values[binding.slot] = binding.value
                self._cells.pop(binding.slot, None)
            self._cells.update(each.numbers)

    def values(self) -> Values:
        found = list(self._values)
        for slot, offset in self._cells.items():
            found[slot] = self._arena.number_at(offset, found[slot])
        return found


def check(device: MlxDevice, steps: Iterable[Step]) -> None:
    """Refuses what an encoder would refuse: replays send these dispatches without another look."""
    resolver = Resolver(device)
    seen: set[tuple[Pipeline, int, MlxBuffer]] = set()
    for step in steps:
        pipeline = step.node.pipeline
        resolver.own(pipeline)
        for each in step.node.bindings:
            if isinstance(each.value, MlxBuffer) and (key := (pipeline, each.slot, each.value)) not in seen:
                seen.add(key)
                resolver.check(*key)


def declare(device: MlxDevice, enc: Any, resources: Sequence[Any]) -> None:
    """Says what commands and tables reach, which Metal cannot see: it orders passes by that, resident or not."""
    if not resources:
        return
    metal = device.backend.Metal
    enc.useResources_count_usage_(resources, len(resources), metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite)


def allocations(nodes: Iterable[CapturedDispatch]) -> list[Allocation]:
    """All memory that the dispatches bind, or say that they use."""
    buffers = [buffer for node in nodes for buffer in node.buffers]
    return list(dict.fromkeys(buffer.allocation for buffer in buffers))


def bindings(_: MlxDevice, steps: Sequence[Step], arena: Arena) -> list[Prepared]:
    """Each dispatch with its buffers at their slots, and its numbers in the arena."""
    found = []
    for step in steps:
        node = step.node
        bound = tuple(
            (each.value.mtl, each.value.offset, each.slot)
            if isinstance(each.value, MlxBuffer)
            else (None, arena.number(node, each.slot, each.value), each.slot)
            for each in node.bindings
        )
        numbers = tuple((slot, offset) for mtl, offset, slot in bound if mtl is None and arena.can_be_set(node, slot))
        found.append(Prepared(step, node.pipeline, bound, numbers))
    arena.close()
    return found


def tables(device: MlxDevice, steps: Sequence[Step], arena: Arena) -> list[Prepared]:
    """Each dispatch with one buffer, the arena, in which the addresses of all its arguments are."""
    if not device.capabilities.gpu_address:
        raise InvalidArgument(f"{device.name} does not tell where its buffers are, so addresses cannot be in a table")
    found = []
    for step in steps:
        node = step.node
        addresses: list[int | None] = [None] * len(node.pipeline.buffers)
        for each in node.bindings:
            if isinstance(each.value, MlxBuffer):
                addresses[each.slot] = each.value.mtl.gpuAddress() + each.value.offset
        table, numbers = arena.table(addresses), []
        for each in node.bindings:
            if isinstance(each.value, bytes):
                offset = arena.number(node, each.slot, each.value)
                arena.point(table + ADDRESS_BYTES * each.slot, offset)
                if arena.can_be_set(node, each.slot):
                    numbers.append((each.slot, offset))
        found.append(Prepared(step, _bindless(device, node.pipeline), ((None, table, 0),), tuple(numbers)))
    arena.close()
    return found


def _bindless(device: MlxDevice, pipeline: Pipeline) -> Pipeline:
    library, constants = pipeline.origin
    rewritten = device.kernels.library(bindless_source(library.source), library.options, name=pipeline.name)
    return device.kernels.get_pipeline(pipeline.name, constants, library=rewritten)


def messages(sequence: Sequence[Prepared], scope: int) -> list[list[Message]]:
    """What each dispatch sends, in this order, from an encoder in which nothing is set; `scope` is that of barriers."""
    bound: dict[int, tuple[Any, int]] = {}
    shared: dict[int, int] = {}
    pipeline: Pipeline | None = None
    found: list[list[Message]] = []
    for each in sequence:
        sent: list[Message] = []
        if each.step.barrier:
            sent.append(Message("memoryBarrierWithScope_", (scope,)))
        if each.pipeline is not pipeline:
            pipeline = each.pipeline
            sent.append(Message("setComputePipelineState_", (pipeline.mtl,)))
        for mtl, offset, slot in each.bound:
            now = bound.get(slot)
            if now is None or now[0] is not mtl:
                sent.append(Message("setBuffer_offset_atIndex_", (mtl, offset, slot)))
            elif now[1] != offset:
                sent.append(Message("setBufferOffset_atIndex_", (offset, slot)))
            bound[slot] = mtl, offset
        for index, length in each.step.node.launch.shared:
            if shared.get(index) != length:
                shared[index] = length
                sent.append(Message("setThreadgroupMemoryLength_atIndex_", (length, index)))
        found.append([*sent, _launch(each.step.node)])
    return found


def _launch(node: CapturedDispatch) -> Message:
    """The one that launches it."""
    way = "dispatchThreads" if node.launch.by_threads else "dispatchThreadgroups"
    return Message(f"{way}_threadsPerThreadgroup_", (node.launch.grid, node.launch.group))

"""Indirect command buffers: dispatches encoded once, replayed many times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import constants as c
from .. import memory
from ..memory import Allocation
from ..misuse import InvalidValue, MetalMisuse
from .base import Descriptor, Labelled, NSObject, attribute
from .buffer import MTLBuffer
from .passes import Dispatch, LostResource, Replay, Resident
from .pipeline import SLOTS, MTLComputePipelineState
from .values import MTLResourceID, instance, natural, size, truth, within

if TYPE_CHECKING:
    from .bindings import Bindings
    from .device import MTLDevice

COMPUTE_TYPES = c.MTLIndirectCommandTypeConcurrentDispatch | c.MTLIndirectCommandTypeConcurrentDispatchThreads
MOST_OFFSET = (1 << 32) - 1


class MTLIndirectCommandBufferDescriptor(Descriptor):
    """Which commands an indirect command buffer holds and what they inherit from the encoder."""

    commandTypes, setCommandTypes_ = attribute("commandTypes", natural, 0)
    inheritBuffers, setInheritBuffers_ = attribute("inheritBuffers", truth, True)
    inheritPipelineState, setInheritPipelineState_ = attribute("inheritPipelineState", truth, True)
    maxKernelBufferBindCount, setMaxKernelBufferBindCount_ = attribute("maxKernelBufferBindCount", natural, SLOTS)
    maxKernelThreadgroupMemoryBindCount, setMaxKernelThreadgroupMemoryBindCount_ = attribute(
        "maxKernelThreadgroupMemoryBindCount", natural, SLOTS
    )


@dataclass(frozen=True)
class Rules:
    """What the commands of one indirect command buffer may do."""

    types: int
    inherit_buffers: bool
    inherit_pipeline: bool
    most_buffers: int
    most_threadgroup: int

    def allow(self, kind: int) -> None:
        if not self.types & kind:
            raise MetalMisuse(f"the descriptor's commandTypes {self.types} do not include {kind}")


class MTLIndirectComputeCommand(NSObject):
    """One dispatch of an indirect command buffer; it holds addresses, not references."""

    def __init__(self, rules: Rules, index: int, edited: Callable[[], None]) -> None:
        self._rules = rules
        self._index = index
        self._edited = edited
        self.reset()

    def reset(self) -> None:
        self._edited()
        self._pipeline: MTLComputePipelineState | None = None
        self._buffers: dict[int, tuple[Allocation, int]] = {}
        self._threadgroup: dict[int, int] = {}
        self._barrier = False
        self._grid: tuple[bool, tuple[int, int, int], tuple[int, int, int]] | None = None

    def setComputePipelineState_(self, pipeline: MTLComputePipelineState) -> None:
        self._edited()
        wanted = instance(pipeline, MTLComputePipelineState, "pipeline")
        if not wanted.supportIndirectCommandBuffers():
            raise MetalMisuse(f"kernel {wanted._name}: its pipeline was made without supportIndirectCommandBuffers")
        if self._rules.inherit_pipeline:
            raise MetalMisuse(f"command {self._index} inherits its pipeline; it cannot set one")
        self._pipeline = wanted

    def setKernelBuffer_offset_atIndex_(self, buffer: MTLBuffer, offset: int, index: int) -> None:
        self._edited()
        bound, start, slot = instance(buffer, MTLBuffer, "buffer"), natural(offset, "offset"), natural(index, "index")
        if self._rules.inherit_buffers:
            raise MetalMisuse(f"command {self._index} inherits its buffers; it cannot bind one")
        if slot >= self._rules.most_buffers:
            raise InvalidValue(
                f"buffer index {slot}: the descriptor's maxKernelBufferBindCount is {self._rules.most_buffers}"
            )
        if start >= bound.length() or start > MOST_OFFSET:
            raise InvalidValue(
                f"offset {start} at index {slot}: {bound!r} has {bound.length()} bytes, and indirect "
                f"commands keep 32 bits of an offset"
            )
        self._buffers[slot] = bound._allocation, start

    def setThreadgroupMemoryLength_atIndex_(self, length: int, index: int) -> None:
        self._edited()
        slot = natural(index, "index")
        if slot >= self._rules.most_threadgroup:
            raise InvalidValue(
                f"threadgroup index {slot}: the descriptor's maxKernelThreadgroupMemoryBindCount is "
                f"{self._rules.most_threadgroup}"
            )
        self._threadgroup[slot] = natural(length, "length")

    def concurrentDispatchThreadgroups_threadsPerThreadgroup_(
        self, groups: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        self._edited()
        self._rules.allow(c.MTLIndirectCommandTypeConcurrentDispatch)
        self._grid = False, size(groups, "threadgroups"), size(group, "threadsPerThreadgroup")

    def concurrentDispatchThreads_threadsPerThreadgroup_(
        self, threads: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        self._edited()
        self._rules.allow(c.MTLIndirectCommandTypeConcurrentDispatchThreads)
        self._grid = True, size(threads, "threads"), size(group, "threadsPerThreadgroup")

    def setBarrier(self) -> None:
        self._edited()
        self._barrier = True

    def clearBarrier(self) -> None:
        self._edited()
        self._barrier = False

    def _take(self, other: MTLIndirectComputeCommand) -> None:
        self._edited()
        self._pipeline, self._grid, self._barrier = other._pipeline, other._grid, other._barrier
        self._buffers, self._threadgroup = dict(other._buffers), dict(other._threadgroup)

    def _dispatch(self, bindings: Bindings, resident: Resident, group: str) -> Dispatch | None:
        """What this command does now, on top of what it inherits; None where nothing was encoded."""
        if self._grid is None:
            return None
        if self._pipeline is not None:
            bindings.set_pipeline(self._pipeline)
        for slot, (allocation, offset) in self._buffers.items():
            self._check_memory(allocation, slot, resident)
            bindings.bind_allocation(allocation, offset, slot)
        for slot, length in self._threadgroup.items():
            bindings.set_threadgroup(length, slot)
        by_threads, count, part = self._grid
        if by_threads:
            groups = tuple(-(-whole // step) if step else 1 for whole, step in zip(count, part, strict=True))
            return bindings.dispatch(count, groups, part, resident, group)  # type: ignore[arg-type]
        whole = count[0] * part[0], count[1] * part[1], count[2] * part[2]
        return bindings.dispatch(whole, count, part, resident, group)

    def _check_memory(self, allocation: Allocation, slot: int, resident: Resident) -> None:
        name = f"indirect command {self._index}: buffer {allocation.label or ''!r} at index {slot}"
        if not allocation.live:
            raise LostResource(f"{name} was released before the command ran")
        # A member itself, mostly; else part of a heap.
        inside = allocation in resident or any(
            home.address <= allocation.address < home.address + home.length for home in resident
        )
        if not inside:
            raise LostResource(f"{name} is not resident; call useResource_usage_ or add it to a residency set")


class MTLIndirectCommandBuffer(Labelled):
    """Commands that an encoder executes by range; it does not hold on to the buffers they bind."""

    def __init__(self, device: MTLDevice, descriptor: MTLIndirectCommandBufferDescriptor, count: int) -> None:
        self._device = device
        self._rules = Rules(
            descriptor.commandTypes(),
            descriptor.inheritBuffers(),
            descriptor.inheritPipelineState(),
            min(descriptor.maxKernelBufferBindCount(), SLOTS),
            min(descriptor.maxKernelThreadgroupMemoryBindCount(), SLOTS),
        )
        self._expanded: dict[tuple[int, int, str], _Expanded] = {}
        edited = self._expanded.clear
        self._commands = [MTLIndirectComputeCommand(self._rules, place, edited) for place in range(count)]

    def device(self) -> MTLDevice:
        return self._device

    def size(self) -> int:
        return len(self._commands)

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(id(self))

    def indirectComputeCommandAtIndex_(self, index: int) -> MTLIndirectComputeCommand:
        place = natural(index, "index")
        if place >= len(self._commands):
            raise InvalidValue(f"command {place}: there are {len(self._commands)}")
        return self._commands[place]

    def resetWithRange_(self, run: tuple[int, int]) -> None:
        part = within(run, len(self._commands), "range")
        for command in self._commands[part.location : part.location + part.length]:
            command.reset()

    def _copy(self, source: MTLIndirectCommandBuffer, first: int, count: int, target: int) -> None:
        for step in range(count):
            self._commands[target + step]._take(source._commands[first + step])

    def _inherited(self, encoder: Bindings) -> Bindings:
        """What each command starts from."""
        from .bindings import Bindings

        if self._rules.inherit_buffers:
            return encoder.snapshot()
        fresh = Bindings(self._device)
        if self._rules.inherit_pipeline and encoder.pipeline is not None:
            fresh.set_pipeline(encoder.pipeline)
        return fresh

    def _expand(self, replay: Replay, resident: Resident) -> list[list[Dispatch]]:
        """The dispatches of a range, split where a command has a barrier before it."""
        first, count = replay.first, replay.count
        if replay.span is not None:
            allocation, offset = replay.span
            words = memory.view(allocation.address + offset, 8).cast("I")
            first, count = words[0], words[1]
            within((first, count), len(self._commands), "range read from the indirect buffer")
        if self._rules.inherit_buffers or self._rules.inherit_pipeline:
            return self._run_through(first, count, replay, resident)
        known = self._expanded.get((first, count, replay.group))
        if known is None or not known.holds(resident):
            epochs = self._run_through(first, count, replay, resident)
            known = self._expanded[first, count, replay.group] = _Expanded(epochs)
        return known.again(resident)

    def _run_through(self, first: int, count: int, replay: Replay, resident: Resident) -> list[list[Dispatch]]:
        epochs: list[list[Dispatch]] = [[]]
        for command in self._commands[first : first + count]:
            if command._barrier and epochs[-1]:
                epochs.append([])
            found = command._dispatch(self._inherited(replay.inherited), resident, replay.group)
            if found is not None:
                epochs[-1].append(found)
        return epochs


class _Expanded:
    """The dispatches of commands that inherit nothing, found once; they stay the same until a command is edited."""

    def __init__(self, epochs: list[list[Dispatch]]) -> None:
        self._epochs = epochs
        dispatches = [dispatch for epoch in epochs for dispatch in epoch]
        self._needed = {each for dispatch in dispatches for each in dispatch.allocations if each is not None}

    def holds(self, resident: Resident) -> bool:
        """Whether all memory is there as plainly as it was; otherwise each command is looked at again."""
        return self._needed <= resident.keys() and all(each.live for each in self._needed)

    def again(self, resident: Resident) -> list[list[Dispatch]]:
        """Launches of their own, since running one may change it."""
        return [
            [
                Dispatch(
                    d.pipeline, type(d.launch).from_buffer_copy(d.launch), d.shape, d.allocations, resident, d.group
                )
                for d in epoch
            ]
            for epoch in self._epochs
        ]


def new_indirect_command_buffer(
    device: MTLDevice,
    descriptor: MTLIndirectCommandBufferDescriptor,
    count: int,
) -> MTLIndirectCommandBuffer | None:
    """An indirect command buffer for compute, or None where the device has none."""
    asked = instance(descriptor, MTLIndirectCommandBufferDescriptor, "descriptor")
    number = natural(count, "maxCommandCount")
    kinds = asked.commandTypes()
    if not device._profile.indirect_command_buffers:
        return None
    if not kinds or kinds & ~COMPUTE_TYPES:
        raise InvalidValue(
            f"commandTypes {kinds}: this device has compute commands only, "
            f"{c.MTLIndirectCommandTypeConcurrentDispatch} and "
            f"{c.MTLIndirectCommandTypeConcurrentDispatchThreads}"
        )
    if not number:
        raise InvalidValue("maxCommandCount is 0")
    return MTLIndirectCommandBuffer(device, asked, number)

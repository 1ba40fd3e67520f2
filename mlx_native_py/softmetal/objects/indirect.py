"""Indirect command buffers: dispatches encoded once and replayed."""

from __future__ import annotations

from .. import constants as c
from ..engines.abi import SLOTS
from ..engines.choice import MANY_THREADS
from ..execution.indirect import IndirectCommand, IndirectRules, IndirectState
from ..execution.passes import Declared
from ..misuse import InvalidValue, MetalMisuse
from ..values import MTLResourceID, instance, natural, size, truth, within
from .base import Descriptor, Labelled, NSObject, attribute
from .buffer import MTLBuffer
from .owned import DeviceObject, Owned
from .pipeline import MTLComputePipelineState

COMPUTE_TYPES = c.MTLIndirectCommandTypeConcurrentDispatch | c.MTLIndirectCommandTypeConcurrentDispatchThreads
MOST_OFFSET = (1 << 32) - 1


class MTLIndirectCommandBufferDescriptor(Descriptor):
    """The command types of an indirect command buffer, and what they inherit from the encoder."""

    commandTypes, setCommandTypes_ = attribute("commandTypes", natural, 0)
    inheritBuffers, setInheritBuffers_ = attribute("inheritBuffers", truth, True)
    inheritPipelineState, setInheritPipelineState_ = attribute("inheritPipelineState", truth, True)
    maxKernelBufferBindCount, setMaxKernelBufferBindCount_ = attribute("maxKernelBufferBindCount", natural, SLOTS)
    maxKernelThreadgroupMemoryBindCount, setMaxKernelThreadgroupMemoryBindCount_ = attribute(
        "maxKernelThreadgroupMemoryBindCount", natural, SLOTS
    )


class MTLIndirectComputeCommand(NSObject):
    """One dispatch of an indirect command buffer; edits invalidate prepared launches."""

    def __init__(self, commands: IndirectState, command: IndirectCommand) -> None:
        self._commands = commands
        self._rules: IndirectRules = commands.rules
        self._command = command

    def reset(self) -> None:
        self._commands.reset(self._command.index, 1)

    def setComputePipelineState_(self, pipeline: MTLComputePipelineState) -> None:
        wanted = instance(pipeline, MTLComputePipelineState, "pipeline")
        if not wanted.supportIndirectCommandBuffers():
            name = wanted.state.name
            raise MetalMisuse(f"kernel {name}: its pipeline was made without supportIndirectCommandBuffers")
        if self._rules.inherit_pipeline:
            raise MetalMisuse(f"command {self._command.index} inherits its pipeline; it cannot set one")
        self._commands.edited()
        self._command.pipeline = wanted.state

    def setKernelBuffer_offset_atIndex_(self, buffer: MTLBuffer, offset: int, index: int) -> None:
        bound, start, slot = instance(buffer, MTLBuffer, "buffer"), natural(offset, "offset"), natural(index, "index")
        if self._rules.inherit_buffers:
            raise MetalMisuse(f"command {self._command.index} inherits its buffers; it cannot bind one")
        if slot >= self._rules.most_buffers:
            raise InvalidValue(
                f"buffer index {slot}: the descriptor's maxKernelBufferBindCount is {self._rules.most_buffers}"
            )
        if start >= bound.length() or start > MOST_OFFSET:
            raise InvalidValue(
                f"offset {start} at index {slot}: {bound!r} has {bound.length()} bytes, and indirect "
                f"commands keep 32 bits of an offset"
            )
        self._commands.edited()
        self._command.buffers[slot] = bound.allocation, start

    def setThreadgroupMemoryLength_atIndex_(self, length: int, index: int) -> None:
        slot = natural(index, "index")
        if slot >= self._rules.most_threadgroup:
            raise InvalidValue(
                f"threadgroup index {slot}: the descriptor's maxKernelThreadgroupMemoryBindCount is "
                f"{self._rules.most_threadgroup}"
            )
        self._commands.edited()
        self._command.threadgroup[slot] = natural(length, "length")

    def concurrentDispatchThreadgroups_threadsPerThreadgroup_(
        self, groups: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        self._rules.allow(c.MTLIndirectCommandTypeConcurrentDispatch)
        self._dispatch(False, size(groups, "threadgroups"), size(group, "threadsPerThreadgroup"))

    def concurrentDispatchThreads_threadsPerThreadgroup_(
        self, threads: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        self._rules.allow(c.MTLIndirectCommandTypeConcurrentDispatchThreads)
        self._dispatch(True, size(threads, "threads"), size(group, "threadsPerThreadgroup"))

    def declare(self, declared: Declared) -> None:
        """Says more of the command than Metal asks for, so that checked mode holds it to that."""
        self._commands.edited()
        self._command.declared = declared

    def setBarrier(self) -> None:
        self._commands.edited()
        self._command.barrier = True

    def clearBarrier(self) -> None:
        self._commands.edited()
        self._command.barrier = False

    def _dispatch(self, by_threads: bool, count: tuple[int, int, int], group: tuple[int, int, int]) -> None:
        self._commands.edited()
        self._command.by_threads, self._command.group, self._command.count = by_threads, group, count
        if self._command.pipeline is not None:
            self._command.pipeline.prepare(group, MANY_THREADS)  # what is kept is kept to run again


class MTLIndirectCommandBuffer(Owned, Labelled):
    """Commands that an encoder executes by range; it does not retain the buffers they bind."""

    def __init__(self, device: DeviceObject, descriptor: MTLIndirectCommandBufferDescriptor, count: int) -> None:
        super().__init__(device)
        rules = IndirectRules(
            descriptor.commandTypes(),
            descriptor.inheritBuffers(),
            descriptor.inheritPipelineState(),
            min(descriptor.maxKernelBufferBindCount(), SLOTS),
            min(descriptor.maxKernelThreadgroupMemoryBindCount(), SLOTS),
        )
        self.state = IndirectState(device.state, rules, count)

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self.state.label = self._label

    def size(self) -> int:
        return len(self.state.commands)

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(id(self))

    def indirectComputeCommandAtIndex_(self, index: int) -> MTLIndirectComputeCommand:
        place = natural(index, "index")
        if place >= self.size():
            raise InvalidValue(f"command {place}: there are {self.size()}")
        return MTLIndirectComputeCommand(self.state, self.state.commands[place])

    def resetWithRange_(self, run: tuple[int, int]) -> None:
        part = within(run, self.size(), "range")
        self.state.reset(part.location, part.length)


def new_indirect_command_buffer(
    device: DeviceObject,
    descriptor: MTLIndirectCommandBufferDescriptor,
    count: int,
) -> MTLIndirectCommandBuffer | None:
    """An indirect command buffer for compute, or None where the device has none."""
    asked = instance(descriptor, MTLIndirectCommandBufferDescriptor, "descriptor")
    number = natural(count, "maxCommandCount")
    kinds = asked.commandTypes()
    if not device.state.profile.indirect_command_buffers:
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

"""Indirect command buffers: a plan whose dispatches are encoded once in GPU memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DType
from ..encoder import DeviceContext, Dispatch
from ..errors import MlxError
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import BUFFER_SLOTS
from .arena import ARENA
from .planned import Planned

__all__ = ["Indirect", "indirect"]

_OFFSETS = 1 << 32
"""Commands store 32 bits of a buffer offset."""


class Indirect:
    """An encoded MTLIndirectCommandBuffer, and the messages needed to run it."""

    def __init__(
        self, device: DeviceContext, mtl: Any, sequence: Sequence[Planned], arena: MlxBuffer, resources: Sequence[Any]
    ) -> None:
        metal = device.backend.Metal
        self._mtl = mtl
        # Metal cannot see which resources the commands use; it orders passes by declared resources.
        self._resources = (*resources, arena.mtl)
        self._usage = metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite
        self._range = (0, len(sequence))
        self.arena = arena
        """The scalar arena that the commands refer to."""
        self._warmup = (
            None if device.capabilities.indirect_pipelines_stay_resident else _PipelineWarmup(device, sequence)
        )

    @property
    def message_count(self) -> int:
        return 2 + (0 if self._warmup is None else self._warmup.message_count)

    def send(self, enc: Any) -> None:
        """Runs the commands on an MTLComputeCommandEncoder."""
        enc.useResources_count_usage_(self._resources, len(self._resources), self._usage)
        if self._warmup is not None:
            self._warmup.send(enc)
        enc.executeCommandsInBuffer_withRange_(self._mtl, self._range)


class _PipelineWarmup:
    """Launches each pipeline once directly, because GPUs before Apple9 do not make those of commands resident.

    The launches use an indirect grid of zero threadgroups, since Metal's validation rejects a direct launch of none, or
    one without bindings.
    """

    def __init__(self, device: DeviceContext, sequence: Sequence[Planned]) -> None:
        first = {each.step.node.pipeline: each.step.node.launch for each in reversed(sequence)}
        self._launches = [(device.kernels.indirect(pipeline).mtl, launch) for pipeline, launch in first.items()]
        bindings = [binding for pipeline in first for binding in pipeline.buffers if binding is not None]
        words = max([3, *(-(-binding.size // 4) for binding in bindings)])
        self._none = device.empty(words, DType.U32).fill(0)
        slots = max(len(pipeline.buffers) for pipeline in first)
        self._bound = [self._none.mtl] * slots, [0] * slots, (0, slots)

    @property
    def message_count(self) -> int:
        return bool(self._bound[0]) + sum(2 + len(launch.shared) for _, launch in self._launches)

    def send(self, enc: Any) -> None:
        if self._bound[0]:
            enc.setBuffers_offsets_withRange_(*self._bound)
        for pipeline, launch in self._launches:
            enc.setComputePipelineState_(pipeline)
            for index, length in launch.shared:
                enc.setThreadgroupMemoryLength_atIndex_(length, index)
            enc.dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(
                self._none.mtl, 0, launch.group
            )


def indirect(
    device: DeviceContext, sequence: Sequence[Planned], arena: MlxBuffer, resources: Sequence[Any]
) -> Indirect | str:
    """The commands of a prepared sequence, or the reason why the device cannot run them."""
    if not sequence:
        return "there is nothing to run"
    if not device.capabilities.indirect_command_buffers:
        return f"{device.name} has no indirect command buffers that work"
    if far := next((each.step.node for each in sequence if _reaches_far(each.step.node)), None):
        return f"kernel {far.pipeline.label!r} has a buffer at an offset of 2**32 bytes or more"
    if textured := next((each.step.node for each in sequence if each.step.node.textures), None):
        return f"kernel {textured.pipeline.label!r} takes textures, which no indirect command can bind"
    try:
        used = dict.fromkeys(each.step.node.pipeline for each in sequence)
        pipelines = {pipeline: device.kernels.indirect(pipeline).mtl for pipeline in used}
    except MlxError as reason:
        return str(reason)
    with device.backend.autorelease_pool():
        mtl = _new(device, len(sequence))
        if mtl is None:
            return f"{device.name} gives no indirect command buffer"
        for index, each in enumerate(sequence):
            command = mtl.indirectComputeCommandAtIndex_(index)
            each.dispatch.declare(device.backend, command)
            _encode(command, each, pipelines[each.step.node.pipeline], arena)
    return Indirect(device, mtl, sequence, arena, resources)


def _reaches_far(dispatch: Dispatch) -> bool:
    return any(isinstance(value, MlxBuffer) and value.offset >= _OFFSETS for value in dispatch.values)


def _new(device: DeviceContext, count: int) -> Any:
    metal = device.backend.Metal
    descriptor = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
    kinds = metal.MTLIndirectCommandTypeConcurrentDispatch | metal.MTLIndirectCommandTypeConcurrentDispatchThreads
    descriptor.setCommandTypes_(kinds)
    descriptor.setInheritBuffers_(False)
    descriptor.setInheritPipelineState_(False)
    descriptor.setMaxKernelBufferBindCount_(BUFFER_SLOTS)
    if descriptor.respondsToSelector_(b"setMaxKernelThreadgroupMemoryBindCount:"):
        descriptor.setMaxKernelThreadgroupMemoryBindCount_(BUFFER_SLOTS)
    return device.mtl.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(descriptor, count, 0)


def _encode(command: Any, each: Planned, pipeline: Any, arena: MlxBuffer) -> None:
    """Encodes one command with all of its bindings."""
    launch = each.step.node.launch
    command.setComputePipelineState_(pipeline)
    for slot, value in enumerate(each.values):
        if value is not None:
            mtl = arena.mtl if value.mtl is ARENA else value.mtl
            command.setKernelBuffer_offset_atIndex_(mtl, value.offset, slot)
    for index, length in launch.shared:
        command.setThreadgroupMemoryLength_atIndex_(length, index)
    if each.step.barrier:
        command.setBarrier()
    if launch.by_threads:
        command.concurrentDispatchThreads_threadsPerThreadgroup_(launch.grid, launch.group)
    else:
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup_(launch.grid, launch.group)

"""A plan as an indirect command buffer: the GPU reads its dispatches from memory, and Python sends a few messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..buffer import MlxBuffer
from ..errors import MlxError
from ..pipeline import BUFFER_SLOTS
from .prepared import Prepared, declare

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["Indirect", "indirect"]

_OFFSETS = 1 << 32
"""Commands keep 32 bits of an offset."""


class Indirect:
    """An encoded MTLIndirectCommandBuffer and what has to be said each time before it runs."""

    def __init__(self, device: MlxDevice, mtl: Any, count: int, pipelines: Sequence[Any], arena: MlxBuffer) -> None:
        self._device = device
        self._mtl = mtl
        self._range = (0, count)
        self.arena = arena
        """The only one that the commands know."""
        # Below Apple's ninth family the commands' pipelines have to be made resident by being set.
        self._pipelines = () if device.capabilities.indirect_pipelines_stay_resident else tuple(pipelines)

    @property
    def message_count(self) -> int:
        return 2 + 2 * len(self._pipelines)

    def hold(self, _: object) -> None:
        """For the encoder, which keeps this like memory until the GPU is done: a command buffer may not."""

    def send(self, enc: Any, resources: Sequence[Any]) -> None:
        """Runs the commands on an MTLComputeCommandEncoder."""
        declare(self._device, enc, [*resources, self.arena.mtl])
        for pipeline in self._pipelines:
            enc.setComputePipelineState_(pipeline)
            enc.dispatchThreadgroups_threadsPerThreadgroup_((0, 0, 0), (1, 1, 1))
        enc.executeCommandsInBuffer_withRange_(self._mtl, self._range)


def indirect(device: MlxDevice, sequence: Sequence[Prepared], arena: MlxBuffer) -> Indirect | str:
    """The commands of a prepared sequence, or why the device cannot have them."""
    if not sequence:
        return "there is nothing to run"
    if not device.capabilities.indirect_command_buffers:
        return f"{device.name} has no indirect command buffers that work"
    if far := next((node for node in (each.step.node for each in sequence) if _reaches_far(node)), None):
        return f"kernel {far.pipeline.label!r} has a buffer at an offset of 2**32 bytes or more"
    try:
        pipelines = {each.pipeline: device.kernels.indirect(each.pipeline).mtl for each in sequence}
    except MlxError as reason:
        return str(reason)
    with device.door.autorelease_pool():
        mtl = _new(device, len(sequence))
        if mtl is None:
            return f"{device.name} gives no indirect command buffer"
        for index, each in enumerate(sequence):
            _encode(mtl.indirectComputeCommandAtIndex_(index), each, pipelines[each.pipeline], arena)
    return Indirect(device, mtl, len(sequence), list(dict.fromkeys(pipelines.values())), arena)


def _reaches_far(node: Any) -> bool:
    return any(isinstance(each.value, MlxBuffer) and each.value.offset >= _OFFSETS for each in node.bindings)


def _new(device: MlxDevice, count: int) -> Any:
    metal = device.door.Metal
    descriptor = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
    kinds = metal.MTLIndirectCommandTypeConcurrentDispatch | metal.MTLIndirectCommandTypeConcurrentDispatchThreads
    descriptor.setCommandTypes_(kinds)
    descriptor.setInheritBuffers_(False)
    descriptor.setInheritPipelineState_(False)
    descriptor.setMaxKernelBufferBindCount_(BUFFER_SLOTS)
    if descriptor.respondsToSelector_(b"setMaxKernelThreadgroupMemoryBindCount:"):
        descriptor.setMaxKernelThreadgroupMemoryBindCount_(BUFFER_SLOTS)
    return device.mtl.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(descriptor, count, 0)


def _encode(command: Any, each: Prepared, pipeline: Any, arena: MlxBuffer) -> None:
    """One command; it brings all of its bindings along."""
    node = each.step.node
    command.setComputePipelineState_(pipeline)
    for mtl, offset, slot in each.bound:
        command.setKernelBuffer_offset_atIndex_(arena.mtl if mtl is None else mtl, offset, slot)
    for index, length in node.launch.shared:
        command.setThreadgroupMemoryLength_atIndex_(length, index)
    if each.step.barrier:
        command.setBarrier()
    if node.launch.by_threads:
        command.concurrentDispatchThreads_threadsPerThreadgroup_(node.launch.grid, node.launch.group)
    else:
        command.concurrentDispatchThreadgroups_threadsPerThreadgroup_(node.launch.grid, node.launch.group)

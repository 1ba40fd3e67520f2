"""The compute encoder: binds arguments and records dispatches in a pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import constants as c
from ..execution.bindings import Bindings
from ..execution.command_buffer import CommandBufferState
from ..execution.handles import Handles
from ..execution.indirect import Replay
from ..execution.passes import Declared, Pass, Sample
from ..execution.pipeline import LaunchSize
from ..memory import DeviceMemory
from ..misuse import InvalidValue, MetalMisuse
from ..values import counted, flat_bytes, instance, maybe, natural, size, span, truth, within
from .buffer import MTLBuffer, Resource
from .counters import MTLCounterSampleBuffer
from .encoder import MTLCommandEncoder
from .heap import MTLHeap
from .indirect import MTLIndirectCommandBuffer
from .owned import Owned
from .pipeline import MTLComputePipelineState
from .sampler import MTLSamplerState, with_lod
from .texture import MTLTexture

INLINE_LIMIT = 4096
ANY_USAGE = c.MTLResourceUsageRead | c.MTLResourceUsageWrite | c.MTLResourceUsageSample
ANY_SCOPE = c.MTLBarrierScopeBuffers | c.MTLBarrierScopeTextures
_ONE = (1, 1, 1)
_MOST_SIZES = 256  # kept of a pipeline
_UNKNOWN = LaunchSize(b"", (0, 0, 0), 0, 0)


class MTLComputeCommandEncoder(MTLCommandEncoder):
    """Bindings carry over between dispatches; each dispatch keeps its own copy."""

    _pass: Pass

    def __init__(self, owner: Owned, state: CommandBufferState, work: Pass) -> None:
        self._owner, self._buffer, self._pass = owner, state, work
        self._bindings = bindings = Bindings(state.device)
        self._bind = bindings.bind
        self._places = {} if state.constants is None else state.constants.places
        self._retain = state.retain
        self._handles: Handles | None = None  # once a kernel may have textures
        self._has_textures = False
        self._declared: Declared | None = None
        self._resident: dict[DeviceMemory, int] = {}
        self._resident_shared = False  # with dispatches, for which it must not change any more

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self._pass.label = self._label

    def dispatchType(self) -> int:
        return c.MTLDispatchTypeConcurrent if self._pass.concurrent else c.MTLDispatchTypeSerial

    def setComputePipelineState_(self, pipeline: MTLComputePipelineState) -> None:
        if not self.is_open:
            self._alive("setComputePipelineState_")
        if not isinstance(pipeline, MTLComputePipelineState):
            raise TypeError(f"pipeline is {pipeline!r}, expected an MTLComputePipelineState")
        self._bindings.pipeline = state = pipeline.state
        if state.table >= 0:
            self._take_handles()

    def setBuffer_offset_atIndex_(self, buffer: MTLBuffer | None, offset: int, index: int) -> None:
        if not self.is_open:
            self._alive("setBuffer_offset_atIndex_")
        if buffer is None:
            self._bindings.unbind(index)
            return
        if not isinstance(buffer, MTLBuffer):
            raise TypeError(f"buffer at index {index} is {buffer!r}, expected an MTLBuffer or None")
        self._bind(buffer.allocation, offset, index)
        self._retain(buffer)

    def setBufferOffset_atIndex_(self, offset: int, index: int) -> None:
        self._alive("setBufferOffset_atIndex_")
        self._bindings.move(offset, index)

    def setBuffers_offsets_withRange_(
        self, buffers: Sequence[MTLBuffer | None], offsets: Sequence[int], indices: tuple[int, int]
    ) -> None:
        self._alive("setBuffers_offsets_withRange_")
        run = span(indices, "range")
        places = counted(offsets if isinstance(offsets, Sequence) else list(offsets), run.length, "offsets")
        for index, buffer in enumerate(counted(buffers, run.length, "buffers")):
            self.setBuffer_offset_atIndex_(buffer, places[index], run.location + index)

    def setBytes_length_atIndex_(self, data: Any, length: int, index: int) -> None:
        if not self.is_open:
            self._alive("setBytes_length_atIndex_")
        if type(data) is not bytes or type(length) is not int or not 0 < length == len(data) <= INLINE_LIMIT:
            data = self._inline(data, length, index)
        place = self._places.get(data)
        self._bindings.bind_inline(data, self._buffer.store(data) if place is None else place, index)

    @staticmethod
    def _inline(data: Any, length: int, index: int) -> bytes:
        """The bytes that setBytes is to bind."""
        count = natural(length, "length")
        if not 0 < count <= INLINE_LIMIT:
            raise InvalidValue(f"setBytes at index {index}: {count} bytes, expected 1 to {INLINE_LIMIT}; use a buffer")
        return bytes(flat_bytes(data, count, "bytes"))

    def setTexture_atIndex_(self, texture: MTLTexture | None, index: int) -> None:
        self._alive("setTexture_atIndex_")
        bound = maybe(MTLTexture)(texture, f"texture at index {index}")
        self._take_handles().set_texture(bound.state if bound else None, index)
        self._bindings.dirty = self._has_textures = True
        if bound is not None:
            self._retain(bound)

    def setTextures_withRange_(self, textures: Sequence[MTLTexture | None], indices: tuple[int, int]) -> None:
        run = span(indices, "range")
        for index, texture in enumerate(counted(textures, run.length, "textures"), run.location):
            self.setTexture_atIndex_(texture, index)

    def setSamplerState_atIndex_(self, sampler: MTLSamplerState | None, index: int) -> None:
        self._alive("setSamplerState_atIndex_")
        bound = maybe(MTLSamplerState)(sampler, f"sampler at index {index}")
        self._take_handles().set_sampler(bound.bits if bound else None, index)
        self._bindings.dirty = True

    def setSamplerState_lodMinClamp_lodMaxClamp_atIndex_(
        self, sampler: MTLSamplerState, least: float, most: float, index: int
    ) -> None:
        self._alive("setSamplerState_lodMinClamp_lodMaxClamp_atIndex_")
        bound = instance(sampler, MTLSamplerState, f"sampler at index {index}")
        self._take_handles().set_sampler(with_lod(bound.bits, least, most), index)
        self._bindings.dirty = True

    def setSamplerStates_withRange_(self, samplers: Sequence[MTLSamplerState | None], indices: tuple[int, int]) -> None:
        run = span(indices, "range")
        for index, sampler in enumerate(counted(samplers, run.length, "samplers"), run.location):
            self.setSamplerState_atIndex_(sampler, index)

    def setThreadgroupMemoryLength_atIndex_(self, length: int, index: int) -> None:
        self._alive("setThreadgroupMemoryLength_atIndex_")
        self._bindings.set_threadgroup(length, index)

    def declare(self, declared: Declared) -> None:
        """Says more of the next dispatch than Metal asks for, so that checked mode holds it to that."""
        self._declared = declared

    def dispatchThreads_threadsPerThreadgroup_(
        self, threads: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        """A grid of exactly these threads; threadgroups at the edges may be smaller."""
        if not self.is_open:
            self._alive("dispatchThreads_threadsPerThreadgroup_")
        try:
            known = self._bindings.pipeline.sizes[True, threads, group]  # type: ignore[union-attr]
        except (KeyError, TypeError, AttributeError):
            known = _UNKNOWN
        # Only the same objects need no checks: 1.0 and True equal 1.
        if known.given[0] is not threads or known.given[1] is not group:
            known = self._size(True, threads, group)
        self._add(known)

    def dispatchThreadgroups_threadsPerThreadgroup_(
        self, groups: tuple[int, int, int], group: tuple[int, int, int]
    ) -> None:
        if not self.is_open:
            self._alive("dispatchThreadgroups_threadsPerThreadgroup_")
        try:
            known = self._bindings.pipeline.sizes[False, groups, group]  # type: ignore[union-attr]
        except (KeyError, TypeError, AttributeError):
            known = _UNKNOWN
        if known.given[0] is not groups or known.given[1] is not group:
            known = self._size(False, groups, group)
        self._add(known)

    def _size(self, by_threads: bool, count: Any, group: Any) -> LaunchSize:
        """The launch that is asked for, checked; kept for the next time."""
        whole = size(count, "threads" if by_threads else "threadgroups")
        x, y, z = part = size(group, "threadsPerThreadgroup")
        if by_threads:
            groups = (-(-whole[0] // x), -(-whole[1] // y), -(-whole[2] // z)) if x and y and z else _ONE
            known = self._bindings.size(whole, groups, part)
        else:
            known = self._bindings.size((whole[0] * x, whole[1] * y, whole[2] * z), whole, part)
        pipeline = self._bindings.pipeline
        if pipeline is not None and whole is count and part is group:
            known.given = count, group
            if len(pipeline.sizes) >= _MOST_SIZES:
                pipeline.sizes.clear()
            pipeline.sizes[by_threads, count, group] = known
        return known

    def _add(self, size: LaunchSize, indirect: tuple[DeviceMemory, int] | None = None) -> None:
        declared, self._declared = self._declared, None
        encoded = self._bindings.dispatch(size, self._resident, self._path, indirect)
        if declared is not None:
            encoded.declared = declared
        self._resident_shared = True
        if size.groups > 1:
            self._buffer.shared_ns += encoded.expected_ns or 0.0
        self._pass.add(encoded)

    def dispatchThreadgroupsWithIndirectBuffer_indirectBufferOffset_threadsPerThreadgroup_(
        self, buffer: MTLBuffer, offset: int, group: tuple[int, int, int]
    ) -> None:
        """The three counts are read from the buffer when the dispatch runs."""
        self._alive("dispatchThreadgroupsWithIndirectBuffer")
        source = self._words(buffer, offset, 3, "indirectBuffer")
        self._add(self._bindings.size(_ONE, _ONE, size(group, "threadsPerThreadgroup")), source)

    def memoryBarrierWithScope_(self, scope: int) -> None:
        self._alive("memoryBarrierWithScope_")
        wanted = natural(scope, "scope")
        if not wanted or wanted & ~ANY_SCOPE:
            raise InvalidValue(f"barrier scope {wanted}: a compute encoder knows buffers (1) and textures (2)")
        if wanted == ANY_SCOPE or not self._has_textures:
            if wanted & c.MTLBarrierScopeBuffers:
                self._pass.barrier()
            return
        textures = {texture.allocation for _, texture in self._pass.textures()}
        ordered = textures if wanted == c.MTLBarrierScopeTextures else self._pass.buffers() - textures
        self._pass.barrier(tuple(ordered))

    def memoryBarrierWithResources_count_(self, resources: Sequence[Resource], count: int) -> None:
        self._alive("memoryBarrierWithResources_count_")
        members = [instance(item, Resource, "resource") for item in counted(resources, count, "resources")]
        if not members:
            raise InvalidValue("memoryBarrierWithResources_count_ without resources orders nothing")
        self._pass.barrier(tuple(member.allocation for member in members))

    def useResource_usage_(self, resource: Resource, usage: int) -> None:
        self._use((resource,), usage)

    def useResources_count_usage_(self, resources: Sequence[Resource], count: int, usage: int) -> None:
        self._use(counted(resources, count, "resources"), usage)

    def _use(self, resources: Sequence[Resource], usage: int) -> None:
        self._alive("useResource_usage_")
        wanted = natural(usage, "usage")
        if not wanted or wanted & ~ANY_USAGE:
            raise InvalidValue(f"usage {wanted}: expected a union of read (1), write (2) and sample (4)")
        if not self._resident and set(map(type, resources)) == {MTLBuffer}:  # the usual case, before a replay
            self._resident = {each.allocation: wanted for each in resources}
            for each in resources:
                self._retain(each)
            return
        for each in resources:
            if not isinstance(each, MTLIndirectCommandBuffer):
                self._make_resident(instance(each, Resource, "resource"), wanted)

    def useHeap_(self, heap: MTLHeap) -> None:
        self._alive("useHeap_")
        self._make_resident(instance(heap, MTLHeap, "heap"), ANY_USAGE)

    def useHeaps_count_(self, heaps: Sequence[MTLHeap], count: int) -> None:
        for heap in counted(heaps, count, "heaps"):
            self.useHeap_(heap)

    def executeCommandsInBuffer_withRange_(self, commands: MTLIndirectCommandBuffer, run: tuple[int, int]) -> None:
        self._alive("executeCommandsInBuffer_withRange_")
        replayed = instance(commands, MTLIndirectCommandBuffer, "commands")
        part = within(run, replayed.size(), "range")
        self._replay(replayed, part.location, part.length, None)

    def executeCommandsInBuffer_indirectBuffer_indirectBufferOffset_(
        self, commands: MTLIndirectCommandBuffer, buffer: MTLBuffer, offset: int
    ) -> None:
        """The range (two uint32) is read from the buffer when the commands run."""
        self._alive("executeCommandsInBuffer_indirectBuffer_indirectBufferOffset_")
        replayed = instance(commands, MTLIndirectCommandBuffer, "commands")
        self._replay(replayed, 0, 0, self._words(buffer, offset, 2, "indirectBuffer"))

    def sampleCountersInBuffer_atSampleIndex_withBarrier_(
        self, samples: MTLCounterSampleBuffer, index: int, barrier: bool
    ) -> None:
        self._alive("sampleCountersInBuffer_atSampleIndex_withBarrier_")
        target = instance(samples, MTLCounterSampleBuffer, "sampleBuffer")
        truth(barrier, "withBarrier")
        if not self.device().supportsCounterSampling_(c.MTLCounterSamplingPointAtDispatchBoundary):
            raise MetalMisuse(
                "sampleCountersInBuffer: this device does not sample at dispatch boundaries, only where "
                "supportsCounterSampling_ says so (on Metal the process dies here)"
            )
        self._pass.add(Sample(target.samples, target.place(index, "sampleIndex")))

    def _replay(
        self, commands: MTLIndirectCommandBuffer, first: int, count: int, source: tuple[DeviceMemory, int] | None
    ) -> None:
        self._retain(commands)
        self._resident_shared = True
        rules, bindings = commands.state.rules, self._bindings
        inherited = bindings.snapshot() if rules.inherit_buffers or rules.inherit_pipeline else bindings
        self._pass.add(Replay(commands.state, first, count, inherited, self._resident, self._path, source))

    def _take_handles(self) -> Handles:
        handles = self._handles
        if handles is None:
            self._bindings.handles = self._handles = handles = Handles(self._buffer.store)
        return handles

    def _make_resident(self, resource: Resource, usage: int) -> None:
        allocation = resource.allocation
        if self._resident_shared:
            self._resident, self._resident_shared = dict(self._resident), False
        self._resident[allocation] = usage | self._resident.get(allocation, 0)
        if isinstance(resource, MTLTexture):
            self._resident[resource.state.description] = c.MTLResourceUsageRead
        self._retain(resource)

    def _words(self, buffer: MTLBuffer, offset: int, count: int, what: str) -> tuple[DeviceMemory, int]:
        source, start = instance(buffer, MTLBuffer, what), natural(offset, f"{what} offset")
        if start % 4 or start + 4 * count > source.length():
            raise InvalidValue(
                f"{what} offset {start}: expected a multiple of 4 with {4 * count} bytes behind it; "
                f"{source!r} has {source.length()}"
            )
        self._retain(source)
        return source.allocation, start

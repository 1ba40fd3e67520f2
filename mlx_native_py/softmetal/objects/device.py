"""The device: limits, capabilities, and factory methods."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import constants as c
from ..execution.device import DeviceState
from ..formats import pixel_format
from ..misuse import InvalidValue
from ..options import DeviceProfile, SoftOptions
from ..process import opening, refuse_after_fork
from ..values import (
    MTLSize,
    MTLSizeAndAlign,
    answer,
    flat_bytes,
    handler,
    instance,
    maybe,
    natural,
    text,
    unwanted,
    whole,
)
from .archive import MTLBinaryArchiveDescriptor, open_archive
from .argument_encoder import MTLArgumentDescriptor, MTLArgumentEncoder, described_encoder
from .base import NSObject, without
from .buffer import MTLBuffer, over_caller_memory, resource_options
from .counters import MTLCounterSampleBufferDescriptor, MTLCounterSet, new_sample_buffer
from .events import MTLEvent, MTLFence, MTLSharedEvent
from .foundation import NSURL, NSArray
from .heap import MTLHeap, MTLHeapDescriptor, size_and_align
from .indirect import MTLIndirectCommandBuffer, MTLIndirectCommandBufferDescriptor, new_indirect_command_buffer
from .library import MTLCompileOptions, MTLFunction, compile_source, load_library, read_library
from .owned import DeviceObject
from .pipeline import REFLECTING, MTLComputePipelineDescriptor, build_pipeline
from .queue import DEFAULT_SLOTS, MTLCommandQueue
from .residency import MTLResidencySet, MTLResidencySetDescriptor
from .sampler import MTLSamplerDescriptor, MTLSamplerState, new_sampler
from .texture import LINEAR_STEP, MTLTexture, MTLTextureDescriptor, new_texture


class MTLArchitecture(NSObject):
    """The name of the processor architecture."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class MTLDevice(DeviceObject):
    """A CPU that acts as a GPU."""

    def __init__(self, options: SoftOptions | None = None, profile: DeviceProfile | None = None) -> None:
        opening()
        self.state = DeviceState(options or SoftOptions(), profile or DeviceProfile())

    def name(self) -> str:
        cores = self.state.options.threads or _core_count()
        many = f"{cores} core{'s' if cores > 1 else ''}"
        return self.state.profile.name or f"Software Metal ({platform.machine()}, {many})"

    def registryID(self) -> int:
        return 1

    def architecture(self) -> MTLArchitecture:
        return MTLArchitecture(self.state.profile.architecture or f"soft_{platform.machine()}")

    def maxThreadsPerThreadgroup(self) -> MTLSize:
        return MTLSize(*self.state.profile.max_threads)

    def maxThreadgroupMemoryLength(self) -> int:
        return self.state.profile.threadgroup_memory

    def recommendedMaxWorkingSetSize(self) -> int:
        return self.state.profile.working_set_bytes

    def currentAllocatedSize(self) -> int:
        return self.state.allocated

    def maxBufferLength(self) -> int:
        return self.state.profile.buffer_limit

    def hasUnifiedMemory(self) -> bool:
        return True

    def isLowPower(self) -> bool:
        return False

    def isRemovable(self) -> bool:
        return False

    def isHeadless(self) -> bool:
        return True

    def argumentBuffersSupport(self) -> int:
        return c.MTLArgumentBuffersTier2

    def supportsFamily_(self, family: int) -> bool:
        return whole(family, "family") in self.state.profile.families

    def supportsCounterSampling_(self, point: int) -> bool:
        return natural(point, "samplingPoint") in self.state.profile.counter_sampling

    def counterSets(self) -> NSArray[MTLCounterSet] | None:
        return NSArray((MTLCounterSet(),)) if self.state.profile.counter_sets else None

    def sampleTimestamps_gpuTimestamp_(self, cpu: None, gpu: None) -> Any:
        """Both in nanoseconds of one clock."""
        unwanted(cpu, "cpuTimestamp")
        unwanted(gpu, "gpuTimestamp")
        now = time.monotonic_ns()
        return answer(None, (cpu, now), (gpu, now))[1:]

    def newBufferWithLength_options_(self, length: int, options: int) -> MTLBuffer | None:
        """Zeroed memory, or None when it is empty, too large or there is no more."""
        size, flags = natural(length, "length"), resource_options(options)
        allocation = self.state.allocate(size)
        if allocation is None:
            return None
        return MTLBuffer(self, allocation, flags)

    def newBufferWithBytes_length_options_(self, data: Any, length: int, options: int) -> MTLBuffer | None:
        source = flat_bytes(data, natural(length, "length"), "bytes")
        buffer = self.newBufferWithLength_options_(length, options)
        if buffer is not None:
            buffer.allocation.view()[:] = source
        return buffer

    def newBufferWithBytesNoCopy_length_options_deallocator_(
        self,
        data: Any,
        length: int,
        options: int,
        deallocator: Callable[[int, int], object] | None,
    ) -> MTLBuffer | None:
        """A buffer over page-aligned memory of the caller."""
        refuse_after_fork()
        size, flags = natural(length, "length"), resource_options(options)
        if flags & 0xF0 == c.MTLResourceStorageModePrivate:
            raise InvalidValue("memory of the caller cannot have private storage")
        if self.state.options.isolated:
            raise InvalidValue("the helpers of an isolated device do not see memory of the caller: copy it")
        if size > self.state.profile.buffer_limit:
            return None
        callback = None if deallocator is None else handler(deallocator, "deallocator")
        return over_caller_memory(self, data, size, flags, callback)

    def newTextureWithDescriptor_(self, descriptor: MTLTextureDescriptor) -> MTLTexture | None:
        return new_texture(self, descriptor)

    def newSamplerStateWithDescriptor_(self, descriptor: MTLSamplerDescriptor) -> MTLSamplerState:
        return new_sampler(self, descriptor)

    def newArgumentEncoderWithArguments_(self, arguments: Sequence[MTLArgumentDescriptor]) -> MTLArgumentEncoder:
        return described_encoder(self, arguments)

    def minimumLinearTextureAlignmentForPixelFormat_(self, form: int) -> int:
        pixel_format(natural(form, "pixelFormat"))
        return LINEAR_STEP

    def minimumTextureBufferAlignmentForPixelFormat_(self, form: int) -> int:
        pixel_format(natural(form, "pixelFormat"))
        return LINEAR_STEP

    def readWriteTextureSupport(self) -> int:
        return c.MTLReadWriteTextureTier2

    def newHeapWithDescriptor_(self, descriptor: MTLHeapDescriptor) -> MTLHeap | None:
        asked = instance(descriptor, MTLHeapDescriptor, "descriptor")
        if asked.type() not in (c.MTLHeapTypeAutomatic, c.MTLHeapTypePlacement):
            raise InvalidValue(f"heap type {asked.type()}: this device has automatic and placement heaps")
        allocation = self.state.allocate(asked.size())
        return None if allocation is None else MTLHeap(self, asked, allocation)

    def heapBufferSizeAndAlignWithLength_options_(self, length: int, options: int) -> MTLSizeAndAlign:
        return size_and_align(length, options)

    def newLibraryWithSource_options_error_(self, source: str, options: MTLCompileOptions | None, error: None) -> Any:
        unwanted(error, "error")
        chosen = maybe(MTLCompileOptions)(options, "options")
        library, problem = compile_source(self, text(source, "source"), chosen)
        return answer(library, (error, problem))

    def newLibraryWithSource_options_completionHandler_(
        self, source: str, options: MTLCompileOptions | None, block: Callable[[Any, Any], object]
    ) -> None:
        program, chosen = text(source, "source"), maybe(MTLCompileOptions)(options, "options")
        self._later(lambda: compile_source(self, program, chosen), handler(block, "completionHandler"))

    def newLibraryWithURL_error_(self, url: NSURL, error: None) -> Any:
        unwanted(error, "error")
        library, problem = load_library(self, instance(url, NSURL, "url").path())
        return answer(library, (error, problem))

    def newLibraryWithData_error_(self, data: Any, error: None) -> Any:
        unwanted(error, "error")
        library, problem = read_library(self, bytes(memoryview(data)))
        return answer(library, (error, problem))

    def newComputePipelineStateWithFunction_error_(self, function: MTLFunction, error: None) -> Any:
        unwanted(error, "error")
        pipeline, problem = build_pipeline(self, _describe(function), c.MTLPipelineOptionNone)
        return answer(pipeline, (error, problem))

    def newComputePipelineStateWithFunction_options_reflection_error_(
        self, function: MTLFunction, options: int, reflection: None, error: None
    ) -> Any:
        unwanted(reflection, "reflection")
        unwanted(error, "error")
        return self.newComputePipelineStateWithDescriptor_options_reflection_error_(
            _describe(function), options, reflection, error
        )

    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: MTLComputePipelineDescriptor, options: int, reflection: None, error: None
    ) -> Any:
        """(pipeline, reflection, error), as PyObjC answers with its metadata corrected."""
        unwanted(reflection, "reflection")
        unwanted(error, "error")
        asked, wanted = instance(descriptor, MTLComputePipelineDescriptor, "descriptor"), natural(options, "options")
        pipeline, problem = build_pipeline(self, asked, wanted)
        facts = pipeline.reflection() if pipeline is not None and wanted & REFLECTING else None
        return answer(pipeline, (reflection, facts), (error, problem))

    def newComputePipelineStateWithFunction_completionHandler_(
        self, function: MTLFunction, block: Callable[[Any, Any], object]
    ) -> None:
        asked = _describe(function)
        self._later(lambda: build_pipeline(self, asked, 0), handler(block, "completionHandler"))

    def newComputePipelineStateWithDescriptor_options_completionHandler_(
        self, descriptor: MTLComputePipelineDescriptor, options: int, block: Callable[[Any, Any], object]
    ) -> None:
        """The block gets (pipeline, reflection): PyObjC's metadata leaves the error out."""
        asked, wanted = (
            instance(descriptor, MTLComputePipelineDescriptor, "descriptor").copy(),
            natural(options, "options"),
        )

        def build() -> tuple[Any, Any]:
            pipeline, _ = build_pipeline(self, asked, wanted)
            return pipeline, pipeline.reflection() if pipeline is not None and wanted & REFLECTING else None

        self._later(build, handler(block, "completionHandler"))

    def newBinaryArchiveWithDescriptor_error_(self, descriptor: MTLBinaryArchiveDescriptor, error: None) -> Any:
        unwanted(error, "error")
        archive, problem = open_archive(self, instance(descriptor, MTLBinaryArchiveDescriptor, "descriptor"))
        return answer(archive, (error, problem))

    def newCommandQueue(self) -> MTLCommandQueue:
        return self.newCommandQueueWithMaxCommandBufferCount_(DEFAULT_SLOTS)

    def newCommandQueueWithMaxCommandBufferCount_(self, count: int) -> MTLCommandQueue:
        refuse_after_fork()
        return without(MTLCommandQueue, self.state.profile.absent)(self, natural(count, "maxCommandBufferCount"))

    def newEvent(self) -> MTLEvent:
        return MTLEvent(self)

    def newSharedEvent(self) -> MTLSharedEvent:
        return MTLSharedEvent(self)

    def newFence(self) -> MTLFence:
        return MTLFence(self)

    def newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
        self,
        descriptor: MTLIndirectCommandBufferDescriptor,
        count: int,
        options: int,
    ) -> MTLIndirectCommandBuffer | None:
        resource_options(options)
        return new_indirect_command_buffer(self, descriptor, count)

    def newResidencySetWithDescriptor_error_(self, descriptor: MTLResidencySetDescriptor, error: None) -> Any:
        unwanted(error, "error")
        asked = instance(descriptor, MTLResidencySetDescriptor, "descriptor")
        return answer(MTLResidencySet(self, asked), (error, None))

    def newCounterSampleBufferWithDescriptor_error_(
        self, descriptor: MTLCounterSampleBufferDescriptor, error: None
    ) -> Any:
        unwanted(error, "error")
        samples, problem = new_sample_buffer(self, descriptor)
        return answer(samples, (error, problem))

    @staticmethod
    def _later(work: Callable[[], tuple[Any, Any]], block: Callable[..., object]) -> None:
        threading.Thread(target=lambda: block(*work()), name="soft-metal-compiler", daemon=True).start()


def _describe(function: Any) -> MTLComputePipelineDescriptor:
    descriptor = MTLComputePipelineDescriptor()
    descriptor.setComputeFunction_(instance(function, MTLFunction, "function"))
    return descriptor


def _core_count() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

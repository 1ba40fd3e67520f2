"""Software Metal: the compute API of `import Metal`, with kernels that run on the CPU.

Objects have PyObjC's selectors and conventions. Misuse that would abort the process in Metal raises `MetalMisuse`.
`configure()` sets the options of the default device; `open_device()` opens another one.
"""

from __future__ import annotations

from .compiler_process import CompileLimits
from .constants import *  # noqa: F403
from .misuse import EndlessWait, ForkedProcess, InvalidValue, MetalMisuse, QueueFull
from .objects.archive import MTLBinaryArchiveDescriptor
from .objects.argument_encoder import MTLArgumentDescriptor
from .objects.capture import MTLCaptureDescriptor, MTLCaptureManager
from .objects.compute_pass import MTLComputePassDescriptor
from .objects.counters import MTLCounterSampleBufferDescriptor
from .objects.events import MTLSharedEventListener
from .objects.foundation import NSURL, NSData, NSError
from .objects.function_constants import MTLFunctionConstantValues
from .objects.heap import MTLHeapDescriptor
from .objects.indirect import MTLIndirectCommandBufferDescriptor
from .objects.library import MTLCompileOptions, MTLFunctionDescriptor
from .objects.pipeline import MTLComputePipelineDescriptor
from .objects.queue import MTLCommandBufferDescriptor
from .objects.residency import MTLResidencySetDescriptor
from .objects.sampler import MTLSamplerDescriptor
from .objects.system import MTLCopyAllDevices, MTLCreateSystemDefaultDevice, configure, open_device
from .objects.texture import MTLTextureDescriptor
from .options import DeviceProfile, SoftOptions
from .values import NULL, MTLRegion, MTLRegionMake2D, MTLSize, MTLSizeMake, NSMakeRange, NSRange

__all__ = [
    "CompileLimits",
    "DeviceProfile",
    "EndlessWait",
    "ForkedProcess",
    "InvalidValue",
    "MTLArgumentDescriptor",
    "MTLBinaryArchiveDescriptor",
    "MTLCaptureDescriptor",
    "MTLCaptureManager",
    "MTLCommandBufferDescriptor",
    "MTLCompileOptions",
    "MTLComputePassDescriptor",
    "MTLComputePipelineDescriptor",
    "MTLCopyAllDevices",
    "MTLCounterSampleBufferDescriptor",
    "MTLCreateSystemDefaultDevice",
    "MTLFunctionConstantValues",
    "MTLFunctionDescriptor",
    "MTLHeapDescriptor",
    "MTLIndirectCommandBufferDescriptor",
    "MTLRegion",
    "MTLRegionMake2D",
    "MTLResidencySetDescriptor",
    "MTLSamplerDescriptor",
    "MTLSharedEventListener",
    "MTLSize",
    "MTLSizeMake",
    "MTLTextureDescriptor",
    "MetalMisuse",
    "NSData",
    "NSError",
    "NSMakeRange",
    "NSRange",
    "NSURL",
    "NULL",
    "QueueFull",
    "SoftOptions",
    "configure",
    "open_device",
]

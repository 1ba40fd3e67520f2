"""Device capabilities, queried once through `respondsToSelector_` and device properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Capabilities", "SIMDGROUP_WIDTH", "probe", "unsupported"]

# Apple's families are numbered 1001, 1002, ...; querying by number needs no constants of a newer SDK.
_APPLE_FAMILIES = range(1001, 1021)
_METAL3 = 5001
_GPUS = ("applegpu", "air64")  # prefixes of Apple architectures; the second is that of paravirtual devices
_ICB_NEEDS_NO_HELP_FROM = 9

SIMDGROUP_WIDTH = 32
"""Threads of a simdgroup on every Apple GPU; kernels here are written for it."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """Properties and capabilities of one device."""

    name: str
    architecture: str | None
    apple_family: int  # 7 = M1, 8 = M2, 9 = M3 and M4; 0 = none of Apple's own
    metal3: bool
    paravirtual: bool
    unified_memory: bool
    vector_lanes: bool  # a simdgroup is a vector of a CPU: loads side by side are cheap, scattered ones are not
    max_threads_per_threadgroup: tuple[int, int, int]
    max_threadgroup_memory: int
    max_buffer_length: int
    recommended_working_set: int
    stage_boundary_sampling: bool
    dispatch_boundary_sampling: bool
    timestamp_counters: bool
    residency_sets: bool
    indirect_command_buffers: bool
    indirect_pipelines_stay_resident: bool
    gpu_address: bool
    shared_event_wait: bool
    math_mode: bool
    language_version: tuple[int, int]
    """The newest MSL that the system's compiler knows."""


def probe(metal: Any, device: Any) -> Capabilities:
    """Queries the capabilities of `device` of either backend; `metal` is its namespace."""
    name = str(device.name())
    built = device.architecture() if device.respondsToSelector_(b"architecture") else None
    architecture = None if built is None else str(built.name())
    family = max((number - 1000 for number in _APPLE_FAMILIES if device.supportsFamily_(number)), default=0)
    paravirtual = "virtual" in name.lower()
    metal3 = bool(device.supportsFamily_(_METAL3))
    width, height, depth = device.maxThreadsPerThreadgroup()
    buffer = device.newBufferWithLength_options_(16, metal.MTLResourceStorageModeShared)
    options = metal.MTLCompileOptions.alloc().init()
    return Capabilities(
        name=name,
        architecture=architecture,
        apple_family=family,
        metal3=metal3,
        paravirtual=paravirtual,
        unified_memory=bool(device.hasUnifiedMemory()),
        vector_lanes=architecture is not None and not architecture.startswith(_GPUS),
        max_threads_per_threadgroup=(int(width), int(height), int(depth)),
        max_threadgroup_memory=int(device.maxThreadgroupMemoryLength()),
        max_buffer_length=int(device.maxBufferLength()),
        recommended_working_set=int(device.recommendedMaxWorkingSetSize()),
        stage_boundary_sampling=_samples(device, metal.MTLCounterSamplingPointAtStageBoundary),
        dispatch_boundary_sampling=_samples(device, metal.MTLCounterSamplingPointAtDispatchBoundary),
        timestamp_counters=_has_timestamps(metal, device),
        residency_sets=metal3 and bool(device.respondsToSelector_(b"newResidencySetWithDescriptor:error:")),
        # Paravirtual devices accept indirect command buffers but run them incorrectly.
        indirect_command_buffers=not paravirtual and _gives_indirect_commands(metal, device),
        indirect_pipelines_stay_resident=family >= _ICB_NEEDS_NO_HELP_FROM,
        gpu_address=not paravirtual and bool(buffer.respondsToSelector_(b"gpuAddress")),
        shared_event_wait=bool(device.newSharedEvent().respondsToSelector_(b"waitUntilSignaledValue:timeoutMS:")),
        math_mode=bool(options.respondsToSelector_(b"setMathMode:")),
        language_version=_newest_language(metal, device, options),
    )


def unsupported(able: Capabilities) -> str:
    """Why this package does not support the device; empty if it does."""
    if not able.apple_family and not able.paravirtual:
        return f"{able.name} is not one of Apple's own GPUs; Apple silicon is needed"
    if able.language_version < _OLDEST_LANGUAGE:
        return "macOS 14 or newer is needed (15 for everything): the compiler of this one has no bfloat"
    return ""


_OLDEST_LANGUAGE = (3, 1)


def _newest_language(metal: Any, device: Any, options: Any) -> tuple[int, int]:
    """Inferred from selectors of the same macOS version, since PyObjC defines all version numbers everywhere."""
    if device.respondsToSelector_(b"newMTL4CommandQueue"):
        return 4, 0
    if options.respondsToSelector_(b"setMathMode:"):
        return 3, 2
    commands = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
    return (3, 1) if commands.respondsToSelector_(b"setMaxKernelThreadgroupMemoryBindCount:") else (3, 0)


def _gives_indirect_commands(metal: Any, device: Any) -> bool:
    if not device.respondsToSelector_(b"newIndirectCommandBufferWithDescriptor:maxCommandCount:options:"):
        return False
    descriptor = metal.MTLIndirectCommandBufferDescriptor.alloc().init()
    descriptor.setCommandTypes_(metal.MTLIndirectCommandTypeConcurrentDispatch)
    descriptor.setInheritBuffers_(False)
    descriptor.setInheritPipelineState_(False)
    descriptor.setMaxKernelBufferBindCount_(1)
    return device.newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(descriptor, 1, 0) is not None


def _samples(device: Any, point: int) -> bool:
    if not device.respondsToSelector_(b"supportsCounterSampling:"):
        return False
    return bool(device.supportsCounterSampling_(point))


def _has_timestamps(metal: Any, device: Any) -> bool:
    sets = device.counterSets() or ()
    return any(str(counter_set.name()) == str(metal.MTLCommonCounterSetTimestamp) for counter_set in sets)

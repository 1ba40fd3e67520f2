"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels.

Importing it is quick: a name brings in its module when it is first used.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import counters, distributed, fn, models, ops, settings
    from .calls import fast
    from .calls.kernel import kernel
    from .counters import (
        auto_barrier_concurrent_count,
        auto_barrier_count,
        barrier_count,
        barrier_total_ns,
        cmd_buf_count,
        dispatch_count,
        reset_counters,
        sync_count,
    )
    from .device import MlxDevice
    from .dtypes import DType
    from .encoder import (
        Barrier,
        CapturedBarrier,
        CapturedNode,
        CapturedOpKind,
        CommandEncoder,
        Dispatch,
        DispatchKind,
        Encoder,
        Out,
        RecordedBinding,
        Recorder,
        Ticket,
    )
    from .encoder.session import EncoderSession
    from .errors import (
        BackendError,
        BufferAllocationError,
        CaptureError,
        CollectiveTimeout,
        CommandBufferError,
        DataRaceError,
        DeviceNotFound,
        DistributedError,
        EncoderStateError,
        ForkedProcessError,
        InvalidArgument,
        KernelNotFound,
        MissingBarrierError,
        MlxError,
        ModelFileError,
        OutOfBoundsError,
        SettingsError,
        ShaderCompilationError,
        WaitTimeout,
    )
    from .graph import ComputeGraph, GraphExecutor, GraphSession, Outcome, Plan, Scalars
    from .hazards.ranges import Hazard, HazardKind
    from .hazards.tracker import BufferRange, MemRangeRole, MemRanges
    from .memory.buffer import MlxBuffer
    from .memory.pool import MlxBufferPool, PoolStatistics
    from .memory.texture import MlxSampler, MlxTexture
    from .metal import Backend, Capabilities, open_metal
    from .pipelines.compile_options import CompileOptions
    from .pipelines.pipeline import Binding, Pipeline
    from .pipelines.registry import KernelLibrary, KernelRegistry
    from .profiling import kernel_profile
    from .profiling.metal_capture import MetalCapture
    from .profiling.profile import Profile, load_profile, profile
    from .profiling.regions import region
    from .profiling.trace import merge_traces
    from .shared_device import default_device

__version__ = "0.1.0"

__all__ = [
    "Backend",
    "BackendError",
    "Barrier",
    "Binding",
    "BufferAllocationError",
    "BufferRange",
    "Capabilities",
    "CaptureError",
    "CapturedBarrier",
    "CapturedNode",
    "CapturedOpKind",
    "CollectiveTimeout",
    "CommandBufferError",
    "CommandEncoder",
    "CompileOptions",
    "ComputeGraph",
    "DType",
    "DataRaceError",
    "DeviceNotFound",
    "Dispatch",
    "DispatchKind",
    "DistributedError",
    "Encoder",
    "EncoderSession",
    "EncoderStateError",
    "ForkedProcessError",
    "GraphExecutor",
    "GraphSession",
    "Hazard",
    "HazardKind",
    "InvalidArgument",
    "KernelLibrary",
    "KernelNotFound",
    "KernelRegistry",
    "MemRangeRole",
    "MemRanges",
    "MetalCapture",
    "MissingBarrierError",
    "MlxBuffer",
    "MlxBufferPool",
    "MlxDevice",
    "MlxError",
    "MlxSampler",
    "MlxTexture",
    "ModelFileError",
    "Out",
    "OutOfBoundsError",
    "Outcome",
    "Pipeline",
    "Plan",
    "PoolStatistics",
    "Profile",
    "RecordedBinding",
    "Recorder",
    "Scalars",
    "SettingsError",
    "ShaderCompilationError",
    "Ticket",
    "WaitTimeout",
    "auto_barrier_concurrent_count",
    "auto_barrier_count",
    "barrier_count",
    "barrier_total_ns",
    "cmd_buf_count",
    "counters",
    "default_device",
    "dispatch_count",
    "distributed",
    "fast",
    "fn",
    "kernel",
    "kernel_profile",
    "load_profile",
    "merge_traces",
    "models",
    "open_metal",
    "ops",
    "profile",
    "region",
    "reset_counters",
    "settings",
    "sync_count",
]

_MODULES = {
    "counters": "counters",
    "distributed": "distributed",
    "fast": "calls.fast",
    "fn": "fn",
    "kernel_profile": "profiling.kernel_profile",
    "models": "models",
    "ops": "ops",
    "settings": "settings",
}
_NAMES = {
    "calls.kernel": "kernel",
    "counters": (
        "auto_barrier_concurrent_count auto_barrier_count barrier_count barrier_total_ns cmd_buf_count dispatch_count "
        "reset_counters sync_count"
    ),
    "device": "MlxDevice",
    "dtypes": "DType",
    "encoder": (
        "Barrier CapturedBarrier CapturedNode CapturedOpKind CommandEncoder Dispatch DispatchKind Encoder Out "
        "RecordedBinding Recorder Ticket"
    ),
    "encoder.session": "EncoderSession",
    "errors": (
        "BackendError BufferAllocationError CaptureError CollectiveTimeout CommandBufferError DataRaceError "
        "DeviceNotFound DistributedError EncoderStateError ForkedProcessError InvalidArgument KernelNotFound "
        "MissingBarrierError MlxError ModelFileError OutOfBoundsError SettingsError ShaderCompilationError WaitTimeout"
    ),
    "graph": "ComputeGraph GraphExecutor GraphSession Outcome Plan Scalars",
    "hazards.ranges": "Hazard HazardKind",
    "hazards.tracker": "BufferRange MemRangeRole MemRanges",
    "memory.buffer": "MlxBuffer",
    "memory.pool": "MlxBufferPool PoolStatistics",
    "memory.texture": "MlxSampler MlxTexture",
    "metal": "Backend Capabilities open_metal",
    "pipelines.compile_options": "CompileOptions",
    "pipelines.pipeline": "Binding Pipeline",
    "pipelines.registry": "KernelLibrary KernelRegistry",
    "profiling.metal_capture": "MetalCapture",
    "profiling.profile": "Profile load_profile profile",
    "profiling.regions": "region",
    "profiling.trace": "merge_traces",
    "shared_device": "default_device",
}
"""The public names by the module that has them."""
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


# Hidden from type checkers, which would take it as a promise that every name exists.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            value = _import_module(f".{_MODULES[name]}", __name__)
        elif name in _HOMES:
            value = getattr(_import_module(f".{_HOMES[name]}", __name__), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

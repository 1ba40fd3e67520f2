"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels.

Importing it is quick: a name brings in its module when it is first used.
"""

import atexit as _atexit
import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import (
        counters as counters,
        distributed as distributed,
        fn as fn,
        models as models,
        ops as ops,
        settings as settings,
    )
    from .calls import fast as fast
    from .calls.kernel import kernel as kernel
    from .counters import (
        auto_barrier_concurrent_count as auto_barrier_concurrent_count,
        auto_barrier_count as auto_barrier_count,
        barrier_count as barrier_count,
        barrier_total_ns as barrier_total_ns,
        cmd_buf_count as cmd_buf_count,
        dispatch_count as dispatch_count,
        reset_counters as reset_counters,
        sync_count as sync_count,
    )
    from .device import MlxDevice as MlxDevice
    from .dtypes import DType as DType
    from .encoder import (
        Barrier as Barrier,
        CapturedBarrier as CapturedBarrier,
        CapturedNode as CapturedNode,
        CapturedOpKind as CapturedOpKind,
        CommandEncoder as CommandEncoder,
        Dispatch as Dispatch,
        DispatchKind as DispatchKind,
        Encoder as Encoder,
        Out as Out,
        RecordedBinding as RecordedBinding,
        Recorder as Recorder,
        Ticket as Ticket,
    )
    from .encoder.session import EncoderSession as EncoderSession
    from .errors import (
        BackendError as BackendError,
        BufferAllocationError as BufferAllocationError,
        CaptureError as CaptureError,
        CollectiveTimeout as CollectiveTimeout,
        CommandBufferError as CommandBufferError,
        DataRaceError as DataRaceError,
        DeviceNotFound as DeviceNotFound,
        DistributedError as DistributedError,
        DivergentBarrierError as DivergentBarrierError,
        EncoderStateError as EncoderStateError,
        ForkedProcessError as ForkedProcessError,
        InvalidArgument as InvalidArgument,
        KernelNotFound as KernelNotFound,
        MisalignedAccessError as MisalignedAccessError,
        MissingBarrierError as MissingBarrierError,
        MlxError as MlxError,
        ModelFileError as ModelFileError,
        OrderDependenceError as OrderDependenceError,
        OutOfBoundsError as OutOfBoundsError,
        SettingsError as SettingsError,
        ShaderCompilationError as ShaderCompilationError,
        UndeclaredAccessError as UndeclaredAccessError,
        UninitialisedReadError as UninitialisedReadError,
        WaitTimeout as WaitTimeout,
    )
    from .graph import (
        ComputeGraph as ComputeGraph,
        GraphExecutor as GraphExecutor,
        GraphSession as GraphSession,
        Outcome as Outcome,
        Plan as Plan,
        Scalars as Scalars,
    )
    from .hazards.ranges import Hazard as Hazard, HazardKind as HazardKind
    from .hazards.tracker import BufferRange as BufferRange, MemRangeRole as MemRangeRole, MemRanges as MemRanges
    from .memory.buffer import MlxBuffer as MlxBuffer
    from .memory.pool import MlxBufferPool as MlxBufferPool, PoolStatistics as PoolStatistics
    from .memory.texture import MlxSampler as MlxSampler, MlxTexture as MlxTexture
    from .metal import Backend as Backend, Capabilities as Capabilities, open_metal as open_metal
    from .pipelines.compile_options import CompileOptions as CompileOptions
    from .pipelines.pipeline import Binding as Binding, Pipeline as Pipeline
    from .pipelines.registry import KernelLibrary as KernelLibrary, KernelRegistry as KernelRegistry
    from .profiling import kernel_profile as kernel_profile
    from .profiling.metal_capture import MetalCapture as MetalCapture
    from .profiling.profile import Profile as Profile, load_profile as load_profile, profile as profile
    from .profiling.regions import region as region
    from .profiling.trace import merge_traces as merge_traces
    from .shared_device import default_device as default_device

__version__ = "0.1.0"

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
        "DeviceNotFound DistributedError DivergentBarrierError EncoderStateError ForkedProcessError InvalidArgument "
        "KernelNotFound MisalignedAccessError MissingBarrierError MlxError ModelFileError OrderDependenceError "
        "OutOfBoundsError SettingsError ShaderCompilationError UndeclaredAccessError UninitialisedReadError WaitTimeout"
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
__all__ = sorted([*_MODULES, *_HOMES])


@_atexit.register
def _end() -> None:
    """Ends software Metal after whatever was registered since this import, which may still use it."""
    queues = _sys.modules.get(f"{__name__}.softmetal.execution.queue")
    if queues is not None:
        queues.finish_all()


# Hidden from type checkers, which would otherwise accept any attribute name.
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

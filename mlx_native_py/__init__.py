"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels."""

from . import counters, distributed, fn, ops, settings
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
from .default_device import default_device
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
    DeviceNotFound,
    DistributedError,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
    KernelNotFound,
    MlxError,
    ModelFileError,
    SettingsError,
    ShaderCompilationError,
    WaitTimeout,
)
from .graph import ComputeGraph, GraphExecutor, GraphSession, GroupStatistics, Outcome, Plan, Scalars
from .hazards.ranges import Hazard, HazardKind
from .hazards.tracker import BufferRange, MemRangeRole, MemRanges
from .memory.buffer import MlxBuffer
from .memory.pool import MlxBufferPool, PoolStatistics
from .metal import Backend, Capabilities, open_metal
from .pipelines.compile_options import CompileOptions
from .pipelines.pipeline import Binding, Pipeline
from .pipelines.registry import KernelLibrary, KernelRegistry
from .profiling import kernel_profile
from .profiling.metal_capture import MetalCapture

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
    "GroupStatistics",
    "Hazard",
    "HazardKind",
    "InvalidArgument",
    "KernelLibrary",
    "KernelNotFound",
    "KernelRegistry",
    "MemRangeRole",
    "MemRanges",
    "MetalCapture",
    "MlxBuffer",
    "MlxBufferPool",
    "MlxDevice",
    "MlxError",
    "ModelFileError",
    "Out",
    "Outcome",
    "Pipeline",
    "Plan",
    "PoolStatistics",
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
    "open_metal",
    "ops",
    "reset_counters",
    "settings",
    "sync_count",
]

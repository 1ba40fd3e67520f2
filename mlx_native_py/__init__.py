"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels."""

from . import counters, fast, fn, kernel_profile, ops, settings
from .buffer import MlxBuffer
from .buffer_pool import MlxBufferPool, PoolStatistics
from .compile_options import CompileOptions
from .compiled import kernel
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
    CapturedDispatch,
    CapturedNode,
    CapturedOpKind,
    CommandEncoder,
    DispatchKind,
    Out,
    RecordedBinding,
    Ticket,
)
from .encoder_session import EncoderSession
from .errors import (
    BackendError,
    BufferAllocationError,
    CaptureError,
    CommandBufferError,
    DeviceNotFound,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
    KernelNotFound,
    MlxError,
    ModelFileError,
    ResidencySetError,
    SettingsError,
    ShaderCompilationError,
    WaitTimeout,
)
from .graph import ComputeGraph, GraphExecutor, GraphSession, GroupStatistics, Outcome, Plan, PreparedOps, Scalars
from .hazards import Hazard, HazardKind
from .kernel_registry import KernelLibrary, KernelRegistry
from .mem_ranges import BufferRange, MemRangeRole, MemRanges
from .metal import Capabilities, Door, open_metal
from .metal_capture import MetalCapture
from .pipeline import Binding, Pipeline

__all__ = [
    "BackendError",
    "Barrier",
    "Binding",
    "BufferAllocationError",
    "BufferRange",
    "Capabilities",
    "CaptureError",
    "CapturedBarrier",
    "CapturedDispatch",
    "CapturedNode",
    "CapturedOpKind",
    "CommandBufferError",
    "CommandEncoder",
    "CompileOptions",
    "ComputeGraph",
    "DType",
    "DeviceNotFound",
    "DispatchKind",
    "Door",
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
    "PreparedOps",
    "RecordedBinding",
    "ResidencySetError",
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

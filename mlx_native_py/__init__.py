"""Metal compute from Python: Apple's Metal through PyObjC, or a software Metal that runs the same kernels."""

from . import counters, settings
from .buffer import MlxBuffer
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
from .errors import (
    BackendError,
    BufferAllocationError,
    CommandBufferError,
    DeviceNotFound,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
    KernelNotFound,
    MlxError,
    ResidencySetError,
    SettingsError,
    ShaderCompilationError,
    WaitTimeout,
)
from .hazards import Hazard, HazardKind
from .mem_ranges import BufferRange, MemRangeRole, MemRanges
from .metal import Capabilities, Door, open_metal

__all__ = [
    "BackendError",
    "BufferAllocationError",
    "BufferRange",
    "Capabilities",
    "CommandBufferError",
    "DType",
    "DeviceNotFound",
    "Door",
    "EncoderStateError",
    "ForkedProcessError",
    "Hazard",
    "HazardKind",
    "InvalidArgument",
    "KernelNotFound",
    "MemRangeRole",
    "MemRanges",
    "MlxBuffer",
    "MlxDevice",
    "MlxError",
    "ResidencySetError",
    "SettingsError",
    "ShaderCompilationError",
    "WaitTimeout",
    "auto_barrier_concurrent_count",
    "auto_barrier_count",
    "barrier_count",
    "barrier_total_ns",
    "cmd_buf_count",
    "counters",
    "dispatch_count",
    "open_metal",
    "reset_counters",
    "settings",
    "sync_count",
]

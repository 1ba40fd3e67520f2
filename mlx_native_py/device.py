"""MlxDevice: a device, and everything that is made from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from .calls.library import Library, compiled
from .dtypes import DType
from .encoder import CommandEncoder
from .encoder.context import DeviceContext
from .encoder.session import EncoderSession
from .errors import InvalidArgument
from .graph import ComputeGraph, capture
from .memory.buffer import MlxBuffer
from .memory.pool import MlxBufferPool
from .metal import Backend, open_metal
from .profiling.at_exit import follow_environment
from .settings import BackendName, override

__all__ = ["MlxDevice"]


class MlxDevice(DeviceContext):
    """Metal's default device: Apple's, or the software one; `backend` says which, else `MLX_NATIVE_DEVICE`.

    `isolated=True` (or `MLX_SOFT_ISOLATED=1`) has the software device run kernels in processes without any rights, as
    a GPU keeps them apart from the program; see docs/security.md.

    >>> with MlxDevice("soft") as device:
    ...     x = device.buffer([1.0, 2.0])
    ...     print(x, x.numpy().sum())
    MlxBuffer(f32[2], 8 bytes: 1, 2) 3.0
    """

    def __init__(self, backend: Backend | BackendName | None = None, *, isolated: bool | None = None) -> None:
        changes = {} if isolated is None else {"soft_isolated": isolated}
        if isinstance(backend, Backend) and changes:
            raise InvalidArgument("isolated is decided when a backend is opened, and this one is open already")
        with override(**changes):
            super().__init__(backend if isinstance(backend, Backend) else open_metal(backend))
        follow_environment()

    def zeros(self, shape: int | Sequence[int], dtype: Any = DType.F32, *, label: str = "") -> MlxBuffer:
        """A buffer of zeros."""
        return self.full(shape, 0, dtype, label=label)

    def ones(self, shape: int | Sequence[int], dtype: Any = DType.F32, *, label: str = "") -> MlxBuffer:
        """A buffer of ones."""
        return self.full(shape, 1, dtype, label=label)

    def full(self, shape: int | Sequence[int], value: Any, dtype: Any = DType.F32, *, label: str = "") -> MlxBuffer:
        """A buffer of one value.

        >>> device.full((2, 2), 0.5)
        MlxBuffer(f32[2, 2], 16 bytes: 0.5, 0.5, 0.5, 0.5)
        """
        return self.empty(shape, dtype, label=label).fill(value)

    def arange(self, start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> MlxBuffer:
        """Numbers from `start` (0, where one number is given) up to `stop`: i32, or f32 where one of them is a float.

        >>> device.arange(4), device.arange(0, 1, 0.25)
        (MlxBuffer(i32[4], 16 bytes: 0, 1, 2, 3), MlxBuffer(f32[4], 16 bytes: 0, 0.25, 0.5, 0.75))
        """
        numbers = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
        return self.buffer(numbers.tolist(), dtype)

    def buffer_pool(self, **options: Any) -> MlxBufferPool:
        """A pool of buffers of this device; see `MlxBufferPool`."""
        return MlxBufferPool(self, **options)

    def command_encoder(self, **options: Any) -> CommandEncoder:
        """A fresh command buffer to encode into; see `CommandEncoder`."""
        self.require_open()
        return CommandEncoder(self, **options)

    def encoder_session(self, **options: Any) -> EncoderSession:
        """Several command buffers in stages; see `EncoderSession`."""
        self.require_open()
        return EncoderSession(self, **options)

    def capture(self, **names: MlxBuffer) -> AbstractContextManager[ComputeGraph]:
        """Records what is encoded on the graph's `encoder` inside the block; `names` are inputs and results.

        >>> with device.capture(y=y) as g:
        ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
        >>> g
        <ComputeGraph of 1 dispatch, 0 barriers>
        """
        return capture(self, **names)

    def compile(self, source: str | Path, **options: Any) -> Library:
        """The kernels of an MSL source as callables; see `mlx_native_py.kernel`."""
        return compiled(self, source, **options)

    def __enter__(self) -> MlxDevice:
        self.require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

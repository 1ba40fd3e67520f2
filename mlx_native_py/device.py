"""MlxDevice: the device, and the factory of everything that belongs to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .calls.library import Library, compiled
from .dtypes import DType
from .encoder import CommandEncoder
from .encoder.context import DeviceContext
from .encoder.samplers import new_sampler
from .encoder.session import EncoderSession
from .errors import DeviceNotFound, InvalidArgument
from .graph import ComputeGraph, capture
from .memory.buffer import MlxBuffer, as_array
from .memory.pool import MlxBufferPool
from .memory.shapes import whole
from .memory.texture import MlxSampler, MlxTexture, pixel_format, texture_over
from .metal import Backend, open_metal
from .profiling.at_exit import follow_environment
from .settings import BackendName, override

__all__ = ["MlxDevice", "ScheduledRuns"]


class ScheduledRuns:
    """Statistics of a `device.schedules` block."""

    def __init__(self, orders: int, count: Callable[[], int]) -> None:
        self.orders = orders
        """In how many orders each pass runs."""
        self._count = count

    @property
    def passes(self) -> int:
        """How many compute passes have run in all orders."""
        return self._count()

    def __repr__(self) -> str:
        return f"<ScheduledRuns: {self.passes} pass{'es' * (self.passes != 1)} in {self.orders} orders>"


class MlxDevice(DeviceContext):
    """The default Metal device: Apple's or the software one, chosen by `backend` or `MLX_NATIVE_DEVICE`.

    `isolated=True` (or `MLX_SOFT_ISOLATED=1`) makes the software device run kernels in sandboxed processes; see
    docs/security.md.

    >>> with MlxDevice("soft") as device:
    ...     x = device.buffer([1.0, 2.0])
    ...     print(x, x.numpy().sum())
    MlxBuffer(f32[2], 8 bytes: 1, 2) 3.0
    """

    def __init__(self, backend: Backend | BackendName | None = None, *, isolated: bool | None = None) -> None:
        changes = {} if isolated is None else {"soft_isolated": isolated}
        if isinstance(backend, Backend) and changes:
            raise InvalidArgument("isolated must be given when a backend is opened; this one is already open")
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
        """A buffer filled with one value.

        >>> device.full((2, 2), 0.5)
        MlxBuffer(f32[2, 2], 16 bytes: 0.5, 0.5, 0.5, 0.5)
        """
        return self.empty(shape, dtype, label=label).fill(value)

    def arange(self, start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> MlxBuffer:
        """Numbers from `start` (default 0) up to `stop`: i32, or f32 if an argument is a float.

        >>> device.arange(4), device.arange(0, 1, 0.25)
        (MlxBuffer(i32[4], 16 bytes: 0, 1, 2, 3), MlxBuffer(f32[4], 16 bytes: 0, 0.25, 0.5, 0.75))
        """
        if not step or not all(isinstance(each, (int, float, np.number)) for each in (start, stop or 0, step)):
            raise InvalidArgument(f"arange of {start!r}, {stop!r} and {step!r}, expected numbers and a step but 0")
        numbers = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
        return self.buffer(numbers.tolist(), dtype)

    def texture(self, source: Any, *, format: str | None = None) -> MlxTexture:
        """A texture from an image of (height, width) or (height, width, channels).

        An array is copied; a buffer becomes the texture's memory. 8 and 16-bit integers are normalised for kernels,
        unless `format` names another format such as "RGBA8Uint" or "BGRA8Unorm_sRGB".

        >>> image = device.texture(np.eye(4, dtype=np.float32))
        >>> lib = device.compile('''
        ... #include <metal_stdlib>
        ... using namespace metal;
        ... kernel void flip(texture2d<float, access::read> a, texture2d<float, access::write> b,
        ...                  uint2 at [[thread_position_in_grid]]) {
        ...   b.write(a.read(uint2(a.get_width() - 1 - at.x, at.y)), at);
        ... }''')
        >>> flipped = device.empty_texture((4, 4), "f32")
        >>> ticket = lib.flip(image, flipped)
        >>> flipped.numpy()[0, :, 0]
        array([0., 0., 0., 1.], dtype=float32)
        """
        self.require_open()
        if isinstance(source, MlxBuffer):
            return self._texture_over(source, format)
        array = as_array(source)
        return self.empty_texture(array.shape, array.dtype, format=format).copy_from(array)

    def empty_texture(self, shape: Sequence[int], dtype: Any = DType.F32, *, format: str | None = None) -> MlxTexture:
        """A texture with undefined contents; see `texture`."""
        height, width, channels = _image_shape(shape)
        form = pixel_format(self.backend, format, DType.of(dtype), channels)
        step = int(self.mtl.minimumLinearTextureAlignmentForPixelFormat_(form.number))
        row = -(-width * form.texel_bytes // step) * step
        rows = self.empty((height, row // form.dtype.size), form.dtype)
        self.barrier_scope |= self.backend.Metal.MTLBarrierScopeTextures
        return texture_over(self.backend, self.mtl, rows, form, width)

    def _texture_over(self, buffer: MlxBuffer, format: str | None) -> MlxTexture:
        height, width, channels = _image_shape(buffer.shape)
        form = pixel_format(self.backend, format, buffer.dtype, channels)
        self.barrier_scope |= self.backend.Metal.MTLBarrierScopeTextures
        return texture_over(self.backend, self.mtl, buffer.reshape(height, width * channels), form, width)

    def sampler(
        self,
        *,
        filter: str = "nearest",
        address: str = "clamp_to_edge",
        coord: str = "normalized",
        mip_filter: str = "none",
        border: str = "transparent_black",
    ) -> MlxSampler:
        """A sampler for kernels that take one; the options are named as in MSL's `sampler`.

        >>> device.sampler(filter="linear", address="repeat")
        MlxSampler(linear, repeat, normalized)
        """
        self.require_open()
        return new_sampler(
            self.backend,
            self.mtl,
            filter=filter,
            address=address,
            coord=coord,
            mip_filter=mip_filter,
            border=border,
        )

    def buffer_pool(self, **options: Any) -> MlxBufferPool:
        """A buffer pool on this device; see `MlxBufferPool`."""
        return MlxBufferPool(self, **options)

    def command_encoder(self, **options: Any) -> CommandEncoder:
        """A new command buffer to encode into; see `CommandEncoder`."""
        return CommandEncoder(self, **options)

    def encoder_session(self, **options: Any) -> EncoderSession:
        """A chain of command buffers; see `EncoderSession`."""
        self.require_open()
        return EncoderSession(self, **options)

    def capture(self, **names: MlxBuffer) -> AbstractContextManager[ComputeGraph]:
        """Records dispatches on the graph's `encoder` inside the block; `names` are inputs and outputs.

        >>> with device.capture(y=y) as g:
        ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
        >>> g
        <ComputeGraph of 1 dispatch, 0 barriers>
        """
        return capture(self, **names)

    @contextmanager
    def schedules(self, count: int = 16) -> Iterator[ScheduledRuns]:
        """Runs the block's work in `count` orders and compares the resulting bytes.

        Every compute pass runs again from the same memory with its dispatches between barriers, and the threadgroups of
        each dispatch, in another order. If bytes differ, OrderDependenceError is raised by the next wait, at the latest
        at the end of the block. Results are those of the first order. Only the software device supports this.

        >>> with device.schedules(16) as runs:
        ...     with device.command_encoder() as enc:
        ...         enc.dispatch(axpy, x, y, 2.0, threads=4)
        >>> runs
        <ScheduledRuns: 1 pass in 16 orders>
        """
        self.require_open()
        if self.backend.in_orders is None:
            raise DeviceNotFound(
                f"{self!r} schedules threads itself; only the software device (MLX_NATIVE_DEVICE=soft) has schedules"
            )
        with self.backend.in_orders(self.mtl, whole(count, "count", 1)) as counted:
            runs = ScheduledRuns(count, counted)
            yield runs
            self.submissions.wait_all()

    def compile(self, source: str | Path, **options: Any) -> Library:
        """Compiles MSL source into callables; see `mlx_native_py.kernel`."""
        return compiled(self, source, **options)

    def __enter__(self) -> MlxDevice:
        self.require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    if len(shape) not in (2, 3) or not all(shape):
        raise InvalidArgument(f"an image is (height, width) or (height, width, channels), not {tuple(shape)}")
    height, width, channels = (*shape, 1)[:3]
    return int(height), int(width), int(channels)

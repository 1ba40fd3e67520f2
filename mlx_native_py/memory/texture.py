"""Textures: images in buffer memory, as numpy arrays of (height, width, channels)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..dtypes import DType
from ..errors import BackendError, InvalidArgument
from ..metal import Backend
from .buffer import Array, MlxBuffer

__all__ = ["MlxSampler", "MlxTexture", "TextureFormat", "pixel_format", "texture_over"]

_NAME = re.compile(r"(R|RG|RGBA|BGRA)(8|16|32)(Unorm|Snorm|Uint|Sint|Float)(_sRGB)?")
_KINDS: dict[str, str] = {
    "u8": "8Unorm",
    "i8": "8Snorm",
    "u16": "16Unorm",
    "i16": "16Snorm",
    "u32": "32Uint",
    "i32": "32Sint",
    "f16": "16Float",
    "f32": "32Float",
}
_CHANNELS = {1: "R", 2: "RG", 4: "RGBA"}
_MAX_SIDE = 16384  # texels in a row or column


@dataclass(frozen=True)
class TextureFormat:
    """A Metal pixel format: its storage type in numpy, and the type that kernels see."""

    name: str
    number: int
    dtype: DType
    channels: int
    kind: Literal["float", "int", "uint"]

    @property
    def texel_bytes(self) -> int:
        return self.channels * self.dtype.size


def pixel_format(backend: Backend, name: str | None, dtype: DType, channels: int) -> TextureFormat:
    """A format by its Metal name, or the default for an element type (8 and 16-bit integers are normalised)."""
    if channels not in _CHANNELS:
        raise InvalidArgument(f"a texture has 1, 2 or 4 channels, not {channels}; add an alpha channel to RGB data")
    if name is None:
        if str(dtype) not in _KINDS:
            raise InvalidArgument(f"no texture holds {dtype}; there are {', '.join(_KINDS)}")
        name = _CHANNELS[channels] + _KINDS[str(dtype)]
    match = _NAME.fullmatch(name)
    number = getattr(backend.Metal, f"MTLPixelFormat{name}", None) if match else None
    if match is None or number is None:
        raise InvalidArgument(f"format {name!r} is not a supported texture format; examples: 'RGBA8Unorm', 'R32Float'")
    letters, bits, kind, _ = match.groups()
    stored = DType.of(f"{'f' if kind == 'Float' else 'u' if kind[0] == 'U' else 'i'}{bits}")
    if (stored, len(letters)) != (dtype, channels):
        raise InvalidArgument(f"format {name} holds {len(letters)} x {stored}, but was given {channels} x {dtype}")
    seen: Literal["float", "int", "uint"] = "uint" if kind == "Uint" else "int" if kind == "Sint" else "float"
    return TextureFormat(name, int(number), stored, channels, seen)


class MlxTexture:
    """A two-dimensional texture of shape (height, width, channels); rows may be padded.

    Kernels that use it are ordered with those that use its `buffer`, because they share the memory.

    >>> image = device.texture(np.zeros((2, 3, 4), np.uint8))
    >>> image
    MlxTexture(RGBA8Unorm, 3 x 2 texels)
    >>> image.numpy().shape, image.dtype
    ((2, 3, 4), DType.U8)
    """

    __slots__ = ("buffer", "format", "mtl", "shape")

    def __init__(self, mtl: Any, buffer: MlxBuffer, form: TextureFormat, shape: tuple[int, int, int]) -> None:
        self.mtl = mtl
        self.buffer = buffer
        """The memory of its rows, including their padding."""
        self.format = form
        self.shape = shape

    @property
    def dtype(self) -> DType:
        return self.format.dtype

    @property
    def width(self) -> int:
        return self.shape[1]

    @property
    def height(self) -> int:
        return self.shape[0]

    def numpy(self, *, wait: bool = True) -> Array:
        """An array of (height, width, channels) over the same memory; waits for work that writes it."""
        rows = self.buffer.numpy(wait=wait).reshape(self.height, -1)
        return rows[:, : self.width * self.format.channels].reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def copy_from(self, source: Any) -> MlxTexture:
        """Sets every texel from an array of the same shape and type."""
        array = np.asarray(source)
        array = array[..., None] if array.ndim == 2 else array
        if array.shape != self.shape or array.dtype != self.dtype.numpy:
            raise InvalidArgument(
                f"{self!r} takes {self.dtype}{list(self.shape)}, not {array.dtype}{list(array.shape)}"
            )
        self.buffer.allocation.wait()
        self.numpy()[...] = array
        return self

    def __repr__(self) -> str:
        return f"MlxTexture({self.format.name}, {self.width} x {self.height} texels)"


class MlxSampler:
    """Filtering and addressing for a kernel's `sampler` argument; created by `device.sampler()`."""

    __slots__ = ("described", "mtl")

    def __init__(self, mtl: Any, described: str) -> None:
        self.mtl = mtl
        self.described = described

    def __repr__(self) -> str:
        return f"MlxSampler({self.described})"


def texture_over(backend: Backend, device: Any, buffer: MlxBuffer, form: TextureFormat, width: int) -> MlxTexture:
    """A texture over a buffer of (height, row elements); created once per memory and layout."""
    height, row = buffer.shape[0], buffer.nbytes // buffer.shape[0]
    if not 1 <= width <= _MAX_SIDE or not 1 <= height <= _MAX_SIDE:
        raise InvalidArgument(f"a texture of {width} x {height} texels; each may be 1 to {_MAX_SIDE}")
    step = int(device.minimumLinearTextureAlignmentForPixelFormat_(form.number))
    if buffer.offset % step or row % step:
        raise InvalidArgument(
            f"a texture over {buffer!r} begins at byte {buffer.offset} and has rows of {row} bytes; {form.name} needs "
            f"multiples of {step} on this device. device.texture(buffer.numpy()) copies them"
        )
    known = buffer.allocation.textures
    key = (form.number, buffer.offset, width, height, row)
    if key not in known:
        known[key] = _made(backend, buffer, form, (height, width), row)
    return MlxTexture(known[key], buffer, form, (height, width, form.channels))


def _made(backend: Backend, buffer: MlxBuffer, form: TextureFormat, size: tuple[int, int], row: int) -> Any:
    metal = backend.Metal
    with backend.autorelease_pool():
        asked = metal.MTLTextureDescriptor.alloc().init()
        asked.setTextureType_(metal.MTLTextureType2D)
        asked.setPixelFormat_(form.number)
        asked.setWidth_(size[1])
        asked.setHeight_(size[0])
        asked.setStorageMode_(buffer.mtl.storageMode())
        written = 0 if buffer.readonly else metal.MTLTextureUsageShaderWrite
        asked.setUsage_(metal.MTLTextureUsageShaderRead | written)
        mtl = buffer.mtl.newTextureWithDescriptor_offset_bytesPerRow_(asked, buffer.offset, row)
    if mtl is None:
        raise BackendError(f"the device could not create a texture of {form.name}, {size[1]} x {size[0]} texels")
    return mtl

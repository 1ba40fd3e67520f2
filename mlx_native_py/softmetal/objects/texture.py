"""Textures: descriptors, memory of their own or a buffer's, views, and CPU copies of regions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import constants as c
from .. import memory
from ..execution.textures import MOST_LEVELS, Level, TextureShape, TextureState
from ..formats import pixel_format
from ..misuse import InvalidValue, MetalMisuse
from ..unwritten import UnwrittenTexels
from ..values import MTLResourceID, flat_bytes, instance, natural, region, truth, within
from .base import Descriptor, attribute
from .buffer import MTLBuffer, Resource, resource_options
from .owned import DeviceObject

LINEAR_STEP = 16  # bytes that a row of a buffer's texture begins at
MOST_BUFFER_TEXELS = 1 << 28
_SAMPLED = (c.MTLTextureType2DMultisample, c.MTLTextureType2DMultisampleArray)
_SAMPLES = (2, 4, 8)  # that a texel of them may have
_ARRAYS = (c.MTLTextureType1DArray, c.MTLTextureType2DArray, c.MTLTextureTypeCubeArray, _SAMPLED[1])
_CUBES = (c.MTLTextureTypeCube, c.MTLTextureTypeCubeArray)
_FLAT = (c.MTLTextureType1D, c.MTLTextureType1DArray, c.MTLTextureTypeTextureBuffer)
_LIMITS = {c.MTLTextureType3D: (2048, 2048, 2048), c.MTLTextureTypeTextureBuffer: (MOST_BUFFER_TEXELS, 1, 1)}


class MTLTextureDescriptor(Descriptor):
    """The parameters of a texture."""

    textureType, setTextureType_ = attribute("textureType", natural, c.MTLTextureType2D)
    pixelFormat, setPixelFormat_ = attribute("pixelFormat", natural, c.MTLPixelFormatRGBA8Unorm)
    width, setWidth_ = attribute("width", natural, 1)
    height, setHeight_ = attribute("height", natural, 1)
    depth, setDepth_ = attribute("depth", natural, 1)
    mipmapLevelCount, setMipmapLevelCount_ = attribute("mipmapLevelCount", natural, 1)
    sampleCount, setSampleCount_ = attribute("sampleCount", natural, 1)
    arrayLength, setArrayLength_ = attribute("arrayLength", natural, 1)
    usage, setUsage_ = attribute("usage", natural, c.MTLTextureUsageShaderRead)
    resourceOptions, setResourceOptions_ = attribute("resourceOptions", lambda value, _: resource_options(value), 0)
    allowGPUOptimizedContents, setAllowGPUOptimizedContents_ = attribute("allowGPUOptimizedContents", truth, True)

    def storageMode(self) -> int:
        return self.resourceOptions() >> 4 & 15

    def setStorageMode_(self, mode: int) -> None:
        self.setResourceOptions_(self.resourceOptions() & ~0xF0 | natural(mode, "storageMode") << 4)

    @classmethod
    def texture2DDescriptorWithPixelFormat_width_height_mipmapped_(
        cls, form: int, width: int, height: int, mipmapped: bool
    ) -> MTLTextureDescriptor:
        descriptor = cls()
        descriptor.setPixelFormat_(form)
        descriptor.setWidth_(width)
        descriptor.setHeight_(height)
        descriptor.setMipmapLevelCount_(max(width, height).bit_length() if truth(mipmapped, "mipmapped") else 1)
        return descriptor

    @classmethod
    def textureCubeDescriptorWithPixelFormat_size_mipmapped_(
        cls, form: int, size: int, mipmapped: bool
    ) -> MTLTextureDescriptor:
        descriptor = cls.texture2DDescriptorWithPixelFormat_width_height_mipmapped_(form, size, size, mipmapped)
        descriptor.setTextureType_(c.MTLTextureTypeCube)
        return descriptor

    @classmethod
    def textureBufferDescriptorWithPixelFormat_width_resourceOptions_usage_(
        cls, form: int, width: int, options: int, usage: int
    ) -> MTLTextureDescriptor:
        descriptor = cls()
        descriptor.setTextureType_(c.MTLTextureTypeTextureBuffer)
        descriptor.setPixelFormat_(form)
        descriptor.setWidth_(width)
        descriptor.setResourceOptions_(options)
        descriptor.setUsage_(usage)
        return descriptor


class MTLTexture(Resource):
    """Texels in memory of its own, of a buffer, or of the texture that it is a view of."""

    def __init__(
        self, device: DeviceObject, state: TextureState, options: int, parent: MTLTexture | None, buffer: Any = None
    ) -> None:
        super().__init__(device, state.allocation, options)
        self.state = state
        self._parent = parent
        self._buffer: MTLBuffer | None = buffer

    def textureType(self) -> int:
        return self.state.shape.type

    def pixelFormat(self) -> int:
        return self.state.shape.format.number

    def width(self) -> int:
        return self.state.shape.width

    def height(self) -> int:
        return self.state.shape.height

    def depth(self) -> int:
        return self.state.shape.depth

    def mipmapLevelCount(self) -> int:
        return len(self.state.shape.levels)

    def sampleCount(self) -> int:
        return self.state.shape.samples

    def arrayLength(self) -> int:
        return self.state.shape.slices // (6 if self.state.is_cube else 1)

    def usage(self) -> int:
        return self.state.usage

    def parentTexture(self) -> MTLTexture | None:
        return self._parent

    def buffer(self) -> MTLBuffer | None:
        return self._buffer

    def bufferOffset(self) -> int:
        return self.state.start if self._buffer else 0

    def bufferBytesPerRow(self) -> int:
        return self.state.shape.levels[0].row_bytes if self._buffer else 0

    def gpuResourceID(self) -> MTLResourceID:
        return MTLResourceID(self.state.handle)

    def newTextureViewWithPixelFormat_(self, form: int) -> MTLTexture:
        levels, slices = len(self.state.shape.levels), self.state.shape.slices
        return self.newTextureViewWithPixelFormat_textureType_levels_slices_(
            form, self.textureType(), (0, levels), (0, slices)
        )

    def newTextureViewWithPixelFormat_textureType_levels_slices_(
        self, form: int, type_: int, levels: tuple[int, int], slices: tuple[int, int]
    ) -> MTLTexture:
        shape, wanted = self.state.shape, pixel_format(natural(form, "pixelFormat"))
        if wanted.bytes != shape.format.bytes:
            raise InvalidValue(
                f"a view as {wanted.name} of {shape.format.name}: "
                f"texels of {wanted.bytes} and {shape.format.bytes} bytes"
            )
        if wanted != shape.format and not self.state.usage & c.MTLTextureUsagePixelFormatView:
            raise MetalMisuse(f"a view as {wanted.name} needs a texture with the usage PixelFormatView")
        some, part = within(levels, len(shape.levels), "levels"), within(slices, shape.slices, "slices")
        if not some.length or not part.length:
            raise InvalidValue("a view needs at least one level and one slice")
        kind = natural(type_, "textureType")
        if (kind in _SAMPLED) != (shape.type in _SAMPLED):
            raise InvalidValue(f"a view as texture type {kind} of type {shape.type}: both or none are multisampled")
        view = shape.part(kind, wanted, some, part)
        state = TextureState(view, self.allocation, self.state.start, self.state.usage, self._device.state.arena)
        return MTLTexture(self._device, state, self._options, self, self._buffer)

    def replaceRegion_mipmapLevel_withBytes_bytesPerRow_(self, part: Any, level: int, data: Any, row: int) -> None:
        self.replaceRegion_mipmapLevel_slice_withBytes_bytesPerRow_bytesPerImage_(part, level, 0, data, row, 0)

    def replaceRegion_mipmapLevel_slice_withBytes_bytesPerRow_bytesPerImage_(
        self, part: Any, level: int, slice_: int, data: Any, row: int, image: int
    ) -> None:
        mine, strides = self._texels(part, level, slice_, row, image)
        source = np.frombuffer(flat_bytes(data, _span(mine.shape, strides), "bytes"), np.uint8)
        mine[...] = np.ndarray(mine.shape, np.uint8, source, strides=strides)
        if isinstance(self.allocation.unwritten, UnwrittenTexels):
            depth, height, length = mine.shape
            first = mine.ctypes.data - self.allocation.address
            planes = (first + z * mine.strides[0] for z in range(depth))
            self.allocation.unwritten.fill(
                (plane + y * mine.strides[1] for plane in planes for y in range(height)), length
            )

    def getBytes_bytesPerRow_fromRegion_mipmapLevel_(self, data: Any, row: int, part: Any, level: int) -> None:
        self.getBytes_bytesPerRow_bytesPerImage_fromRegion_mipmapLevel_slice_(data, row, 0, part, level, 0)

    def getBytes_bytesPerRow_bytesPerImage_fromRegion_mipmapLevel_slice_(
        self, data: Any, row: int, image: int, part: Any, level: int, slice_: int
    ) -> None:
        mine, strides = self._texels(part, level, slice_, row, image)
        target = flat_bytes(data, _span(mine.shape, strides), "bytes")
        if target.readonly:
            raise InvalidValue("getBytes into memory that cannot be written")
        np.ndarray(mine.shape, np.uint8, np.frombuffer(target, np.uint8), strides=strides)[...] = mine

    def _texels(
        self, part: Any, level: int, slice_: int, row: int, image: int
    ) -> tuple[NDArray[np.uint8], tuple[int, int, int]]:
        """A region's bytes (planes, rows, bytes), and the strides of the caller's."""
        if self.storageMode() == c.MTLStorageModePrivate:
            raise MetalMisuse(f"{self!r} has private storage, which the CPU cannot see; copy it by blit")
        if self.sampleCount() > 1:
            raise MetalMisuse(
                f"{self!r} has {self.sampleCount()} samples a texel; only render passes fill such textures"
            )
        shape, number, plane = self.state.shape, natural(level, "mipmapLevel"), natural(slice_, "slice")
        if number >= len(shape.levels) or plane >= shape.slices:
            raise InvalidValue(
                f"level {number}, slice {plane}: this texture has {len(shape.levels)} levels and {shape.slices} slices"
            )
        (x, y, z), (width, height, depth) = region(part, "region")
        extent, place, size = shape.extent(number), shape.levels[number], shape.format.bytes
        if any(a + b > e for a, b, e in zip((x, y, z), (width, height, depth), extent, strict=True)):
            raise InvalidValue(f"region at {x, y, z} of {width, height, depth}, but level {number} has {extent} texels")
        rows = natural(row, "bytesPerRow") or width * size
        if rows < width * size:
            raise InvalidValue(f"bytesPerRow {rows}: {width} texels take {width * size} bytes")
        images = natural(image, "bytesPerImage") or rows * height
        offset = self.state.start + place.offset + (plane + z) * place.image_bytes + y * place.row_bytes + x * size
        strides = (place.image_bytes, place.row_bytes, 1)
        own = np.frombuffer(self.allocation.view(), np.uint8)
        return np.ndarray((depth, height, width * size), np.uint8, own, offset, strides), (images, rows, 1)

    def allocatedSize(self) -> int:
        return memory.pages(self.allocation.length) if not self._parent and not self._buffer else 0


def _span(shape: tuple[int, ...], strides: tuple[int, int, int]) -> int:
    return sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1 if all(shape) else 0


def new_texture(device: DeviceObject, descriptor: Any) -> MTLTexture | None:
    """A texture with zeroed memory of its own, or None when there is no more."""
    asked = instance(descriptor, MTLTextureDescriptor, "descriptor")
    shape = _shape(asked).packed(_levels(asked))
    allocation = device.state.allocate(shape.end)
    if allocation is None:
        return None
    if device.state.options.checked and shape.samples == 1:  # nothing fills multisampled ones
        allocation.forget_texels(shape)
    state = TextureState(shape, allocation, 0, asked.usage(), device.state.arena)
    texture = MTLTexture(device, state, asked.resourceOptions(), None)
    device.state.hand_over(allocation, texture)
    return texture


def texture_of_buffer(buffer: MTLBuffer, descriptor: Any, offset: int, row: int) -> MTLTexture:
    """A texture over a buffer's bytes."""
    asked = instance(descriptor, MTLTextureDescriptor, "descriptor")
    shape, start, rows = _shape(asked), natural(offset, "offset"), natural(row, "bytesPerRow")
    if shape.type not in (c.MTLTextureType2D, c.MTLTextureTypeTextureBuffer, c.MTLTextureType1D):
        raise InvalidValue(f"texture type {shape.type}: a buffer's texture is 1D, 2D or a texture buffer")
    if _levels(asked) != 1:
        raise InvalidValue(f"{asked.mipmapLevelCount()} levels: a buffer's texture has one")
    if start % LINEAR_STEP or rows % LINEAR_STEP:
        raise InvalidValue(f"offset {start}, bytesPerRow {rows}: expected multiples of {LINEAR_STEP}")
    if rows < shape.width * shape.format.bytes:
        raise InvalidValue(f"bytesPerRow {rows}: {shape.width} texels take {shape.width * shape.format.bytes} bytes")
    if asked.storageMode() != buffer.storageMode():
        raise InvalidValue(f"storage mode {asked.storageMode()}: differs from the buffer's {buffer.storageMode()}")
    placed = TextureShape(
        shape.type, shape.format, shape.width, shape.height, levels=(Level(0, rows, rows * shape.height),)
    )
    if start + placed.end > buffer.length():
        raise InvalidValue(
            f"a texture of {placed.end} bytes at offset {start} reaches beyond the buffer's {buffer.length()}"
        )
    device = buffer.device()
    state = TextureState(placed, buffer.allocation, start, asked.usage(), device.state.arena)
    return MTLTexture(device, state, asked.resourceOptions(), None, buffer)


def _levels(asked: MTLTextureDescriptor) -> int:
    count, most = asked.mipmapLevelCount(), max(asked.width(), asked.height(), asked.depth()).bit_length()
    if asked.textureType() in _SAMPLED:
        most = 1
    if not 1 <= count <= min(most, MOST_LEVELS):
        raise InvalidValue(f"mipmapLevelCount {count}: a texture of this size has 1 to {most}")
    return count


def _shape(asked: MTLTextureDescriptor) -> TextureShape:
    kind = asked.textureType()
    size = asked.width(), asked.height(), asked.depth()
    limits = _LIMITS.get(kind, (16384, 1 if kind in _FLAT else 16384, 1))
    if kind > c.MTLTextureTypeTextureBuffer:
        raise InvalidValue(f"texture type {kind}: there is none of this number")
    if asked.sampleCount() not in (_SAMPLES if kind in _SAMPLED else (1,)):
        raise InvalidValue(
            f"texture type {kind}, {asked.sampleCount()} samples: expected {_SAMPLES} for multisampled ones"
        )
    if any(not 1 <= n <= most for n, most in zip(size, limits, strict=True)):
        raise InvalidValue(f"a texture of {size} texels: this type has 1 to {limits}")
    if kind in _CUBES and size[0] != size[1]:
        raise InvalidValue(f"a cube of {size[:2]} texels: its faces are squares")
    if asked.arrayLength() != 1 and kind not in _ARRAYS:
        raise InvalidValue(f"arrayLength {asked.arrayLength()}: texture type {kind} is no array")
    if not 1 <= asked.arrayLength() <= 2048:
        raise InvalidValue(f"arrayLength {asked.arrayLength()}: expected 1 to 2048")
    slices = asked.arrayLength() * (6 if kind in _CUBES else 1)
    return TextureShape(kind, pixel_format(asked.pixelFormat()), *size, slices, samples=asked.sampleCount())

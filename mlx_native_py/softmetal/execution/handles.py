"""Bound textures and samplers of an encoder, as a kernel's table of handles."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from .. import constants as c
from ..misuse import InvalidValue, MetalMisuse
from ..program import KernelArgument
from ..values import natural
from .pipeline import PipelineState
from .textures import TextureState

TEXTURES, SAMPLERS = 128, 16  # how many indices there are; samplers come first in a table
_KINDS = {3: "float", 16: "float", 29: "int", 37: "int", 33: "uint", 41: "uint"}  # by MTLDataType
_TYPES = {
    c.MTLTextureType1D: "texture1d",
    c.MTLTextureType1DArray: "texture1d_array",
    c.MTLTextureType2D: "texture2d",
    c.MTLTextureType2DArray: "texture2d_array",
    c.MTLTextureType2DMultisample: "texture2d_ms",
    c.MTLTextureType2DMultisampleArray: "texture2d_ms_array",
    c.MTLTextureTypeCube: "texturecube",
    c.MTLTextureTypeCubeArray: "texturecube_array",
    c.MTLTextureType3D: "texture3d",
    c.MTLTextureTypeTextureBuffer: "texture_buffer",
}


class Handles:
    """The bound textures and samplers by index."""

    __slots__ = ("samplers", "store", "textures")

    def __init__(self, store: Callable[[bytes], int]) -> None:
        self.store = store
        self.textures: dict[int, TextureState] = {}
        self.samplers: dict[int, int] = {}

    def set_texture(self, texture: TextureState | None, index: int) -> None:
        slot = _index(index, "texture", TEXTURES)
        if texture is None:
            self.textures.pop(slot, None)
        else:
            self.textures[slot] = texture

    def set_sampler(self, bits: int | None, index: int) -> None:
        slot = _index(index, "sampler", SAMPLERS)
        if bits is None:
            self.samplers.pop(slot, None)
        else:
            self.samplers[slot] = bits

    def check(self, pipeline: PipelineState) -> None:
        """Raises unless everything that a kernel declares is bound, and fits."""
        for argument in pipeline.samplers:
            for index in _indices(argument):
                if index not in self.samplers:
                    raise MetalMisuse(_missing(pipeline, argument, index))
        for argument in pipeline.textures:
            for index in _indices(argument):
                if index not in self.textures:
                    raise MetalMisuse(_missing(pipeline, argument, index))
                if problem := mismatch(argument, self.textures[index]):
                    raise InvalidValue(
                        f"kernel {pipeline.name}: texture '{argument.name}' (index {index}) is declared "
                        f"{argument.type_name or 'otherwise'}, but {problem}"
                    )

    def table(self, pipeline: PipelineState) -> tuple[int, int]:
        """The address and length of a kernel's handles."""
        count = max((each.index + each.count for each in pipeline.textures), default=0)
        words = [self.samplers.get(index, 0) for index in range(SAMPLERS)]
        bound = (self.textures.get(index) for index in range(count))
        words += [texture.handle if texture else 0 for texture in bound]
        return self.store(struct.pack(f"<{len(words)}Q", *words)), 8 * len(words)

    def used(self, pipeline: PipelineState) -> tuple[tuple[KernelArgument, TextureState], ...]:
        """The textures that a kernel gets, each with the argument that takes it."""
        return tuple((each, self.textures[index]) for each in pipeline.textures for index in _indices(each))


def mismatch(argument: KernelArgument, texture: TextureState) -> str:
    """Why a texture does not fit an argument; empty if it does."""
    shape = texture.shape
    if shape.type != argument.texture_type:
        return f"a {_TYPES[shape.type]} is bound"
    if shape.format.is_depth != argument.is_depth:
        return f"one of format {shape.format.name} is bound"
    if (kind := _KINDS.get(argument.data_type)) and shape.format.kind != kind:
        return f"texels of format {shape.format.name} hold {shape.format.kind}"
    wanted = {"read": c.MTLTextureUsageShaderRead, "write": c.MTLTextureUsageShaderWrite}.get(argument.access, 3)
    if texture.usage and wanted & ~texture.usage:
        return f"the texture bound has the usage {texture.usage}, expected {wanted} (1 = read, 2 = write)"
    return ""


def _index(value: int, what: str, count: int) -> int:
    index = natural(value, f"{what} index")
    if index >= count:
        raise InvalidValue(f"{what} index {index}: expected 0 to {count - 1}")
    return index


def _indices(argument: KernelArgument) -> Iterator[int]:
    yield from range(argument.index, argument.index + argument.count)


def _missing(pipeline: PipelineState, argument: KernelArgument, index: int) -> str:
    return f"kernel {pipeline.name}: nothing is bound to {argument.kind} '{argument.name}' (index {index})"

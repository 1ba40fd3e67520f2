"""Argument encoders: write handles, addresses and constants into an argument buffer."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

from .. import constants as c
from ..data_types import BY_CODE
from ..misuse import InvalidValue, MetalMisuse
from ..program import ArgumentMember
from ..values import counted, instance, maybe, natural, span
from .base import Descriptor, Labelled, attribute
from .buffer import MTLBuffer, varlist
from .owned import DeviceObject, Owned
from .sampler import MTLSamplerState
from .texture import MTLTexture

_HANDLES = {c.MTLDataTypeTexture: "texture", c.MTLDataTypeSampler: "sampler", c.MTLDataTypePointer: "buffer"}


class MTLArgumentDescriptor(Descriptor):
    """One member of an argument buffer."""

    dataType, setDataType_ = attribute("dataType", natural, c.MTLDataTypeNone)
    index, setIndex_ = attribute("index", natural, 0)
    arrayLength, setArrayLength_ = attribute("arrayLength", natural, 0)
    access, setAccess_ = attribute("access", natural, 0)
    textureType, setTextureType_ = attribute("textureType", natural, c.MTLTextureType2D)
    constantBlockAlignment, setConstantBlockAlignment_ = attribute("constantBlockAlignment", natural, 0)

    @classmethod
    def argumentDescriptor(cls) -> MTLArgumentDescriptor:
        return cls()


MOST_MEMBERS = 1_000_000  # as many as Metal takes


class MTLArgumentEncoder(Owned, Labelled):
    """Writes the members of a struct into an argument buffer, by id."""

    def __init__(self, device: DeviceObject, members: Iterable[ArgumentMember]) -> None:
        super().__init__(device)
        self._places: dict[int, tuple[ArgumentMember, int]] = {}
        self._alignment, end = 8, 0
        for member in members:
            end = -(-end // member.alignment) * member.alignment
            if len(self._places) + member.count > MOST_MEMBERS:
                raise InvalidValue(
                    f"an argument buffer of more than {MOST_MEMBERS:,} members, elements of arrays included"
                )
            for index in range(member.index, member.index + member.count):
                if index in self._places:
                    raise InvalidValue(f"two members of an argument buffer have the id {index}")
                self._places[index] = member, end
                end += member.size
            self._alignment = max(self._alignment, member.alignment)
        self._length = -(-end // self._alignment) * self._alignment
        self._target: tuple[MTLBuffer, int] | None = None

    def encodedLength(self) -> int:
        return self._length

    def alignment(self) -> int:
        return self._alignment

    def setArgumentBuffer_offset_(self, buffer: MTLBuffer | None, offset: int) -> None:
        target, start = maybe(MTLBuffer)(buffer, "argumentBuffer"), natural(offset, "offset")
        if target is None:
            self._target = None
            return
        if target.storageMode() == c.MTLStorageModePrivate:
            raise MetalMisuse(f"{target!r} has private storage, which the CPU cannot write: no argument buffer")
        if start % self._alignment or start + self._length > target.length():
            raise InvalidValue(
                f"an argument buffer of {self._length} bytes at offset {start} of {target.length()}: "
                f"it must lie inside, at a multiple of {self._alignment}"
            )
        self._target = target, start

    def setArgumentBuffer_startOffset_arrayElement_(self, buffer: MTLBuffer, offset: int, element: int) -> None:
        start = natural(offset, "startOffset") + natural(element, "arrayElement") * self._length
        self.setArgumentBuffer_offset_(buffer, start)

    def setBuffer_offset_atIndex_(self, buffer: MTLBuffer | None, offset: int, index: int) -> None:
        bound, start = maybe(MTLBuffer)(buffer, f"buffer at index {index}"), natural(offset, "offset")
        if bound is not None and start >= bound.length():
            raise InvalidValue(f"offset {start} at index {index}: the buffer has {bound.length()} bytes")
        self._put("buffer", index, bound.gpuAddress() + start if bound else 0)

    def setBuffers_offsets_withRange_(
        self, buffers: Sequence[MTLBuffer | None], offsets: Sequence[int], indices: tuple[int, int]
    ) -> None:
        run = span(indices, "range")
        both = zip(counted(buffers, run.length, "buffers"), counted(offsets, run.length, "offsets"), strict=True)
        for index, (buffer, offset) in enumerate(both, run.location):
            self.setBuffer_offset_atIndex_(buffer, offset, index)

    def setTexture_atIndex_(self, texture: MTLTexture | None, index: int) -> None:
        bound = maybe(MTLTexture)(texture, f"texture at index {index}")
        self._put("texture", index, bound.state.handle if bound else 0)

    def setTextures_withRange_(self, textures: Sequence[MTLTexture | None], indices: tuple[int, int]) -> None:
        run = span(indices, "range")
        for index, texture in enumerate(counted(textures, run.length, "textures"), run.location):
            self.setTexture_atIndex_(texture, index)

    def setSamplerState_atIndex_(self, sampler: MTLSamplerState | None, index: int) -> None:
        bound = maybe(MTLSamplerState)(sampler, f"sampler at index {index}")
        self._put("sampler", index, bound.bits if bound else 0)

    def setSamplerStates_withRange_(self, samplers: Sequence[MTLSamplerState | None], indices: tuple[int, int]) -> None:
        run = span(indices, "range")
        for index, sampler in enumerate(counted(samplers, run.length, "samplers"), run.location):
            self.setSamplerState_atIndex_(sampler, index)

    def constantDataAtIndex_(self, index: int) -> varlist:
        """The memory of a number, vector or matrix."""
        buffer, at, member = self._place("constant", index)
        return varlist(buffer.allocation.address + at, member.size)

    def _put(self, kind: str, index: int, word: int) -> None:
        buffer, at, _ = self._place(kind, index)
        buffer.allocation.view()[at : at + 8] = struct.pack("<Q", word)

    def _place(self, kind: str, index: int) -> tuple[MTLBuffer, int, ArgumentMember]:
        number = natural(index, "index")
        if self._target is None:
            raise MetalMisuse("an argument encoder without a buffer: call setArgumentBuffer_offset_ first")
        if number not in self._places:
            raise InvalidValue(f"index {number}: the members of this argument buffer are {sorted(self._places)}")
        member, at = self._places[number]
        if member.kind != kind:
            raise InvalidValue(f"index {number} of this argument buffer is a {member.kind}, not a {kind}")
        return self._target[0], self._target[1] + at, member


def described_encoder(device: DeviceObject, descriptors: Sequence[MTLArgumentDescriptor]) -> MTLArgumentEncoder:
    """An encoder for members that descriptors name, in the order of their indices."""
    asked = [instance(each, MTLArgumentDescriptor, "arguments") for each in descriptors]
    if not asked:
        raise InvalidValue("an argument encoder needs at least one argument")
    return MTLArgumentEncoder(device, map(_member, sorted(asked, key=lambda each: each.index())))


def _member(asked: MTLArgumentDescriptor) -> ArgumentMember:
    code, count = asked.dataType(), max(asked.arrayLength(), 1)
    kind: Any = _HANDLES.get(code)
    if kind:
        return ArgumentMember(asked.index(), count, kind, 8, 8)
    if code not in BY_CODE:
        raise InvalidValue(f"data type {code} of an argument: expected a texture, sampler, pointer, number or vector")
    size = BY_CODE[code].size
    return ArgumentMember(asked.index(), count, "constant", size, max(size, asked.constantBlockAlignment()))

"""Textures in memory: levels and slices of an allocation, and the descriptor that kernels read."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import call

from .. import constants as c
from .. import memory
from ..formats import PixelFormat
from ..signs import Gone, sign
from .atomic import one_step

MOST_LEVELS = 15
_CHUNK = 1 << 16
_STEP = 448
_CUBES = (c.MTLTextureTypeCube, c.MTLTextureTypeCubeArray)
_ROW_STEP = 16  # what rows of a texture with memory of its own begin at


class _Description(ctypes.Structure):
    """struct texture_state of include/soft_texel.h."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("width", ctypes.c_uint32),
        ("height", ctypes.c_uint32),
        ("depth", ctypes.c_uint32),
        ("slices", ctypes.c_uint32),
        ("levels", ctypes.c_uint32),
        ("layout", ctypes.c_uint32),
        ("bytes", ctypes.c_uint32),
        ("samples", ctypes.c_uint32),
        ("offset", ctypes.c_uint64 * MOST_LEVELS),
        ("image_bytes", ctypes.c_uint64 * MOST_LEVELS),
        ("row_bytes", ctypes.c_uint64 * MOST_LEVELS),
    ]


Place = tuple[int, memory.DeviceMemory]


class _LentPlace(Gone):
    """A place that is free again when its holder is gone."""

    __slots__ = ("places",)
    places: list[Place]  # one, once it has it


class Descriptions:
    """Descriptors in device memory; a texture's handle is the address of its own."""

    def __init__(self, arena: memory.MemoryArena) -> None:
        self._arena = arena
        self._free: list[Place] = []
        self._lent: set[_LentPlace] = set()
        self._dropped: deque[_LentPlace] = deque()
        self._lock = threading.RLock()

    def take(self, holder: object) -> Place:
        """A place for a texture, as long as its sign lives, and the memory that it lies in."""
        with self._lock:
            while self._dropped:
                gone = self._dropped[0]
                if gone not in self._lent:  # an exception came before it was lent
                    self._dropped.popleft()
                    continue
                with suppress(KeyError):  # a finaliser or signal handler inside was faster
                    one_step((self._lent.remove, gone), (self._dropped.popleft,), (self._free.extend, gone.places))
            lent = _LentPlace(holder, self._dropped.append)
            lent.places = []
            self._lent.add(lent)
            while not lent.places:
                if not self._free:
                    self._free += self._more()
                with suppress(IndexError):  # as above
                    lent.places.extend(map(call, (self._free.pop,)))
        return lent.places[0]

    def _more(self) -> list[Place]:
        chunk = self._arena.memory(_CHUNK)
        if chunk is None:
            raise MemoryError("no memory left for descriptions of textures")
        return [(chunk.address + at, chunk) for at in range(0, _CHUNK - _STEP, _STEP)]


@lru_cache
def descriptions(arena: memory.MemoryArena) -> Descriptions:
    """Those of all devices with the same memory."""
    return Descriptions(arena)


@dataclass(frozen=True)
class Level:
    """The layout of a mipmap level: its byte offset and sizes."""

    offset: int
    row_bytes: int
    image_bytes: int


@dataclass(frozen=True)
class TextureShape:
    """The shape of a texture, without its memory."""

    type: int  # MTLTextureType
    format: PixelFormat
    width: int
    height: int = 1
    depth: int = 1
    slices: int = 1  # faces of cubes count
    levels: tuple[Level, ...] = ()
    samples: int = 1  # of a texel; each is a plane of its slice

    def extent(self, level: int) -> tuple[int, int, int]:
        """Width, height and depth of a level."""
        return max(self.width >> level, 1), max(self.height >> level, 1), max(self.depth >> level, 1)

    @property
    def planes(self) -> int:
        """How many images of one depth lie behind each other."""
        return self.slices * self.samples

    @property
    def end(self) -> int:
        """Bytes from the first texel to behind the last one."""
        return max(self._ends(), default=0)

    def _ends(self) -> Iterator[int]:
        for number, level in enumerate(self.levels):
            width, height, depth = self.extent(number)
            planes = self.planes * depth
            rows = (planes - 1) * level.image_bytes + (height - 1) * level.row_bytes
            yield level.offset + rows + width * self.format.bytes

    def texel(self, offset: int) -> tuple[tuple[int, int, int], int] | None:
        """The place (x, y, and slice or depth) and the level of the texel that a byte belongs to."""
        for number, level in enumerate(self.levels):
            width, height, depth = self.extent(number)
            plane, rest = divmod(offset - level.offset, level.image_bytes)
            y, rest = divmod(rest, level.row_bytes)
            x = rest // self.format.bytes
            if 0 <= plane < self.planes * depth and y < height and x < width:
                return (x, y, plane), number
        return None

    def packed(self, count: int) -> TextureShape:
        """The same with so many levels, one behind the other."""
        levels, offset = [], 0
        for number in range(count):
            width, height, depth = self.extent(number)
            row = -(-width * self.format.bytes // _ROW_STEP) * _ROW_STEP
            levels.append(Level(offset, row, row * height))
            offset += row * height * depth * self.planes
        return replace(self, levels=tuple(levels))

    def part(self, type_: int, form: PixelFormat, levels: tuple[int, int], slices: tuple[int, int]) -> TextureShape:
        """A view: some levels (first, count) and slices of it, as another type or format."""
        chosen = self.levels[levels[0] : levels[0] + levels[1]]
        moved = tuple(
            replace(each, offset=each.offset + slices[0] * self.samples * each.image_bytes) for each in chosen
        )
        width, height, depth = self.extent(levels[0])
        return TextureShape(type_, form, width, height, depth, slices[1], moved, self.samples)


class TextureState:
    """A texture in memory, with a descriptor for kernels."""

    def __init__(
        self, shape: TextureShape, allocation: memory.DeviceMemory, start: int, usage: int, arena: memory.MemoryArena
    ) -> None:
        self.shape = shape
        self.allocation = allocation
        self.start = start
        self.usage = usage
        self._sign = sign()
        self._place = descriptions(arena).take(self._sign)
        described = _Description.from_address(self.handle)
        described.address = self.address
        described.width, described.height, described.depth = shape.extent(0)
        described.slices, described.levels, described.samples = shape.planes, len(shape.levels), shape.samples
        described.layout, described.bytes = shape.format.layout, shape.format.bytes
        for number, level in enumerate(shape.levels):
            described.offset[number] = level.offset
            described.image_bytes[number] = level.image_bytes
            described.row_bytes[number] = level.row_bytes

    @property
    def handle(self) -> int:
        """What a kernel gets: the address of the description."""
        return self._place[0]

    @property
    def description(self) -> memory.DeviceMemory:
        """The memory that kernels read descriptions from."""
        return self._place[1]

    @property
    def address(self) -> int:
        return self.allocation.address + self.start

    @property
    def is_cube(self) -> bool:
        return self.shape.type in _CUBES

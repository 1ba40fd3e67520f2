"""Pixel formats: texel storage, and the element types that kernels may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from . import texture_constants as c
from .misuse import InvalidValue

Kind = Literal["float", "int", "uint"]

# As include/soft_texel.h numbers them.
_STORED = (
    "Unorm8 Snorm8 Uint8 Sint8 Unorm16 Snorm16 Uint16 Sint16 Float16 Uint32 Sint32 Float32 "
    "Unorm8_sRGB Unorm10_2 Uint10_2 Float11_10 SharedExponent Unorm565 Unorm4 Unorm5_1"
).split()
_BLUE_FIRST, _ALPHA_ONLY = 1 << 12, 1 << 13
_PLAIN = re.compile(r"(R|RG|RGBA|BGRA|A)(8|16|32)(Unorm|Snorm|Uint|Sint|Float)(_sRGB)?")
_PACKED = {
    "RGB10A2Unorm": ("Unorm10_2", 4, 4, 0),
    "RGB10A2Uint": ("Uint10_2", 4, 4, 0),
    "BGR10A2Unorm": ("Unorm10_2", 4, 4, _BLUE_FIRST),
    "RG11B10Float": ("Float11_10", 3, 4, 0),
    "RGB9E5Float": ("SharedExponent", 3, 4, 0),
    "B5G6R5Unorm": ("Unorm565", 3, 2, 0),
    "ABGR4Unorm": ("Unorm4", 4, 2, 0),
    "BGR5A1Unorm": ("Unorm5_1", 4, 2, 0),
    "Depth16Unorm": ("Unorm16", 1, 2, 0),
    "Depth32Float": ("Float32", 1, 4, 0),
}


@dataclass(frozen=True)
class PixelFormat:
    """One MTLPixelFormat."""

    number: int
    name: str
    channels: int
    bytes: int  # of a texel
    layout: int  # as kernels know it
    kind: Kind  # of the elements that kernels read and write
    is_depth: bool = False


def _formats() -> Iterator[PixelFormat]:
    for constant, number in vars(c).items():
        name = constant.removeprefix("MTLPixelFormat")
        if name == constant:
            continue
        if name in _PACKED:
            stored, channels, size, flags = _PACKED[name]
        elif match := _PLAIN.fullmatch(name):
            order, bits, kind, gamma = match.groups()
            stored, channels = f"{kind}{bits}{gamma or ''}", len(order)
            size = channels * int(bits) // 8
            flags = _BLUE_FIRST if order == "BGRA" else _ALPHA_ONLY if order == "A" else 0
        else:
            continue
        layout = _STORED.index(stored) | channels << 8 | flags
        element: Kind = "uint" if "Uint" in name else "int" if "Sint" in name else "float"
        yield PixelFormat(number, name, channels, size, layout, element, name.startswith("Depth"))


FORMATS = {each.number: each for each in _formats()}


def pixel_format(number: int) -> PixelFormat:
    """A format by its number; raises for one that software Metal lacks."""
    if number not in FORMATS:
        raise InvalidValue(
            f"pixel format {number} is not supported by software Metal, which has "
            f"{', '.join(each.name for each in FORMATS.values())}"
        )
    return FORMATS[number]

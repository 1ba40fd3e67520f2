"""RoPE frequency tables, and which position axis each pair uses."""

from __future__ import annotations

import math
from functools import lru_cache

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from .support import check_dtype, check_shape

__all__ = [
    "checked_factors",
    "frequencies",
    "pair_count",
    "section_axes",
    "turn_table",
    "turns",
    "vision_frequencies",
]

_DIVIDED_BITS = 8  # bits of a fraction reserved if factors divide it, since the quotient may exceed one turn


def frequencies(pairs: int, base: float) -> tuple[float, ...]:
    """Radians per position of each pair."""
    return tuple(math.exp(-math.log(base) * pair / pairs) for pair in range(pairs))


def vision_frequencies(first: int, pairs: int, base: float) -> tuple[float, ...]:
    """Frequencies of two sections, each counted from its own start."""
    steps = [pair if pair < first else pair - first for pair in range(pairs)]
    return tuple(math.exp(-math.log(base) * 2 * step / pairs) for step in steps)


@lru_cache(maxsize=64)
def turn_table(steps: tuple[float, ...], scale: float = 1.0, divided: bool = False) -> bytes:
    """Radians per position as the kernels take them: 64-bit fractions of a full turn."""
    bits = 64 - (_DIVIDED_BITS if divided else 0)
    fractions = [round(math.ldexp(step * scale / (2 * math.pi), bits)) for step in steps]
    if divided and max(map(abs, fractions)) >= 1 << 63:
        raise InvalidArgument(f"scale is {scale}, expected less than 800")
    return b"".join((fraction % (1 << 64)).to_bytes(8, "little") for fraction in fractions)


def section_axes(mode: str, sections: tuple[int, ...], pairs: int, width: int) -> bytes:
    """The position axis of each pair."""
    if mode not in ("mrope", "imrope", "vision"):
        raise InvalidArgument(f"mode is {mode!r}, expected 'mrope', 'imrope' or 'vision'")
    if not 1 <= len(sections) <= 4 or min(sections) < 0 or sum(sections) < 1:
        raise InvalidArgument(f"sections is {sections}, expected one to four counts of pairs")
    if mode == "vision" and not (2 * pairs == width and sum(sections[:2]) == sum(sections) == pairs):
        raise InvalidArgument(
            f"sections is {sections} for {pairs} of {width // 2} pairs; vision has two that fill the head"
        )
    axis = _turn_by_turn if mode == "imrope" else _in_a_row
    return bytes(axis(pair % sum(sections), sections) for pair in range(pairs))


def _in_a_row(sector: int, sections: tuple[int, ...]) -> int:
    return next(axis for axis in range(len(sections)) if sector < sum(sections[: axis + 1]))


def _turn_by_turn(sector: int, sections: tuple[int, ...]) -> int:
    axis = sector % 3
    return axis if axis < len(sections) and sector < 3 * sections[axis] else 3


def turns(dims: int | None, width: int, base: float | None, scale: float, divided: bool) -> bytes:
    """The table of a plain rope: the fraction of a turn per position for each pair."""
    pairs = pair_count(dims, width)
    if base is None and not divided:
        raise InvalidArgument("base is None, so factors have to be given")
    if base is not None and not base > 0:
        raise InvalidArgument(f"base is {base!r}, expected a positive number")
    steps = (1.0,) * pairs if base is None else frequencies(pairs, base)
    return turn_table(steps, scale, divided)


def checked_factors(factors: MlxBuffer | None, pairs: int) -> MlxBuffer | bytes:
    """The factors as the kernel takes them; four arbitrary bytes if there are none."""
    if factors is None:
        return bytes(4)
    check_dtype("factors", factors, (DType.F32,))
    check_shape("factors", factors, (pairs,), "one per pair")
    return factors


def pair_count(dims: int | None, width: int) -> int:
    dims = width if dims is None else dims
    if dims % 2 or not 0 < dims <= width:
        raise InvalidArgument(f"dims is {dims}, expected an even number up to the width, {width}")
    return dims // 2

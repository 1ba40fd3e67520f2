"""Lane shapes: whether a value is uniform, at known offsets, or varying across a simdgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ... import abi
from ..ir.model import Value

WIDTH = abi.WIDTH
LANES = tuple(range(WIDTH))
_LARGEST_FACTOR = 1 << 31
_EXACT = 1 << 64  # a known number is that number modulo anything
Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaneShape:
    """Lane i has lane 0's value plus `offsets[i]`, modulo the type's size; without offsets it varies.

    Lane 0's value is `residue` modulo `multiple`, a power of two. Offsets of pointers are in bytes. With a `stride`, a
    uniform value known only at run time, `factors[i]` times it (as a signed number) is added.
    """

    offsets: Offsets | None
    base: int | None = None  # lane 0's value where it is known; all lanes are, then
    multiple: int = 1
    residue: int = 0
    stride: Value | None = None
    factors: Offsets = (0,) * WIDTH

    @property
    def varying(self) -> bool:
        return self.offsets is None

    @property
    def uniform(self) -> bool:
        return self.offsets is not None and self.stride is None and not any(self.offsets)

    @property
    def known(self) -> bool:
        return self.base is not None

    def low_bits(self) -> list[int] | None:
        """The lanes' values below `multiple`, if they share the bits above."""
        if self.offsets is None or self.stride is not None:
            return None
        low = [self.residue + offset for offset in self.offsets]
        return low if min(low) >= 0 and max(low) < self.multiple else None

    @property
    def spread(self) -> int:
        """From the least lane to the greatest, if nothing wraps around."""
        return max(self.offsets) - min(self.offsets) if self.offsets else 0

    def values(self, bits: int) -> list[int]:
        """The lanes of a known value, as unsigned integers."""
        assert self.offsets is not None and self.base is not None
        return [(self.base + offset) % (1 << bits) for offset in self.offsets]


ALIKE: Offsets = (0,) * WIDTH
VARYING = LaneShape(None)
UNIFORM = LaneShape(ALIKE)


def constant(value: int, bits: int) -> LaneShape:
    return LaneShape(ALIKE, value % (1 << bits), _EXACT, value % (1 << bits))


def known(values: Sequence[int], bits: int) -> LaneShape:
    """The shape of 32 known integers."""
    size, half = 1 << bits, 1 << bits >> 1
    offsets = tuple((v - values[0] + half) % size - half for v in values)
    return LaneShape(offsets, values[0] % size, _EXACT, values[0] % size)


def unknown(offsets: Sequence[int], multiple: int, residue: int, bits: int = 63) -> LaneShape:
    """Offsets from a scalar of which only the residue is known."""
    multiple = min(multiple, 1 << min(bits, 63))
    half = 1 << bits >> 1
    near = tuple((offset + half) % (2 * half) - half for offset in offsets)
    return LaneShape(near, None, multiple, residue % multiple)


def strided(shape: LaneShape, stride: Value | None, factors: Sequence[int]) -> LaneShape:
    """The shape with multiples of a stride added, if any lane has one and none has a monstrous one."""
    if stride is None or not any(factors):
        return shape
    if max(map(abs, factors)) > _LARGEST_FACTOR:
        return VARYING
    return replace(shape, stride=stride, factors=tuple(factors))


def add(left: LaneShape, right: LaneShape, bits: int, sign: int = 1) -> LaneShape:
    if left.offsets is None or right.offsets is None:
        return VARYING
    if left.known and right.known:
        return lanewise([left, right], bits, bits, lambda a, b: a + sign * b)
    if left.stride is not None and right.stride is not None and left.stride is not right.stride:
        return VARYING
    offsets = [a + sign * b for a, b in zip(left.offsets, right.offsets, strict=True)]
    factors = [a + sign * b for a, b in zip(left.factors, right.factors, strict=True)]
    total = unknown(offsets, min(left.multiple, right.multiple), left.residue + sign * right.residue, bits)
    return strided(total, left.stride or right.stride, factors)


def scale(shape: LaneShape, factor: int, bits: int) -> LaneShape:
    """Times a number that is known."""
    if shape.offsets is None:
        return VARYING
    if shape.known:
        return lanewise([shape], bits, bits, lambda a: a * factor)
    if factor == 0:
        return constant(0, bits)
    multiple = shape.multiple * (factor & -factor)
    product = unknown([offset * factor for offset in shape.offsets], multiple, shape.residue * factor, bits)
    return strided(product, shape.stride, [one * factor for one in shape.factors])


def lanewise(shapes: Sequence[LaneShape], bits: int, result_bits: int, work: Callable[..., int]) -> LaneShape:
    """The shape of an operation on integers that are all known."""
    lanes = zip(*(shape.values(bits) for shape in shapes), strict=True)
    return known([work(*lane) % (1 << result_bits) for lane in lanes], result_bits)


def bitwise(work: Callable[[int, int], int], shape: LaneShape, number: int) -> LaneShape:
    """and, or, xor with a known number: bits that lanes share stay shared."""
    low = shape.low_bits()
    if low is None:
        return VARYING
    results = [work(bits, number & (shape.multiple - 1)) for bits in low]
    return unknown([bits - results[0] for bits in results], shape.multiple, results[0])


def shift_right(shape: LaneShape, count: int) -> LaneShape:
    """Nothing is carried from the bits that lanes have of their own."""
    low = shape.low_bits()
    if low is None or shape.multiple >> count == 0:
        return VARYING
    results = [bits >> count for bits in low]
    return unknown([bits - results[0] for bits in results], shape.multiple >> count, results[0])


def narrow(shape: LaneShape, bits: int) -> LaneShape:
    """Cut to fewer bits."""
    if shape.offsets is None:
        return VARYING
    if shape.base is not None:
        return known([shape.base + offset for offset in shape.offsets], bits)
    size = 1 << bits
    near = ALIKE if all(offset % size == 0 for offset in shape.offsets) else shape.offsets
    return strided(unknown(near, shape.multiple, shape.residue, bits), shape.stride, shape.factors)


def merge(left: LaneShape, right: LaneShape) -> LaneShape:
    """What covers both, where all lanes come from one side or all from the other."""
    if left == right:
        return left
    if left.offsets is None or left.offsets != right.offsets:
        return VARYING
    if left.stride is not right.stride or left.factors != right.factors:
        return VARYING
    multiple = min(left.multiple, right.multiple, _EXACT >> 1)
    while (left.residue - right.residue) % multiple:
        multiple >>= 1
    return strided(unknown(left.offsets, multiple, left.residue), left.stride, left.factors)

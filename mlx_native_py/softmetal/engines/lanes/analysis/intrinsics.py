"""The functions that headers leave to the pass (`__lane_*`): what each stands for, and the shape of its result.

group simdgroup number x y z boxes      where a lane is
active ballot shuffle first             what lanes tell each other
sum min max umin umax and or xor        folds of one number from each lane at work
meet once barrier fence                 done by a simdgroup as one
dot                                     of the bytes of two words, added to a number; the pass itself makes it
take                                    a load of what a meeting has left, which nothing may move
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir.model import Instruction
from . import shape
from .rules import bits_of, plain
from .shape import LANES, UNIFORM, VARYING, WIDTH, LaneShape

PREFIX = "__lane_"
FOLDS = frozenset(("sum", "min", "max", "umin", "umax", "and", "or", "xor"))
Size = tuple[int, int, int]
_EXTREMES = {"llvm.umin": (min, False), "llvm.umax": (max, False), "llvm.smin": (min, True), "llvm.smax": (max, True)}

# Functions of one or two numbers that neither read nor write memory, by the names C and LLVM have for them.
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor "
    "fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 logb nearbyint nextafter pow remainder rint round sin "
    "sinh sqrt tan tanh tgamma trunc"
)
PURE = frozenset(name + suffix for name in _MATH.split() for suffix in ("", "f")) | {
    "__truncsfhf2",
    "__extendhfsf2",
    "__truncdfhf2",
    "__truncsfbf2",
}


def lane_function(name: str) -> str:
    """`sum` of `__lane_sum_f32`; empty for other functions."""
    return name.removeprefix(PREFIX).split("_")[0] if name.startswith(PREFIX) else ""


def shape_of_call(inst: Instruction, shapes: Sequence[LaneShape], size: Size) -> LaneShape:
    """The shape of what a call answers."""
    function = lane_function(inst.callee)
    if function in ("x", "y", "z"):
        return position(function, size)
    if function == "number":
        return shape.known(LANES, 32)
    if function == "simdgroup":
        return shape.constant(0, 32) if _threads(size) <= WIDTH else UNIFORM
    if function == "shuffle":
        return UNIFORM if shapes[0].uniform or shapes[1].uniform else VARYING
    if function == "dot":
        return plain(shapes)
    if function:
        return UNIFORM
    extreme = _EXTREMES.get(inst.callee.rpartition(".")[0])
    if extreme is not None and all(one.known for one in shapes):
        return _extreme(inst, shapes, *extreme)
    if is_pure(inst.callee):
        return plain(shapes)
    return VARYING


def _extreme(
    inst: Instruction, shapes: Sequence[LaneShape], choose: Callable[[int, int], int], signed: bool
) -> LaneShape:
    bits = bits_of(inst.type)
    sign = 1 << bits >> 1 if signed else 0
    return shape.lanewise(shapes, bits, bits, lambda a, b: choose(a ^ sign, b ^ sign) ^ sign)


def is_pure(name: str) -> bool:
    """Whether a call is nothing but its result."""
    return name.startswith("llvm.") or name in PURE


def _threads(size: Size) -> int:
    return size[0] * size[1] * size[2]


def position(axis: str, size: Size) -> LaneShape:
    """The position of the simdgroup's lanes in a threadgroup, which are numbered along x, then y, then z."""
    step, count = steps(axis, size)
    if _threads(size) <= WIDTH:
        return shape.known([lane // step % count for lane in LANES], 32)
    if count == 1:
        return shape.constant(0, 32)
    if step % WIDTH == 0:
        return UNIFORM
    if WIDTH % step:
        return VARYING
    rows = WIDTH // step  # how far a simdgroup reaches along the axis
    if rows % count == 0:
        return shape.known([lane // step % count for lane in LANES], 32)
    if count % rows and axis != _last(size):
        return VARYING
    return LaneShape(tuple(lane // step for lane in LANES), None, rows & -rows, 0)


def _last(size: Size) -> str:
    """The axis that does not wrap around."""
    return "z" if size[2] > 1 else "y" if size[1] > 1 else "x"


def steps(axis: str, size: Size) -> tuple[int, int]:
    """How many lanes it takes to get on by one along the axis, and how far it goes."""
    return {"x": (1, size[0]), "y": (size[0], size[1]), "z": (size[0] * size[1], size[2])}[axis]


__all__ = ["FOLDS", "PREFIX", "PURE", "is_pure", "lane_function", "position", "shape_of_call", "steps"]

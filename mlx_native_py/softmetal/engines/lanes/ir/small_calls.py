"""Splits calls on small vectors: elementwise functions and reductions."""

from __future__ import annotations

import re

from .maker import Maker
from .model import Declined, Instruction, IntType, Value, VectorType

_ELEMENTWISE = frozenset(
    "fma fmuladd fabs sqrt floor ceil trunc rint nearbyint round roundeven copysign minnum maxnum minimum maximum "
    "minimumnum maximumnum canonicalize exp exp2 exp10 log log2 log10 sin cos tan asin acos atan sinh cosh tanh atan2 "
    "pow powi ldexp is.fpclass "
    "abs smin smax umin umax ctpop ctlz cttz bswap bitreverse fshl fshr sadd.sat uadd.sat ssub.sat usub.sat sshl.sat "
    "ushl.sat fptosi.sat fptoui.sat ucmp scmp".split()
)
_REDUCTIONS = {
    "fadd": "fadd",
    "fmul": "fmul",
    **{word: word for word in ("add", "mul", "and", "or", "xor")},
    **{word: f"llvm.{word}" for word in ("smin", "smax", "umin", "umax")},
    "fmin": "llvm.minnum",
    "fmax": "llvm.maxnum",
    "fminimum": "llvm.minimum",
    "fmaximum": "llvm.maximum",
}
_SUFFIX = re.compile(r"llvm\.(vector\.reduce\.)?([a-z0-9.]+?)((?:\.(?:v\d+)?(?:i\d+|f\d+|bf16|p0))+)$")


def split_call(maker: Maker, inst: Instruction, operands: list[list[Value]], count: int) -> list[Value]:
    """The scalars of a call's result; `operands` are the scalars of its arguments."""
    match = _SUFFIX.match(inst.callee)
    if match and match[1] and match[2] in _REDUCTIONS:
        return [_reduce(maker, inst, match[2], operands)]
    if match is None or match[1] or match[2] not in _ELEMENTWISE:
        raise Declined(f"call of {inst.callee} with small vectors")
    suffix = re.sub(r"\.v\d+", ".", match[3])
    rows = [values if len(values) == count else values * count for values in operands]
    kind = inst.type.element if isinstance(inst.type, VectorType) else inst.type
    parts: list[Value] = []
    for row in zip(*rows, strict=True):
        part = maker.add("call", kind, *row, flags=inst.flags)
        part.callee = f"llvm.{match[2]}{suffix}"
        part.attributes = list(inst.attributes)
        parts.append(part)
    return parts


def _reduce(maker: Maker, inst: Instruction, word: str, operands: list[list[Value]]) -> Value:
    """From the first to the last, which every order that LLVM allows for a reduction includes."""
    *start, values = operands
    pending = [value for values_of in start for value in values_of] + values
    opcode = _REDUCTIONS[word]
    total = pending[0]
    for value in pending[1:]:
        if opcode.startswith("llvm."):
            total = maker.add("call", inst.type, total, value, flags=inst.flags)
            total.callee = f"{opcode}.{_mangled(inst)}"
            total.attributes = ["", ""]
        else:
            total = maker.add(opcode, inst.type, total, value, flags=inst.flags)
    return total


def _mangled(inst: Instruction) -> str:
    kind = inst.type
    if isinstance(kind, IntType):
        return f"i{kind.bits}"
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}[str(kind)]

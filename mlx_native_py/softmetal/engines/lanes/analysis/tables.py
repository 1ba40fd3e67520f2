"""Small constant arrays of a module, and instructions that look them up in registers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..ir.model import Module

_CONSTANT = re.compile(r'@("[^"]*"|[-\w$.]+) = [^\[]*\bconstant \[(\d+) x (float|half|bfloat|i8|i16|i32)\] ')


@dataclass(frozen=True)
class ConstantArray:
    """A constant array: its length and element type."""

    count: int
    kind: str


@dataclass(frozen=True)
class Permutation:
    """An instruction that selects elements of a register by the indices in another."""

    name: str
    lanes: int  # that it serves at a time
    entries: int  # that it chooses from


def permutations(features: str) -> dict[str, Permutation]:
    """What the processor can do, by the type of the elements."""
    if "+avx2," not in features:
        return {}
    found = {
        "i8": Permutation("avx2.pshuf.b", 32, 16),
        "i32": Permutation("avx2.permd", 8, 8),
        "float": Permutation("avx2.permps", 8, 8),
    }
    if "+avx512bw," in features:
        found |= {
            "i16": Permutation("avx512.permvar.hi.512", 32, 32),
            "i32": Permutation("avx512.permvar.si.512", 16, 16),
            "float": Permutation("avx512.permvar.sf.512", 16, 16),
        }
    return found


def constant_tables(module: Module) -> dict[str, ConstantArray]:
    """The constant arrays of a module, by the text of their addresses."""
    found = (_CONSTANT.match(line) for line in module.globals.values())
    return {f"@{m[1]}": ConstantArray(int(m[2]), m[3]) for m in found if m}

"""Early returns of kernels with barriers, marked so that checked mode knows where a thread ended."""

from __future__ import annotations

from collections.abc import Sequence

from .kernels import KernelFunction
from .lambdas import lambdas
from .unit import Unit


def mark_returns(unit: Unit, functions: Sequence[KernelFunction]) -> None:
    """Puts SOFT_RETURN for `return` in the bodies of kernels."""
    text = unit.tokens.text
    if "threadgroup_barrier" not in text:
        return
    inner = [each.body for each in lambdas(unit)]  # whose returns end no thread
    for function in functions:
        for index in range(*(function.declaration.body or (0, 0))):
            if text[index] == "return" and text[index + 1] == ";" and not any(a < index < b for a, b in inner):
                unit.out[index] = unit.out[index].removesuffix("return") + "SOFT_RETURN"

"""The conformance table: one row per op, one case per combination of its variants.

A row is a function `check(bench, **variant)`; `@row` names the op and lists the values of each parameter. Those under
`more` join in the long run only.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlx_native_py import DType

from .bench import Bench

FLOATS = (DType.F32, DType.F16, DType.BF16)
Check = Callable[..., None]


@dataclass(frozen=True)
class Case:
    """One run of a row's check."""

    op: str
    check: Check
    variant: Mapping[str, Any]
    long: bool
    number: int
    """Its place in the table, from which offsets and random numbers follow."""

    @property
    def id(self) -> str:
        return "-".join([self.check.__name__, *(_short(value) for value in self.variant.values())])

    def run(self, bench: Bench) -> None:
        self.check(bench, **self.variant)


CASES: list[Case] = []
COUNT: Counter[str] = Counter()
"""What became of the cases in this session: how many were `run`, `passed` and `skipped`."""


def row(
    op: str, *, more: Mapping[str, Sequence[Any]] | None = None, **usual: Sequence[Any]
) -> Callable[[Check], Check]:
    """Adds to the table every combination of the values that are listed for a check's parameters."""
    extra = dict(more or {})
    if unknown := set(extra) - set(usual):
        raise ValueError(f"{op}: `more` names {sorted(unknown)}, which have no usual values")

    def add(check: Check) -> Check:
        lists = [[*values, *extra.get(name, ())] for name, values in usual.items()]
        for values in itertools.product(*lists):
            long = any(value in extra.get(name, ()) for name, value in zip(usual, values, strict=True))
            variant = dict(zip(usual, values, strict=True))
            CASES.append(Case(op, check, variant, long, len(CASES)))
        return check

    return add


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return "x".join(map(_short, value))
    return getattr(value, "__name__", None) or str(value)

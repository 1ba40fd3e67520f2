"""Floating-point builtins against float64."""

from __future__ import annotations

from .conformance import math_special, math_table
from .conformance.batch import Batch, parametrised, verify


@parametrised(math_table.all_batches())
def test_function(batch: Batch, index: int) -> None:
    verify(batch, index)


@parametrised(math_special.all_batches())
def test_special(batch: Batch, index: int) -> None:
    verify(batch, index)

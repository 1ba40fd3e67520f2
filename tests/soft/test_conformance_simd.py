"""Simdgroup and quadgroup functions against numpy."""

from __future__ import annotations

from .conformance import simd_table
from .conformance.batch import Batch, parametrised, verify


@parametrised(simd_table.all_batches())
def test_function(batch: Batch, index: int) -> None:
    verify(batch, index)

"""Relational, geometric and matrix functions against numpy."""

from __future__ import annotations

from .conformance import geometric_table, relational_table
from .conformance.batch import Batch, parametrised, verify


@parametrised(relational_table.all_batches())
def test_relational(batch: Batch, index: int) -> None:
    verify(batch, index)


@parametrised(geometric_table.all_batches())
def test_geometric(batch: Batch, index: int) -> None:
    verify(batch, index)

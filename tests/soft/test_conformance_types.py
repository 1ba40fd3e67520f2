"""Types: layout, conversion, construction, swizzles, operators, packing."""

from __future__ import annotations

from .conformance import pack_table, type_table, vector_table
from .conformance.batch import Batch, parametrised, verify


@parametrised(type_table.all_batches())
def test_type(batch: Batch, index: int) -> None:
    verify(batch, index)


@parametrised(vector_table.all_batches())
def test_vector(batch: Batch, index: int) -> None:
    verify(batch, index)


@parametrised(pack_table.all_batches())
def test_packing(batch: Batch, index: int) -> None:
    verify(batch, index)

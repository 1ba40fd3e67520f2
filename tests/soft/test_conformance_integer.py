"""Integer builtins and operators of every width against exact integers."""

from __future__ import annotations

from .conformance import integer_table
from .conformance.batch import Batch, parametrised, verify


@parametrised(integer_table.all_batches())
def test_function(batch: Batch, index: int) -> None:
    verify(batch, index)

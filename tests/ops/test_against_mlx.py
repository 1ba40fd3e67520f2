"""Our functions against MLX's own, on its CPU backend."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlx_native_py import MlxDevice

from .mlx_table import MlxRow

ROWS: list[MlxRow] = [
    each
    for found in pkgutil.iter_modules([str(Path(__file__).parent)])
    if found.name.startswith("mlx_rows_")
    for each in importlib.import_module(f"ops.{found.name}").ROWS
]
LEAST = 40
"""Functions that are compared; fewer fail the run."""


@pytest.fixture(scope="module", params=["soft", pytest.param("metal", marks=pytest.mark.metal)])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with MlxDevice(request.param) as opened:
        yield opened


@pytest.fixture(scope="module")
def mx() -> Any:
    core = pytest.importorskip("mlx.core", reason="MLX is not installed, so nothing is compared with it")
    core.set_default_device(core.cpu)
    return core


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id, marks=[pytest.mark.full] * row.long) for row in ROWS])
def test_row(device: MlxDevice, mx: Any, row: MlxRow) -> None:
    ours, theirs = row.run_ours(device), row.run_mlx(mx)
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        row.compare(mine, other)


def test_enough_functions_are_compared() -> None:
    compared = {row.name for row in ROWS}
    assert len(compared) >= LEAST, sorted(compared)

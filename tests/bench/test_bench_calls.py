"""The bench of synchronous calls: every way is measured and right, and bars hold a way against its peer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxDevice
from mlx_native_py.bench import calls
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft


def test_every_way_adds() -> None:
    with MlxDevice("soft") as device:
        ways = calls._ways(device)
        assert set(ways) == {calls.BUFFERS, calls.ARRAYS, calls.ADD, calls.METAL_KERNEL}
        total = ways[calls.ADD]()
        assert isinstance(total, MlxBuffer) and (total.numpy() == 2).all()
        outputs: Any = ways[calls.METAL_KERNEL]()
        np.testing.assert_array_equal(outputs[0], 2.0)


@pytest.mark.parametrize(("us", "passed"), [(30.0, True), (31.0, False)])
def test_a_way_is_held_against_its_peer(us: float, passed: bool) -> None:
    row = calls._row(calls.ARRAYS, {calls.POCL: 10.0, calls.ARRAYS: us})
    assert row.passed is passed and row.ratio == us / 10
    assert calls._row(calls.ARRAYS, {calls.ARRAYS: us}).passed is None


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "calls", "--rounds", "1", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert {calls.BUFFERS, calls.COPIES} <= set(rows)
    # The copies are a difference of two medians, which may be negative on a busy machine.
    assert all(row["us"] > 0 for name, row in rows.items() if name != calls.COPIES)

"""The bench of matvecs: a row for each format, and the bars of those that have one."""

from __future__ import annotations

import json

import pytest

from mlx_native_py.bench.matvec import formats
from mlx_native_py.cli import main as cli

pytestmark = pytest.mark.soft


def test_formats_of_every_kind() -> None:
    assert {"Q4_0", "IQ4_NL", "affine 3", "mxfp4", "bf16"} <= set(formats()) and len(formats()) == 21


@pytest.mark.parametrize(("name", "nbytes"), [("Q4_0", 256 * 144), ("affine 4", 256 * 144), ("f16", 256 * 512)])
def test_a_row(name: str, nbytes: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "matvec", "--only", name, "--width", "256", "--rounds", "1", "--json"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out)["rows"] if row["format"] == name]
    assert len(rows) == 1 and rows[0]["share"] > 0
    assert rows[0]["gb_per_s"] * rows[0]["us"] * 1e3 == pytest.approx(nbytes)
    assert (rows[0]["passed"] is not None) == (name != "f16")

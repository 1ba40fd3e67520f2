"""The bench's kernels are right, also where every access is watched, and its table says what it is."""

from __future__ import annotations

from importlib import resources

import numpy as np
import pytest

from mlx_native_py import settings
from mlx_native_py.bench import soft
from mlx_native_py.bench.rig import Rig
from mlx_native_py.metal import open_metal

pytestmark = pytest.mark.soft


@pytest.fixture(params=[False, True], ids=["plain", "checked"])
def rig(request: pytest.FixtureRequest) -> Rig:
    with settings.override(soft_checked=request.param):
        door = open_metal("soft")
    return Rig(door, resources.files(soft.__package__).joinpath("soft.metal").read_text())


def test_kernels_are_right(rig: Rig) -> None:
    """Each bench compares its result with numpy before it tells a time."""
    rows = [
        soft._bench_add(rig, None, 1, n=1 << 12),
        soft._bench_rms_norm(rig, None, 1, rows=3),
        soft._bench_matmul(rig, None, 1, n=64),
        soft._bench_q4(rig, None, 1, n=256),
    ]
    assert all(row.soft > 0 and row.numpy is not None and row.mlx is None for row in rows)


def test_waits_are_counted(rig: Rig) -> None:
    out = rig.buffer(np.zeros(64, np.float32))
    rig.run("rendezvous", [out, np.uint32(3)], (64, 1, 1), (64, 1, 1))
    assert rig.read(out, np.float32).tolist() == [15.5] * 64
    rig.run("barrier", [out, np.uint32(3)], (64, 1, 1), (64, 1, 1))
    assert rig.read(out, np.uint32).tolist() == list(range(64))


def test_a_wrong_result_has_no_speed() -> None:
    with pytest.raises(SystemExit, match="wrong result"):
        soft._close("add", np.ones(3, np.float32), np.zeros(3, np.float32) + 2)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    soft._print([soft.Row("work", "ms", 1.0, 2.0, bar="<= 1", passed=False)])
    told = capsys.readouterr().out
    assert "says nothing about Apple hardware" in told and "NOT MET" in told

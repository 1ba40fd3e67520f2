"""The bench's kernels are right, also where every access is watched, and its table says what it is."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_native_py.bench import soft, works
from mlx_native_py.bench.harness import options, report

pytestmark = pytest.mark.soft


SMALL = (
    works.add(1 << 12),
    works.rms_norm(3, 256),
    works.softmax(3, 256),
    works.matmul(64),
    works.tiled_matmul(64),
    works.q4_matvec(256),
)


@pytest.fixture(params=[False, True], ids=["plain", "checked"])
def bench(request: pytest.FixtureRequest) -> soft._Bench:
    return soft._Bench(1, peers=False, checked=request.param)


@pytest.mark.parametrize("work", SMALL, ids=lambda work: work.kernel)
def test_kernels_are_right(bench: soft._Bench, work: works.KernelWork, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each bench compares its result with numpy before it tells a time."""
    monkeypatch.setattr(soft, "_WARM_SECONDS", 0.0)
    row = bench.row(work)
    assert row.soft and row.lanes and row.fibers and row.numpy and row.mlx is None


def test_waits_are_counted(bench: soft._Bench) -> None:
    library = bench.devices["auto"].compile(bench.source)
    out = np.zeros(64, np.float32)
    library.rendezvous(out, 3, threads=64, group=64)
    assert out.tolist() == [15.5] * 64
    library.barrier(out.view(np.uint32), 3, threads=64, group=64)
    assert out.view(np.uint32).tolist() == list(range(64))


def test_a_wrong_result_has_no_speed() -> None:
    with pytest.raises(SystemExit, match="wrong result"):
        soft._close("add", np.ones(3, np.float32), np.zeros(3, np.float32) + 2)


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = options("soft", None).parse_args(["--strict"])
    row = soft.EngineRow("work", "ms", 1.0, numpy=2.0, bar="<= 1", passed=False)
    assert report(chosen, "says nothing about Apple hardware", [row], soft._columns()) == 1
    told = capsys.readouterr().out
    assert "says nothing about Apple hardware" in told and "NOT MET" in told


def test_bars_are_shown_only_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    row = soft.EngineRow("work", "ms", 1.0, numpy=2.0, bar="<= 1", passed=False)
    for given, shown in (([], False), (["--bars"], True)):
        assert report(options("soft", None).parse_args(given), "title", [row], soft._columns()) == 0
        told = capsys.readouterr().out
        assert ("NOT MET" in told) is shown and ("bar" in told) is shown

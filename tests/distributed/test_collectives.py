"""Collectives over several processes on this machine."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from distributed.ranks import run_ranks
from mlx_native_py import DistributedError
from mlx_native_py import distributed as d
from mlx_native_py.distributed import world

pytest.importorskip("mpi4py", reason="the extra distributed is not installed")


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_programs(count: int) -> None:
    programs = ["first_steps.py", "behind.py", "properties.py"]
    done = run_ranks(count, "everything.py", *programs)
    lines = [f"{each}: {count} ranks agree" for each in programs]
    assert (done.returncode, done.stdout.splitlines()) == (0, lines), done.stderr


@pytest.mark.parametrize("where", ["together", "apart"])
def test_disagreements(where: str) -> None:
    done = run_ranks(3, "disagreements.py", where)
    assert "Traceback" not in done.stderr and "Error" not in done.stderr, done.stderr


def test_one_process_is_a_group() -> None:
    group = d.init()
    assert (group.rank, group.size) == (0, 1)
    assert d.all_sum(np.arange(3)).tolist() == [0, 1, 2]
    assert d.all_gather(np.zeros((2, 3))).shape == (2, 3)
    with pytest.raises(DistributedError, match="no MPI launcher started this process"):
        d.init(strict=True)


def test_a_launcher_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "_world", None)
    monkeypatch.setenv("PMIX_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(
        DistributedError, match=r"started 2 ranks, but mpi4py cannot be used .*mlx-native-py\[distributed"
    ):
        d.init()

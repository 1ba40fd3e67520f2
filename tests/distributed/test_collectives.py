"""Collectives over several processes on this machine."""

from __future__ import annotations

import numpy as np
import pytest

from distributed.ranks import run_ranks
from mlx_native_py import DistributedError
from mlx_native_py import distributed as d

pytest.importorskip("mpi4py", reason="the extra distributed is not installed")


@pytest.mark.parametrize("program", ["first_steps.py", "behind.py"])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_programs(count: int, program: str) -> None:
    done = run_ranks(count, program)
    assert (done.returncode, done.stdout) == (0, f"{count} ranks agree\n"), done.stderr


def test_one_process_is_a_group() -> None:
    group = d.init()
    assert (group.rank, group.size) == (0, 1)
    assert d.all_sum(np.arange(3)).tolist() == [0, 1, 2]
    assert d.all_gather(np.zeros((2, 3))).shape == (2, 3)
    with pytest.raises(DistributedError, match="no MPI launcher started this process"):
        d.init(strict=True)

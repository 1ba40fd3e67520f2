"""mpi4py, imported on demand, because importing it initialises MPI."""

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
    """Calls MPI, and converts its errors to ours."""
    try:
        return function(*arguments, **options)
    except mpi().Exception as error:
        raise reported(error) from error


def reported(error: Exception) -> DistributedError:
    """An MPI error as one of ours."""
    return DistributedError(f"MPI says: {error}")

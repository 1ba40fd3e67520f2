"""Runs a Python program in this process, like `python PROGRAM`."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..errors import InvalidArgument, MissingFileError

__all__ = ["run_script"]


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Returns its exit status; prints uncaught exceptions with the traceback of the program only."""
    if Path(path).suffix not in ("", ".py", ".pyw"):
        raise InvalidArgument(
            f"{path} is no Python program; files of kernels end in .metal: see run, check and inspect"
        )
    if not Path(path).is_file():
        raise MissingFileError(f"there is no file {path}; expected a Python program")
    before = sys.argv, sys.path[:]
    sys.argv = [path, *arguments]
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        return _status(end.code)
    except Exception as problem:
        _print_traceback(problem, path)
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _status(code: object) -> int:
    """The exit status for an argument of `sys.exit`: a message is printed and gives 1."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


def _print_traceback(problem: Exception, path: str) -> None:
    trace = problem.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    traceback.print_exception(type(problem), problem, trace or problem.__traceback__)

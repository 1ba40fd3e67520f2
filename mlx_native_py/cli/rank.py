"""One rank of `mlx-native launch`: reports its device, runs the command, and ends all ranks if it fails."""

from __future__ import annotations

import os
import runpy
import socket
import sys
import traceback
from collections.abc import Sequence

from ..distributed import Group, init
from ..distributed.world import end_all
from ..errors import DistributedError, InvalidArgument
from ..metal import open_metal
from .main import main as run_command
from .script import run_script

__all__ = ["main"]


def main(arguments: Sequence[str]) -> int:
    """Runs a command, or `python script.py`, on this rank."""
    try:
        group = init(strict=True)
    except DistributedError as error:
        print(f"mlx-native: {error}", file=sys.stderr)
        return 1
    try:
        _tell_devices(group)
        status = _run_python(arguments[1:]) if arguments[0] == "python" else run_command(arguments)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    if status:
        end_all(status)
    return status


def _run_python(arguments: Sequence[str]) -> int:
    first, *rest = arguments
    if first not in ("-m", "-c"):
        return run_script(first, rest)
    if not rest:
        raise InvalidArgument(f"launch python {first}: expected a {'module' if first == '-m' else 'program'} after it")
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    return 0


def _tell_devices(group: Group) -> None:
    backend = open_metal(None)
    name = backend.capabilities(backend.default_device()).name
    devices = group.gather_objects(f"{name} ({backend.kind}) on {socket.gethostname()}, process {os.getpid()}")
    if group.rank == 0:
        for rank, device in enumerate(devices):
            print(f"rank {rank} of {group.size}: {device}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

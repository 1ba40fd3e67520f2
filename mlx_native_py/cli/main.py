"""Metal kernels and models from the command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from .. import __version__
from ..errors import MlxError

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "generate": "generate text from a prompt",
    "embed": "turn texts into vectors of length 1, one line each",
    "launch": "run a command, or a Python script, as several processes on one or more machines",
    "info": "print the device, its limits and what it can do, or what is in a model file",
    "doctor": "check PyObjC, the compiler, the cache folder and a kernel's result, and say what to do",
    "run": "run a kernel of a file, on arguments that the command line describes",
    "check": "compile kernels, and run one, or a Python program, with every access checked",
    "inspect": "show how kernels use memory, line by line, and count what a launch does there",
    "profile": "run a Python script and show where its time on the GPU goes",
    "compare": "compare two saved profiles: what got slower, beyond noise",
    "bench": "measure the device",
    "cache": "show how much room compiled kernels take on disk, or clear them",
    "ops": "list the ops",
    "plan-parallel": "estimate the time of a token of a model over several ranks",
}
"""All commands with a summary; each has a module of the same name with `options` and `run`."""

_INTERRUPTED = 130
"""128 plus the signal number, as in shells."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status: 0, 1 for a failure, 2 for wrong usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    status = _run(_parser(arguments).parse_args(arguments))
    world = sys.modules.get("mlx_native_py.distributed.world")
    if status and world is not None:
        world.end_all(status)
    return status


def _run(chosen: argparse.Namespace) -> int:
    try:
        return int(_module(chosen.command).run(chosen))
    except KeyboardInterrupt:
        print("\nmlx-native: stopped", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of the output is gone; the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (MlxError, OSError) as error:
        missing = error.filename if isinstance(error, FileNotFoundError) else None
        print(f"mlx-native: {error if missing is None else f'there is no file {missing}'}", file=sys.stderr)
        return 1


def _module(command: str) -> ModuleType:
    return import_module(f".{command.replace('-', '_')}", __package__)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Imports only the requested command's module, so that `--help` is fast."""
    parser = argparse.ArgumentParser(prog="mlx-native", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mlx-native {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        command = commands.add_parser(name, help=purpose, description=purpose[0].upper() + purpose[1:] + ".")
        if name in arguments:
            _module(name).options(command)
    return parser

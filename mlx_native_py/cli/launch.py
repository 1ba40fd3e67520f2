"""`mlx-native launch -n 2 COMMAND ...`: runs a command or a Python script on several ranks."""

from __future__ import annotations

import argparse
import codecs
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from .. import settings
from ..distributed import is_available
from ..distributed.mpiexec import command_for
from ..errors import DistributedError, InvalidArgument
from .launch_report import LaunchReport

__all__ = ["options", "run"]

_READS = ("generate", "embed")
_MOST_TEXT = 1 << 16
_INTERRUPTED = 130
_GRACE = 5.0  # seconds for the launcher to end its ranks before it is signalled again


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", type=int, metavar="RANKS", help="how many ranks (default: one for each host, or 2)")
    command.add_argument("--hosts", type=_names, default=[], metavar="A,B", help="machines to start them on, by ssh")
    command.add_argument(
        "program", nargs=argparse.REMAINDER, help="a command of mlx-native, or: python script.py, with its options"
    )


def run(chosen: argparse.Namespace) -> int:
    """Starts the ranks and waits for them; returns 0 if all ranks do."""
    if not chosen.program:
        raise InvalidArgument("launch takes a command: mlx-native launch -n 2 generate 'Once upon a time'")
    ranks = chosen.n if chosen.n is not None else len(chosen.hosts) or 2
    if ranks < 1:
        raise InvalidArgument(f"-n is {ranks}, expected at least 1")
    if not is_available():
        raise DistributedError("mpi4py is not installed; pip install 'mlx-native-py[distributed]'")
    _require_hosts(chosen.hosts)
    _require_script(chosen.program)
    program = [sys.executable, "-m", "mlx_native_py.cli.rank", *_with_standard_input(chosen.program)]
    return _watch(command_for(ranks, chosen.hosts, settings.flags_in_force(), program))


def _with_standard_input(program: Sequence[str]) -> list[str]:
    """Replaces a `-` by the text itself, since not every mpiexec forwards the end of standard input."""
    if program[0] not in _READS or "-" not in program:
        return list(program)
    text = sys.stdin.read()
    if len(text.encode()) > _MOST_TEXT:
        raise InvalidArgument(f"- has more than {_MOST_TEXT:,} bytes, too long for a command line; use a file")
    return [text if each == "-" else each for each in program]


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _require_hosts(hosts: Sequence[str]) -> None:
    for host in hosts:
        try:
            socket.getaddrinfo(host.partition(":")[0], None)
        except OSError as reason:
            raise DistributedError(f"there is no host {host!r}: {reason}") from None


def _require_script(program: Sequence[str]) -> None:
    """Checks the script once, instead of on every rank."""
    if program[0] == "python" and (len(program) < 2 or not (program[1] in ("-m", "-c") or Path(program[1]).is_file())):
        given = "which one?" if len(program) < 2 else f"there is no file {program[1]}"
        if program[1:] and program[1].startswith("-"):
            given = f"options of Python such as {program[1]} are not taken"
        raise InvalidArgument(f"launch python: {given}; expected python script.py, python -m module or python -c code")


def _watch(command: list[str]) -> int:
    """Forwards the output of the ranks; a signal that ends this process ends them first."""
    report = LaunchReport(sys.stderr)
    written, out = os.pipe()
    with subprocess.Popen(
        command, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace", bufsize=1
    ) as mpiexec:
        os.close(out)
        reader = threading.Thread(target=_pass_on, args=(written, report), daemon=True)
        reader.start()
        earlier = signal.signal(signal.SIGTERM, _as_interrupt)
        try:
            assert mpiexec.stderr is not None
            for line in mpiexec.stderr:
                report.take(line)
            status = mpiexec.wait()
        except KeyboardInterrupt:
            _end(mpiexec)
            print("mlx-native launch: stopped, and all ranks with it", file=sys.stderr)
            return _INTERRUPTED
        finally:
            signal.signal(signal.SIGTERM, earlier)
    report.close()
    reader.join(_GRACE)
    if status:
        print(f"mlx-native launch: {report.blame(status)}; all ranks were ended", file=sys.stderr)
    return 1 if status else 0


def _pass_on(source: int, report: LaunchReport) -> None:
    """Forwards standard output; its end may be mpiexec's own report."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    with open(source, "rb", buffering=0) as pipe:
        for piece in iter(partial(pipe.read, 1 << 16), b""):
            sys.stdout.write(report.without_end(decode(piece)))
            sys.stdout.flush()
    sys.stdout.write(report.without_end(""))
    sys.stdout.flush()


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _end(mpiexec: subprocess.Popen[Any]) -> None:
    """Ends mpiexec gracefully: after Ctrl-C in a terminal, a second signal would make it leave its ranks behind."""
    for ask in (None, mpiexec.terminate, mpiexec.kill):
        if ask is not None:
            ask()
        try:
            mpiexec.communicate(timeout=_GRACE if ask else 0.5)
            return
        except subprocess.TimeoutExpired:
            continue

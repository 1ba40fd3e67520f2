"""What the ranks and mpiexec write to standard error, passed on; mpiexec's own reports become one plain sentence."""

from __future__ import annotations

import re
import signal
from typing import TextIO

__all__ = ["LaunchReport"]

_RULE = re.compile(r"-{50,}\s*$")
_OF_MPIEXEC = ("prterun noticed", "prterun detected", "prterun has exited", "MPI_ABORT was invoked")
_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+)")
_ABORTED = re.compile(r"MPI_ABORT was invoked on rank (\d+)|process rank (\d+) with PID")
_EXITED = re.compile(r"Process name: \[\S+,(\d+)\]\s+Exit code:\s+(\d+)")


class LaunchReport:
    """Lines in, lines out, except for the framed texts in which mpiexec says which rank ended the others."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._block: list[str] | None = None
        self._told = ""

    def take(self, line: str) -> None:
        """One line of standard error."""
        if _RULE.match(line):
            if self._block is None:
                self._block = [line]
            else:
                self._end_block([*self._block, line])
        elif self._block is not None:
            self._block.append(line)
        else:
            self._out.write(line)
            self._out.flush()

    def close(self) -> None:
        """No more lines come."""
        if self._block is not None:
            self._end_block(self._block)

    def _end_block(self, block: list[str]) -> None:
        self._block = None
        text = "".join(block)
        if any(each in text for each in _OF_MPIEXEC):
            self._told += text
        else:
            self._out.write(text)
            self._out.flush()

    def blame(self, status: int) -> str:
        """Which rank failed, as far as mpiexec says it."""
        if match := _KILLED.search(self._told):
            rank, host, number = match.groups()
            return f"rank {rank} on {host} was killed by signal {number} ({_name(int(number))})"
        if match := _EXITED.search(self._told):
            return f"rank {match[1]} ended with status {match[2]}"
        if match := _ABORTED.search(self._told):
            return f"rank {match[1] or match[2]} failed"
        return f"mpiexec ended with status {status}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"

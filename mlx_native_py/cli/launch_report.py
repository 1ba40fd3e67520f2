"""Output of the ranks and of mpiexec, with mpiexec's failure reports reduced to one sentence."""

from __future__ import annotations

import re
import signal
from typing import TextIO

__all__ = ["LaunchReport"]

# Open MPI frames its reports on standard error.
_RULE = re.compile(r"-{50,}\s*$")
_OF_MPIEXEC = ("prterun noticed", "prterun detected", "prterun has exited", "MPI_ABORT was invoked")
_KILLED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) exited on\s+signal (\d+)")
_ABORTED = re.compile(r"MPI_ABORT was invoked on rank (\d+)|process rank (\d+) with PID")
_EXITED = re.compile(r"Process name: \[\S+,(\d+)\]\s+Exit code:\s+(\d+)")
# MPICH ends its standard output with one that names a process; the ranks themselves have said which failed.
_DOUBLE_RULE = re.compile(r"={40,}\n*$")
_BAD_END = "=   BAD TERMINATION"
_ENDED = re.compile(r"PID (\d+) RUNNING AT (\S+)\s+=\s+EXIT CODE: (\d+)")
_BY_SIGNAL = re.compile(r"EXIT STRING: .*\(signal (\d+)\)")
_RANK = re.compile(r"rank (\d+) of \d+: .* on (\S+), process (\d+)$")
_FAILED = re.compile(r"rank (\d+) of \d+ failed, and ends the others$|Abort\(\d+\) on node \d+ \(rank (\d+) in comm")


class LaunchReport:
    """Forwards mpiexec's output, and replaces its framed failure reports by one line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._block: list[str] | None = None
        self._told = ""
        self._ranks: dict[tuple[str, str], str] = {}
        """Ranks by host and process id."""
        self._failed = self._held = ""

    def take(self, line: str) -> None:
        """Processes one line of standard error."""
        if _RULE.match(line):
            if self._block is None:
                self._block = [line]
            else:
                self._end_block([*self._block, line])
        elif self._block is not None:
            self._block.append(line)
        else:
            self._note(line.rstrip())
            self._out.write(line)
            self._out.flush()

    def without_end(self, text: str) -> str:
        """Standard output without mpiexec's final report; an empty text is the end."""
        is_last, text, self._held = not text, self._held + text, ""
        at = 0 if _BAD_END in self._told else text.find(_BAD_END)
        if at < 0:
            if not is_last and (rule := _DOUBLE_RULE.search(text)):  # the report may follow
                text, self._held = text[: rule.start()], rule[0]
            return text
        self._told += text[at:]
        return _DOUBLE_RULE.sub("", text[:at])

    def _note(self, line: str) -> None:
        if match := _RANK.match(line):
            self._ranks[match[2], match[3]] = match[1]
        elif match := _FAILED.match(line):
            self._failed = self._failed or match[1] or match[2]

    def close(self) -> None:
        """Ends the input."""
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
        """Which rank failed, according to mpiexec."""
        if match := _KILLED.search(self._told):
            rank, host, number = match.groups()
            return f"rank {rank} on {host} was killed by signal {number} ({_name(int(number))})"
        if match := _EXITED.search(self._told):
            return f"rank {match[1]} ended with status {match[2]}"
        if match := _ABORTED.search(self._told):
            return f"rank {match[1] or match[2]} failed"
        if self._failed:
            return f"rank {self._failed} failed"
        if match := _ENDED.search(self._told):
            process, host, code = match.groups()
            rank = self._ranks.get((host, process), "")
            who = f"rank {rank} on {host}" if rank else f"process {process} on {host}"
            if killed := _BY_SIGNAL.search(self._told):
                return f"{who} was killed by signal {killed[1]} ({_name(int(killed[1]))})"
            return f"{who} ended with status {code}"
        return f"mpiexec ended with status {status}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"

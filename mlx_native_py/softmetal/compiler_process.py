"""One compiler process, limited in time, memory and output, and killed together with its children."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .system import ends_within, limit, memory_file, within_limits

MIB = 1 << 20
# The compiler sees no environment of the user's: results do not depend on it, and messages are in English. It has no
# place for temporary files, since a source could leave some behind.
ENVIRONMENT = {"LC_ALL": "C", "TMPDIR": "/nonexistent"}
_OUT_OF_MEMORY = ("out of memory", "OutOfMemory", "bad_alloc", "allocation failed", "failed to allocate")
_CRASHED = re.compile(r"^\S+ error: \S+ frontend command failed (?:with exit code (\d+)|due to signal).*", re.M | re.S)
_NO_STACK = "[-Wstack-exhausted]"
_FULL_DISK = "No space left on device"
_NOT_WRITTEN = "IO failure on output stream"

T = TypeVar("T")
_end: ContextVar[float] = ContextVar("_end", default=float("inf"))  # when the compilation that runs must be over


@dataclass(frozen=True)
class CompileLimits:
    """The limits of a compiler process."""

    seconds: float = 300.0
    memory_mib: int = 4096  # of address space
    output_mib: int = 256  # of each file that it writes, its messages among them
    cpu_seconds: int | None = None  # of processor time, where that is less than the time it may take
    data_mib: int | None = None  # of memory that it writes to, where that is less than its address space


DEFAULT_LIMITS = CompileLimits()


class ToolchainError(RuntimeError):
    """There is no usable compiler, or it failed for a reason other than the source."""


class LimitExceeded(ToolchainError):
    """The compiler exceeded a limit of the settings."""


class StepLimitExceeded(LimitExceeded):
    """The compiler exceeded a limit that its caller set for one step."""


class CompilerFailed(ToolchainError):
    """The compiler rejected its input; `output` has its messages."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        super().__init__(f"{' '.join(command[:2])} failed:\n{output}")
        self.output = output


def in_time(limits: CompileLimits, work: Callable[[], T]) -> T:
    """Does `work`, a compilation whose steps share the time of one; those that `on_threads` runs, too."""
    # In a context of its own: no exception, wherever it comes from, can leave the limit behind.
    return copy_context().run(_until, time.monotonic() + limits.seconds, work)


def _until(end: float, work: Callable[[], T]) -> T:
    _end.set(min(end, _end.get()))
    return work()


def remaining() -> float:
    """The seconds that the compilation which runs has left."""
    return max(0.0, _end.get() - time.monotonic())


def run_compiler(command: Sequence[str], stdin: str, limits: CompileLimits) -> subprocess.CompletedProcess[str]:
    """Runs one step to its end; raises CompilerFailed with the compiler's words, or LimitExceeded."""
    with memory_file("given") as given, memory_file("out") as out, memory_file("err") as err:
        given.write(stdin.encode())
        given.seek(0)
        status = _run(command, given.fileno(), out.fileno(), err.fileno(), limits)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    if status:
        raise _failure(command, status, texts[1] or texts[0], limits)
    if "-o" in command and not Path(command[command.index("-o") + 1]).exists():
        raise ToolchainError(f"{_name(command)} ended well and wrote nothing; MLX_SOFT_CLANG names another compiler")
    return subprocess.CompletedProcess(command, 0, *texts)


def _run(command: Sequence[str], stdin: int, stdout: int, stderr: int, limits: CompileLimits) -> int:
    """The exit status, or the negative number of the signal that ended it."""
    wanted = _limits(limits)
    within = within_limits(command, wanted)
    process = subprocess.Popen(within, stdin=stdin, stdout=stdout, stderr=stderr, env=ENVIRONMENT, process_group=0)
    try:
        limit(process.pid, wanted)
        if not ends_within(process, min(limits.seconds, remaining())):
            raise LimitExceeded(
                f"{_name(command)} did not end within {limits.seconds:g} s; MLX_SOFT_COMPILE_TIMEOUT allows more"
            )
    finally:
        # The group outlives its leader while children do; the number is not reused before the leader is waited for.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode


def _limits(limits: CompileLimits) -> dict[int, int]:
    wanted = {
        resource.RLIMIT_AS: limits.memory_mib * MIB,
        resource.RLIMIT_FSIZE: limits.output_mib * MIB,
        resource.RLIMIT_CPU: int(limits.seconds) + 1 if limits.cpu_seconds is None else limits.cpu_seconds,
        resource.RLIMIT_CORE: 0,
    }
    return wanted if limits.data_mib is None else {**wanted, resource.RLIMIT_DATA: limits.data_mib * MIB}


def _failure(command: Sequence[str], status: int, said: str, limits: CompileLimits) -> ToolchainError:
    if status == -signal.SIGXFSZ or "File too large" in said:
        return LimitExceeded(
            f"{_name(command)} wrote more than {limits.output_mib} MiB; MLX_SOFT_COMPILE_OUTPUT allows more"
        )
    if status == -signal.SIGXCPU and limits.cpu_seconds is not None:
        return StepLimitExceeded(f"{_name(command)} took more than {limits.cpu_seconds} s of processor time")
    if status == -signal.SIGXCPU:
        return LimitExceeded(f"{_name(command)} took {limits.seconds:g} s; MLX_SOFT_COMPILE_TIMEOUT allows more")
    # A compiler without memory may not even get to say so.
    without = status in (-signal.SIGSEGV, -signal.SIGABRT) and not said.strip()
    if limits.data_mib is not None and (without or any(word in said for word in _OUT_OF_MEMORY)):
        return StepLimitExceeded(f"{_name(command)} needed more than {limits.data_mib} MiB")
    if any(word in said for word in _OUT_OF_MEMORY):
        return LimitExceeded(
            f"{_name(command)} needed more than {limits.memory_mib} MiB; MLX_SOFT_COMPILE_MEMORY allows more"
        )
    if _NO_STACK in said:
        return LimitExceeded(f"{_name(command)} cannot follow the source: its expressions are nested too deeply")
    if _FULL_DISK in said:
        return ToolchainError(f"{_name(command)}: no space left on the disk of the kernel cache")
    if _NOT_WRITTEN in said:
        return ToolchainError(f"{_name(command)} could not write its output: {said[-2000:]}")
    if status < 0:
        rest = f": {said[-2000:]}" if said.strip() else "; it may work when tried again"
        return ToolchainError(f"{_name(command)} was ended by {signal.Signals(-status).name}{rest}")
    if not said.strip():
        return ToolchainError(
            f"{_name(command)} ended with status {status} and said nothing; MLX_SOFT_CLANG names another compiler"
        )
    return CompilerFailed(command, _CRASHED.sub(_crash, said))


def _crash(found: re.Match[str]) -> str:
    """Instead of what the compiler says to those who would mend it."""
    number = int(found[1] or 0) - 128
    known = f" ({signal.Signals(number).name})" if number in set(signal.Signals) else ""
    return f"error: the compiler crashed{known}; the source may be nested too deeply"


def _name(command: Sequence[str]) -> str:
    return "the compiler " + " ".join(command[:2])

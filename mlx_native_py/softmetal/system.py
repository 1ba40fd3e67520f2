"""Differences between operating systems and processors; the runtime's part is in runtime/system_*.cpp."""

from __future__ import annotations

import os
import platform
import resource
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

# Only the x86 target has the language's extensions on by itself, and only x86 processors stop at a division by zero.
_ARM_DIALECT = (
    *("-Xclang", "-cl-ext=+all"),
    "-fsanitize=integer-divide-by-zero",
    "-fsanitize-trap=integer-divide-by-zero",
)
_MACOS = "14.0"  # the oldest that is supported


@dataclass(frozen=True)
class System:
    """An operating system and processor that kernels are compiled for."""

    name: Literal["linux", "darwin"]
    machine: Literal["x86_64", "aarch64"]

    def target(self, cpu: str) -> tuple[str, ...]:
        """Flags that say what to compile for."""
        if self.name == "darwin":
            # -mtp: the register by which that system finds what a thread has of its own.
            return ("-target", f"arm64-apple-macosx{_MACOS}", f"-mcpu={cpu}", "-mtp=tpidrro_el0", "-Qunused-arguments")
        flag = "-mcpu" if self.machine == "aarch64" else "-march"
        return ("-target", f"{self.machine}-linux-gnu", f"{flag}={cpu}")

    @property
    def dialect(self) -> tuple[str, ...]:
        """Flags of kernels."""
        return () if self.machine == "x86_64" else _ARM_DIALECT

    @property
    def far_calls(self) -> tuple[str, ...]:
        """Has calls through registers go by way of functions that nobody has, so that no object with one is loaded.

        `-fsanitize=kcfi` marks calls through pointers, but not those to addresses that are constants.
        """
        if self.machine != "x86_64":
            return ()
        features = ("+retpoline-indirect-calls", "+retpoline-external-thunk")
        return ("-fplt", *(word for each in features for word in ("-Xclang", "-target-feature", "-Xclang", each)))

    @property
    def runtime_flags(self) -> tuple[str, ...]:
        return ("-mno-red-zone",) if self.machine == "x86_64" else ()

    @property
    def header_folders(self) -> tuple[str, ...]:
        """Of the C library, among those that ziglang brings."""
        if self.name == "darwin":
            return ("any-darwin-any",)
        family = {"x86_64": "x86"}.get(self.machine, self.machine)
        return (f"{family}-linux-gnu", "generic-glibc", f"{family}-linux-any", "any-linux-any")

    @property
    def zig_linker(self) -> tuple[str, ...]:
        """ziglang's linker for it, as a subcommand."""
        return ("build-lib",) if self.name == "darwin" else ("ld.lld",)

    @property
    def math_library(self) -> str:
        """What to load so that kernels find functions of the math library; empty where every process has them."""
        return "" if self.name == "darwin" else "libm.so.6"

    def link(self, objects: Sequence[Path], output: Path, script: Path | None) -> list[str]:
        """Arguments that make a shared library; what it lacks is found in the process that loads it."""
        files = list(map(str, objects))
        if self.name == "darwin":
            folder = str(output.parent / "zig")
            caches = ["--cache-dir", folder, "--global-cache-dir", folder]
            plain = ["-fno-compiler-rt", "-fno-ubsan-rt", "-fallow-shlib-undefined", "-install_name", "soft"]
            target = ["-dynamic", "-target", f"aarch64-macos.{_MACOS}"]
            return [*target, *plain, *caches, f"-femit-bin={output}", *files]
        flags = ["-shared", "-z", "now", "-Bsymbolic", "--no-undefined-version", "-o", str(output), *files]
        return [*flags, *(["-T", str(script)] if script else [])]


def host() -> System | None:
    """The system that runs this process; None where software Metal does not run."""
    machines: dict[str, Literal["x86_64", "aarch64"]] = {"x86_64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
    machine = machines.get(platform.machine())
    if sys.platform == "linux" and machine:
        return System("linux", machine)
    return System("darwin", "aarch64") if sys.platform == "darwin" and machine == "aarch64" else None


def processor() -> str:
    """What code for the "native" processor depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.platform()} {platform.processor()}"
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(sorted({line for line in lines if line.startswith(wanted)}))


def memory_file(name: str) -> BinaryIO:
    """A file without a folder where there is such a thing, so that having no descriptor left is told as such."""
    if sys.platform == "linux":
        return open(os.memfd_create(name), "w+b")
    return tempfile.TemporaryFile(prefix=name)


def within_limits(command: Sequence[str], limits: Mapping[int, int]) -> Sequence[str]:
    """The command that sets limits for itself first, where they cannot be set from outside."""
    if sys.platform == "linux":
        return command
    options = {resource.RLIMIT_CPU: ("t", 1), resource.RLIMIT_FSIZE: ("f", 512), resource.RLIMIT_CORE: ("c", 512)}
    words = [
        f"ulimit -{options[which][0]} {most // options[which][1]};"
        for which, most in limits.items()
        if which in options
    ]
    return ["/bin/sh", "-c", f'{" ".join(words)} exec "$0" "$@"', *command]


def limit(pid: int, limits: Mapping[int, int]) -> None:
    """Limits a process that was just started, where the system can do that."""
    if sys.platform != "linux":
        return
    with suppress(ProcessLookupError):
        for which, most in limits.items():
            hard = resource.prlimit(pid, which)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, which, (most, hard))


def ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Waits for a process without reaping it, so that its number stays its own."""
    if sys.platform == "linux":
        handle = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(seconds * 1000))
        finally:
            os.close(handle)
    queue = select.kqueue()
    try:
        exit_of = select.kevent(process.pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        return bool(queue.control([exit_of], 1, seconds))
    except ProcessLookupError:
        return True
    finally:
        queue.close()

"""The runtime library, built once per machine and loaded once per process, which runs launches; and the checker's."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mlx_native_py.softmetal.engines import abi
from mlx_native_py.softmetal.engines.messages import Messages
from mlx_native_py.softmetal.system import host
from mlx_native_py.softmetal.threads import on_threads
from mlx_native_py.softmetal.toolchain import RUNTIME_SOURCES, Toolchain, find_toolchain

Part = Literal["runtime", "checker"]
Position = tuple[int, int, int]
_One = ctypes.c_uint64 * 2  # the times of a single launch
_byref = ctypes.byref


@dataclass(frozen=True)
class LaunchTimes:
    """Start and end of a launch, in ns of CLOCK_MONOTONIC."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class RunResult:
    """The results of a run's launches, in order."""

    times: tuple[LaunchTimes, ...]


class KernelFault(RuntimeError):
    """A kernel faulted; later launches of its run did not start."""

    def __init__(
        self, kind: str, launch: int, group: Position, thread: Position | None, address: int, access: str = ""
    ) -> None:
        self.where = f", thread {thread} of threadgroup {group}" if thread else f", threadgroup {group}"
        self.detail = _detail(kind, address)
        super().__init__(f"{kind}{self.detail} in launch {launch}{self.where}")
        self.kind = kind
        self.launch = launch
        self.group = group
        self.thread = thread
        self.address = address
        self.access = access
        """Of a bad address: read or write; empty where the processor does not say."""
        self.checkable = True  # whether checked mode would tell more


class RuntimeCall:
    """A prepared call of the runtime, made by `call[0](*call[1:])`; its results are left in memory."""

    __slots__ = ("_fault", "_launches", "_messages", "call", "times")

    def __init__(
        self,
        functions: tuple[Any, Any],
        messages: Messages,
        launches: Any,
        count: int,
        deadline_s: float = 0.0,
        threads: int = 0,
        brief: bool = False,
    ) -> None:
        deadline = int(deadline_s * 1e9) or 1 if deadline_s > 0 else 0
        # Start and end of each launch, ns of CLOCK_MONOTONIC.
        self.times = times = _One() if count == 1 else (ctypes.c_uint64 * (2 * count))()
        self._launches = launches
        self._messages = messages
        self._fault = fault = abi.Fault()
        self.call = functions[brief], _byref(launches), count, threads, deadline, times, _byref(fault)

    def check(self, answer: int) -> None:
        """Hands on what kernels wrote to the log; raises KernelFault where a kernel was stopped, as the answer says."""
        if self._messages.pending.value:
            self._messages.deliver()
        if answer:
            raise fault_of(self._fault)


class LoadedImage(ctypes.CDLL):
    """A kernel's shared object, loaded into this process."""

    def address(self, name: str) -> int:
        """Where one of its functions is."""
        return ctypes.cast(self[name], ctypes.c_void_p).value or 0

    def call(self, name: str) -> int:
        """What a function without arguments answers, in 64 bits."""
        return int(ctypes.CFUNCTYPE(ctypes.c_uint64)(self.address(name))())

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the image."""
        return ctypes.string_at(address, size)


class Runtime:
    """The loaded library; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._checker: ctypes.CDLL | None = None
        self._opening = threading.RLock()
        _load_math_library()
        self._library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        # The second keeps the interpreter's lock: releasing it for a brief kernel only wakes other threads.
        functions = self._library.soft_run, ctypes.PyDLL(str(path)).soft_run
        for function in functions:
            function.restype = ctypes.c_uint32
            sizes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64]
            function.argtypes = [ctypes.c_void_p, *sizes, ctypes.c_void_p, ctypes.c_void_p]
        self.rouse: Callable[[int], object] = ctypes.PyDLL(str(path)).soft_rouse
        """Wakes so many of the workers that sleep, for work that is on its way."""
        self.prepare: Callable[..., RuntimeCall] = partial(RuntimeCall, functions, Messages(self._library))
        """A call that runs an array of launches, or a single one: of these, their number, and the rest as for `run`;
        last, whether it is brief."""

    @property
    def library(self) -> ctypes.CDLL:
        return self._library

    def open_checker(self, library: Callable[[], Path]) -> None:
        """Loads the library without which no checked kernel can be loaded, if that was not done before."""
        with self._opening:
            self._checker = self._checker or ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)

    def load(self, path: Path) -> LoadedImage:
        """Loads the shared object of a kernel."""
        return LoadedImage(str(path))

    def run(self, launches: Sequence[abi.SoftLaunch], deadline_s: float = 0.0, threads: int = 0) -> RunResult:
        """Runs launches in order, each on `threads` cores, and waits; raises KernelFault.

        The deadline holds for each launch; 0 means none. 0 threads are all cores.
        """
        count = len(launches)
        prepared = self.prepare((abi.SoftLaunch * count)(*launches), count, deadline_s, threads)
        function, *arguments = prepared.call
        prepared.check(function(*arguments))
        times = prepared.times
        return RunResult(tuple(LaunchTimes(times[2 * i], times[2 * i + 1]) for i in range(count)))


def _detail(kind: str, address: int) -> str:
    if kind in ("bad address", "stack overflow") and address:
        return f" at address {address:#x}"
    if kind == "out of memory" and address:
        return f" for the stacks of its threads, {address} bytes on each core (fewer threads per threadgroup need less)"
    return ""


def fault_of(fault: abi.Fault) -> KernelFault:
    """What a run left behind, as an exception."""
    thread = tuple(fault.thread) if fault.thread_known else None
    kind, access = abi.FAULTS.get(fault.kind, "unknown fault"), abi.ACCESSES.get(fault.access, "")
    return KernelFault(kind, fault.launch, tuple(fault.group), thread, fault.address or 0, access)


def _load_math_library() -> None:
    system = host()
    if system is None or not system.math_library:
        return
    # Another C library has its functions elsewhere, or none.
    with suppress(OSError):
        ctypes.CDLL(system.math_library, mode=ctypes.RTLD_GLOBAL)


def _units(part: Part, folder: Path) -> list[Path]:
    """The part's sources in a few files that include them: headers and the start of a compiler take most of the time.

    `waiting.cpp` defines by assembly what others declare, so it stands by itself.
    """
    units: dict[str, list[Path]] = {}
    for source in sorted(RUNTIME_SOURCES.glob("*.cpp")):
        if source.stem.startswith("check") == (part == "checker"):
            units.setdefault("waiting" if source.stem == "waiting" else part, []).append(source)
    for name, sources in units.items():
        (folder / f"{name}.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
    return [folder / f"{name}.cpp" for name in units]


def build_library(toolchain: Toolchain, directory: Path, part: Part = "runtime") -> Path:
    """The library for this compiler, processor and source; compiled unless `directory` has it."""
    path = directory / f"{part}-{toolchain.fingerprint}.so"
    if path.exists():
        return path
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        units = _units(part, Path(scratch))
        objects = [unit.with_suffix(".o") for unit in units]
        commands = [toolchain.compile_runtime(unit, out) for unit, out in zip(units, objects, strict=True)]
        on_threads(toolchain.run, commands, os.cpu_count())
        linked = Path(scratch, f"{part}.so")
        toolchain.run(toolchain.link(objects, linked))
        linked.replace(path)
    return path


def open_runtime(toolchain: Toolchain, directory: Path) -> Runtime:
    """Builds the library if needed and loads it."""
    return Runtime(build_library(toolchain, directory))


_lock = threading.RLock()  # a signal handler may open a device
_opened: Runtime | None = None


def runtime(
    directory: Path | None = None,
    clang: str | None = None,
    library: Callable[[], Path] | None = None,
) -> Runtime:
    """The process's runtime. The first call opens it; its arguments have no meaning later.

    `library` gives the file to load; without it one is built in `directory`.
    """
    global _opened
    with _lock:
        if _opened is None:
            folder = directory or Path.home() / ".cache" / "mlx_native_py" / "soft"
            made = Runtime(library() if library else build_library(find_toolchain(clang), folder))
            _opened = _opened or made
        return _opened

"""Engine selection: lanes if it pays off, otherwise flat or fibers, which also serve while lanes code is compiled.

The choice depends on the settings, the kernel, its threadgroup size and the number of threads launched, never on
measured times. All engines give the same bits, so caching and compile timing affect only speed.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..program import EngineChoice, Executable, Size, Specialised
from ..toolchain import ENGINE_NUMBERS, Engine
from .abi import SoftLaunch
from .background import later
from .lanes.ir.model import Declined

BUDGET_S = 0.5  # how long launches of a shape wait for its compilation
MANY_THREADS = 4096  # of a shape; as long as fewer were asked for, its other engine is quicker than the compiler
LEAST_THREADS = 256  # that a launch counts for: no shape stays without lanes for more than 16 launches
MOST_SHAPES = 32  # of one kernel; each is a shared object that stays loaded
_GAP = SoftLaunch.entry.offset - SoftLaunch.stack_bytes.offset - 4
put_code = struct.Struct(f"=2I{_GAP}x2QI").pack_into
"""Puts code into a launch: what it fills begins at `CODE` there."""
CODE = SoftLaunch.engine.offset


def scalar_engine(asked: EngineChoice, *, checked: bool, waits: Sequence[str]) -> tuple[Engine, dict[str, str]]:
    """Flat or fibers, and why not the other; `waits` are the names through which threads wait for each other."""
    if checked:
        return "fibers", {"flat": "checked mode runs on fibers, which tell threads apart"}
    if asked == "fibers":
        return "fibers", {"flat": "the settings ask for fibers"}
    if waits:
        return "fibers", {"flat": f"threads wait for each other in {', '.join(waits[:3])}"}
    return "flat", {}


def lanes_refused(asked: EngineChoice, *, checked: bool, samples: bool = False) -> str:
    """Why no launch of a kernel may use lanes; empty if they may."""
    if asked in ("flat", "fibers"):
        return f"the settings ask for {asked}"
    if checked:
        return "checked mode runs on fibers, which tell threads apart"
    if samples and asked != "lanes":
        return "sampling textures takes lanes long to compile; the settings can ask for it"
    return ""


def code_for(code: Executable, shape: Size, threads: int) -> tuple[Engine, tuple[int, ...]]:
    """The engine that runs a launch, and the numbers for `put_code`; threadgroups at the grid's edge keep the code for
    every shape."""
    lanes = code.lanes.choose(shape, threads) if code.lanes is not None else None
    own = ENGINE_NUMBERS[code.engine]
    if lanes is None:
        return code.engine, (own, code.stack_bytes, code.entry, 0, 0)
    stack_bytes = max(lanes.stack_bytes, code.stack_bytes)
    return "lanes", (ENGINE_NUMBERS[lanes.engine], stack_bytes, lanes.entry, code.entry, own)


class Builder(Protocol):
    """Builds the lanes code of one kernel; see msl/lanes.py."""

    def stored(self, shape: Size) -> Specialised | None:
        """What the disk cache has; raises Declined where the kernel was declined before."""
        ...

    def make(self, shape: Size) -> Specialised:
        """Compiles and keeps it; raises Declined."""
        ...


@dataclass
class _Build:
    """The lanes code for one threadgroup size, or the reason why there is none."""

    deadline: float | None = None
    """Until when launches wait for it; set by the first of them."""
    done: threading.Event = field(default_factory=threading.Event)
    code: Specialised | None = None
    reason: str = ""


class LanesChoice:
    """The lanes code of one kernel, by threadgroup size.

    The first launch of a size loads its code from the disk cache. Otherwise it is compiled once MANY_THREADS have been
    launched. Launches wait `budget` seconds for that, then use the kernel's other engine until the code is ready. With
    a budget of None, the first launch compiles and waits.
    """

    def __init__(self, builder: Builder, *, budget: float | None = BUDGET_S) -> None:
        self.builder = builder
        self._budget = budget
        self._builds: dict[Size, _Build] = {}
        self._threads: dict[Size, int] = {}  # asked for so far, of shapes that have no build yet
        self._lock = threading.RLock()  # a signal handler may launch the same kernel

    def choose(self, shape: Size, threads: int) -> Specialised | None:
        """The code for a launch; None for the kernel's other engine."""
        build = self._builds.get(shape) or self._begin(shape, threads)
        if build is None:
            return None
        if not build.done.is_set():
            if build.deadline is None:
                build.deadline = time.monotonic() + (self._budget or 0)
            build.done.wait(build.deadline - time.monotonic())
        return build.code

    def prepare(self, shape: Size, threads: int) -> None:
        """Begins the compilation if a launch that will come makes it pay; never waits. The launch itself counts."""
        if shape not in self._builds and self._threads.get(shape, 0) + max(threads, LEAST_THREADS) >= MANY_THREADS:
            self._begin(shape, threads)

    def settled(self, shape: Size | None = None) -> bool:
        """Whether a shape, or each that was launched or prepared, has its code or will never have any."""
        if shape is not None:
            return shape in self._builds and self._builds[shape].done.is_set()
        return not self._threads and all(build.done.is_set() for build in list(self._builds.values()))

    def decided_by(self, shape: Size) -> tuple[int, ...] | None:
        """What decides how many steps the code of a shape takes, as far as it is known."""
        build = self._builds.get(shape)
        return build.code.decided_by if build is not None and build.code is not None else None

    def declined(self) -> Mapping[str, str]:
        """Why lanes do not run, for each shape where they do not."""
        return {f"lanes {shape}": build.reason for shape, build in list(self._builds.items()) if build.reason}

    def _begin(self, shape: Size, threads: int) -> _Build | None:
        """The build of a shape, from the cache or begun now; None while too few threads were asked for."""
        with self._lock:
            if shape in self._builds:  # another thread was faster
                return self._builds[shape]
            build = _Build()
            known = sum(other.code is not None for other in self._builds.values())
            if known >= MOST_SHAPES:
                build.reason = f"{MOST_SHAPES} shapes of this kernel are compiled already"
                build.done.set()
            elif shape in self._threads or not self._load(shape, build):
                if not self._pays(shape, threads):
                    return None
                if self._budget is None:
                    self._compile(shape, build)
                else:
                    later(lambda: self._compile(shape, build))
            self._threads.pop(shape, None)
            return self._builds.setdefault(shape, build)

    def _pays(self, shape: Size, threads: int) -> bool:
        """Counts threads, and tells whether there were enough for the compiler to be worth its time."""
        asked = self._threads[shape] = self._threads.get(shape, 0) + max(threads, LEAST_THREADS)
        return self._budget is None or asked >= MANY_THREADS

    def _load(self, shape: Size, build: _Build) -> bool:
        """Takes what the disk cache knows, and tells whether it knows anything."""
        try:
            build.code = self.builder.stored(shape)
        except Declined as declined:
            build.reason = str(declined)
        except Exception:  # a damaged entry is one that is not there
            return False
        if build.code is None and not build.reason:
            return False
        build.done.set()
        return True

    def _compile(self, shape: Size, build: _Build) -> None:
        try:
            build.code = self.builder.make(shape)
        except Declined as declined:
            build.reason = str(declined)
        except Exception as failure:  # whatever goes wrong, the kernel runs on its other engine
            build.reason = f"{type(failure).__name__}: {failure}"
        finally:
            build.done.set()

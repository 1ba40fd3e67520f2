"""Which engine runs a kernel: lanes first, flat or fibers where lanes decline or are still being compiled.

The choice depends on the settings, the kernel and the shape of its threadgroups, never on measured times. All engines
give the same bits, so what is cached, and when a compilation ends, changes nothing but speed.
"""

from __future__ import annotations

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
MOST_SHAPES = 32  # of one kernel; each is a shared object that stays loaded


def scalar_engine(asked: EngineChoice, *, checked: bool, waits: Sequence[str]) -> tuple[Engine, dict[str, str]]:
    """Flat or fibers, and why not the other; `waits` are the names through which threads wait for each other."""
    if checked:
        return "fibers", {"flat": "checked mode tells threads apart"}
    if asked == "fibers":
        return "fibers", {"flat": "the settings ask for fibers"}
    if waits:
        return "fibers", {"flat": f"threads wait for each other in {', '.join(waits[:3])}"}
    return "flat", {}


def lanes_refused(asked: EngineChoice, *, checked: bool, samples: bool = False) -> str:
    """Why no launch of a kernel may use lanes; empty if they may."""
    if asked in ("flat", "fibers"):
        return f"the settings ask for {asked}"
    if checked and asked != "lanes":
        return "checked mode runs on fibers unless the settings ask for lanes"
    if samples and asked != "lanes":
        return "sampling textures takes lanes long to compile; the settings can ask for it"
    return ""


def aim(launch: SoftLaunch, code: Executable, shape: Size) -> Engine:
    """Puts the code that runs into a launch; threadgroups at the grid's edge keep that for every shape."""
    lanes = code.lanes.choose(shape) if code.lanes is not None else None
    if lanes is None:
        launch.engine, launch.entry, launch.stack_bytes = ENGINE_NUMBERS[code.engine], code.entry, code.stack_bytes
        return code.engine
    launch.engine, launch.entry = ENGINE_NUMBERS[lanes.engine], lanes.entry
    launch.stack_bytes = max(lanes.stack_bytes, code.stack_bytes)
    launch.edge_engine, launch.edge_entry = ENGINE_NUMBERS[code.engine], code.entry
    return "lanes"


class Builder(Protocol):
    """Makes the lanes code of one kernel; see msl/lanes.py."""

    def stored(self, shape: Size) -> Specialised | None:
        """What the disk cache has; raises Declined where the kernel was declined before."""
        ...

    def make(self, shape: Size) -> Specialised:
        """Compiles and keeps it; raises Declined."""
        ...


@dataclass
class _Build:
    """The lanes code for one shape of threadgroup, or the reason why there is none."""

    deadline: float | None = None
    """Until when launches wait for it; set by the first of them."""
    done: threading.Event = field(default_factory=threading.Event)
    code: Specialised | None = None
    reason: str = ""


class LanesChoice:
    """The lanes code of one kernel, shape by shape.

    The first launch of a shape takes its code from the disk cache or has it compiled. Launches wait for that for
    `budget` seconds, for ever if it is None; then the kernel's other engine serves until the code is there.
    """

    def __init__(self, builder: Builder, *, budget: float | None = BUDGET_S) -> None:
        self.builder = builder
        self._budget = budget
        self._builds: dict[Size, _Build] = {}
        self._lock = threading.Lock()

    def choose(self, shape: Size) -> Specialised | None:
        """The code for a launch; None for the kernel's other engine."""
        build = self._builds.get(shape) or self._begin(shape)
        if not build.done.is_set():
            if build.deadline is None:
                build.deadline = time.monotonic() + (self._budget or 0)
            build.done.wait(build.deadline - time.monotonic())
        return build.code

    def prepare(self, shape: Size) -> None:
        """Begins the compilation for a shape that will be launched, without waiting for it."""
        if shape not in self._builds:
            self._begin(shape)

    def settled(self) -> bool:
        """Whether no launched or prepared shape is still being compiled."""
        return all(build.done.is_set() for build in list(self._builds.values()))

    def declined(self) -> Mapping[str, str]:
        """Why lanes do not run, for each shape where they do not."""
        return {f"lanes {shape}": build.reason for shape, build in list(self._builds.items()) if build.reason}

    def _begin(self, shape: Size) -> _Build:
        with self._lock:
            if shape in self._builds:  # another thread was faster
                return self._builds[shape]
            build = _Build()
            known = sum(other.code is not None for other in self._builds.values())
            if known >= MOST_SHAPES:
                build.reason = f"{MOST_SHAPES} shapes of this kernel are compiled already"
                build.done.set()
            elif not self._load(shape, build):
                if self._budget is None:
                    self._compile(shape, build)
                else:
                    later(lambda: self._compile(shape, build))
            self._builds[shape] = build
            return build

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

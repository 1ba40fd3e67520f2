"""The runtime of isolated devices: helpers run the launches, and a helper that dies fails one command buffer."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import starmap
from operator import call
from pathlib import Path
from typing import Any
from weakref import ref

from ..engines import abi
from ..engines.messages import hand_on
from ..engines.runtime import KernelFault, LaunchTimes, RunResult, Runtime, fault_of
from ..execution.atomic import drop
from .channel import GONE, OVERDUE
from .images import PlacedImage
from .process import Helper, HelperGone
from .space import IMPORT_BYTES, IsolationUnavailable, SharedSpace, shared_space

_VALUES = frozenset({"soft_lane_offset"})  # imports that are read, not called
_SLOT = 16
_One = ctypes.c_uint64 * 2  # the times of a single launch
_byref = ctypes.byref
_MOST_IDLE = 4


class HelperFault(KernelFault):
    """The process that ran a kernel has ended; the next command buffer gets a new one."""

    def __init__(self, kind: str, launch: int) -> None:
        super().__init__(kind, launch, (0, 0, 0), None, 0)
        self.checkable = False
        self.where = "; the process that ran it is gone, the next command buffer gets a new one"


class IsolatedImage:
    """A kernel's image in the helpers."""

    def __init__(self, runtime: IsolatedRuntime, data: bytes) -> None:
        self._runtime = runtime
        self._placed = PlacedImage(data, runtime.space, runtime.slot)

    def address(self, name: str) -> int:
        return self._placed.address(name)

    def call(self, name: str) -> int:
        """Calls a function without arguments, in a helper."""
        user = _User()
        helper = self._runtime.lend(user)
        try:
            answer = helper.call(self._placed.address(name))
        except BaseException:
            helper.end()
            raise
        self._runtime.settle(ref(user), helper)
        return answer

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the image."""
        space = self._runtime.space
        return os.pread(space.code_file, size, address - space.code)


class _User:
    """Who is lent a helper."""

    __slots__ = ("__weakref__",)


class IsolatedCall(_User):
    """A run of launches in a helper, reserved until the call is checked; see RuntimeCall."""

    __slots__ = ("_arguments", "_cause", "_fault", "_helper", "_launches", "_runtime", "times")

    def __init__(
        self,
        runtime: IsolatedRuntime,
        launches: Any,
        count: int,
        deadline_s: float = 0.0,
        threads: int = 0,
        brief: bool = False,
    ) -> None:
        limit_ns = int(deadline_s * 1e9) or 1 if deadline_s > 0 else 0
        self.times = times = _One() if count == 1 else (ctypes.c_uint64 * (2 * count))()
        self._runtime = runtime
        self._launches = launches
        self._fault = fault = abi.Fault()
        self._cause = ""
        self._helper: Helper | None = None
        self._arguments = _byref(launches), count, threads, limit_ns, times, _byref(fault)

    @property
    def call(self) -> tuple[Any, ...]:
        """A function written in C, and its arguments."""
        self._helper = helper = self._runtime.lend(self)
        return *helper.submit, *self._arguments

    def check(self, answer: int) -> None:
        """Hands on the log and gives the helper back; raises KernelFault where a kernel, or the helper, was stopped.

        May be asked for again, by another thread too. A helper in which a kernel was stopped is not used again.
        """
        helper = self._helper
        if helper is None:
            return
        if answer:
            raise self._failure(helper, answer)
        log = helper.log() if helper.channel.log_size else None
        if self._runtime.settle(ref(self), helper) and log is not None:
            hand_on(*log)

    def _failure(self, helper: Helper, answer: int) -> KernelFault:
        mine = self._runtime.settle(ref(self))
        if answer in (GONE, OVERDUE):
            self._cause = self._cause or helper.cause(answer)
            helper.end()
            return HelperFault(self._cause, self._fault.launch)
        if mine and helper.channel.log_size:
            hand_on(*helper.log())
        helper.end()
        return fault_of(self._fault)


class IsolatedRuntime:
    """Runs launches and loads images in helpers, like Runtime; thread-safe."""

    def __init__(self, own: Runtime, space: SharedSpace) -> None:
        self.space = space
        self._own = own
        self._idle: list[Helper] = []
        self._lent: dict[ref[_User], Helper] = {}
        self._spoilt: list[Helper] = []  # to be ended
        self._dropped: deque[ref[_User]] = deque()  # calls that were not made, or nobody asked what came of them
        self._imports: list[tuple[str, int, bool]] = []
        self._slots: dict[str, int] = {}
        self._places = itertools.count()
        self._lock = threading.RLock()
        self.prepare: Callable[..., IsolatedCall] = partial(IsolatedCall, self)
        """A call that runs an array of launches, or a single one; Python's other threads go on meanwhile."""
        atexit.register(self.close)

    def load(self, path: Path) -> IsolatedImage:
        """Places a shared object, which this process does not load."""
        return IsolatedImage(self, path.read_bytes())

    def run(self, launches: Sequence[abi.SoftLaunch], deadline_s: float = 0.0, threads: int = 0) -> RunResult:
        """Runs launches in order and waits; raises KernelFault."""
        count = len(launches)
        prepared = self.prepare((abi.SoftLaunch * count)(*launches), count, deadline_s, threads)
        function, *arguments = prepared.call
        prepared.check(function(*arguments))
        return RunResult(tuple(LaunchTimes(*prepared.times[2 * i : 2 * i + 2]) for i in range(count)))

    def lend(self, user: _User) -> Helper:
        """A helper that is idle, or a new one, until the user settles or is dropped; it has all memory and imports."""
        if self._dropped:
            self.reclaim()
        idle, lent, place = self._idle, self._lent, ref(user, self._dropped.append)
        while idle:
            try:
                helper = idle[-1]
                drop(starmap(call, ((idle.remove, helper), (lent.__setitem__, place, helper))))
            except (IndexError, ValueError):  # another thread was faster
                continue
            if helper.is_idle():
                if not helper.changes and helper.imports == len(self._imports):
                    return helper
                with suppress(HelperGone):
                    helper.bring(self._imports)
                    return helper
            helper.end()
            del lent[place]
        helper = lent[place] = Helper(self.space, self._own.library, self._own.path)
        helper.bring(self._imports)
        return helper

    def reclaim(self) -> None:
        """Takes back what was lent to users that were dropped; ends what somebody left in the middle of something."""
        while self._dropped:
            with suppress(IndexError, KeyError, ValueError):  # another thread was faster
                place = self._dropped[0]
                if place in self._lent:
                    self._take_back(place, self._lent[place])
                while self._spoilt:
                    helper = self._spoilt[-1]
                    helper.end()
                    self._spoilt.remove(helper)
                self._dropped.remove(place)

    def _take_back(self, place: ref[_User], helper: Helper) -> None:
        """Only the thread that ends the loan may end the helper: it may be lent again by now."""
        if helper.channel.fault.kind or not helper.is_idle():
            drop(starmap(call, ((self._lent.pop, place), (self._spoilt.append, helper))))
        else:
            self.settle(place, helper)

    def settle(self, place: ref[_User], idle: Helper | None = None) -> bool:
        """Ends a loan; `idle` is its helper if that may be used again. Answers whether no other thread did."""
        try:
            if idle is None:
                del self._lent[place]
            else:
                drop(starmap(call, ((self._lent.pop, place), (self._idle.append, idle))))
        except KeyError:
            return False
        if len(self._idle) > _MOST_IDLE:
            self._idle.pop(0).end()
        return True

    def slot(self, name: str) -> int:
        """Where kernels find what they import by this name, in every helper."""
        with self._lock:
            if name not in self._slots:
                slot = self.space.imports + _SLOT * next(self._places)
                if slot + _SLOT > self.space.imports + IMPORT_BYTES:
                    raise IsolationUnavailable("kernels import more functions than there are")
                self._slots[name] = slot
                self._imports.append((name, slot, name in _VALUES))
            return self._slots[name]

    def close(self) -> None:
        """Ends all helpers that are idle."""
        while self._idle:
            self._idle.pop().end()

    def let_go(self) -> None:
        """In a forked child: helpers end with the process that started them, whoever else goes on."""
        for helper in (*self._idle, *self._lent.values(), *self._spoilt):
            helper.let_go()


_lock = threading.RLock()
_opened: IsolatedRuntime | None = None


def _let_go() -> None:
    if _opened is not None:
        _opened.let_go()


os.register_at_fork(after_in_child=_let_go)


def isolated_runtime(own: Runtime) -> IsolatedRuntime:
    """The process's runtime for isolated devices."""
    global _opened
    with _lock:
        if _opened is None:
            made = IsolatedRuntime(own, shared_space())
            _opened = _opened or made
        return _opened

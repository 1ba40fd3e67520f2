"""The runtime of isolated devices: helpers run the launches, and a helper that dies fails one command buffer."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import ref

from ..engines import abi
from ..engines.messages import hand_on
from ..engines.runtime import KernelFault, LaunchTimes, RunResult, Runtime, fault_of
from .channel import GONE, LOG_BYTES, OVERDUE
from .images import PlacedImage
from .process import Helper, HelperGone
from .space import IMPORT_BYTES, IsolationUnavailable, SharedSpace, shared_space

_VALUES = frozenset({"soft_lane_offset"})  # imports that are read, not called
_SLOT = 16
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
        helper = self._runtime.take()
        try:
            answer = helper.call(self._placed.address(name))
        except BaseException:
            helper.end()
            raise
        self._runtime.give_back(helper)
        return answer

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the image."""
        space = self._runtime.space
        return os.pread(space.code_file, size, address - space.code)


class IsolatedCall:
    """A run of launches in a helper, reserved until the call is checked; see RuntimeCall."""

    def __init__(self, runtime: IsolatedRuntime, launches: Any, count: int, deadline_s: float, threads: int) -> None:
        limit_ns = max(1, int(deadline_s * 1e9)) if deadline_s > 0 else 0
        self.times = (ctypes.c_uint64 * (2 * count))()
        self._runtime = runtime
        self._fault = abi.Fault()
        self._helper: Helper | None = None
        self._sizes = launches, count, threads, limit_ns

    @property
    def call(self) -> tuple[Any, ...]:
        """A function written in C, and its arguments."""
        self._helper = helper = self._runtime.lend(self)
        submitted: tuple[Any, ...] = helper.submit(*self._sizes, self.times, self._fault)
        return submitted

    def check(self, answer: int) -> None:
        """Hands on the log and gives the helper back; raises KernelFault where a kernel, or the helper, was stopped.

        A helper in which a kernel was stopped is not used again.
        """
        helper, self._helper = self._helper, None
        if helper is None:
            return
        self._runtime.settle(self)
        if answer in (GONE, OVERDUE):
            cause = helper.cause(answer)
            helper.end()
            raise HelperFault(cause, self._fault.launch)
        channel = helper.channel
        if channel.log_size:
            start = ctypes.addressof(channel) + type(channel).log.offset
            hand_on(ctypes.string_at(start, min(channel.log_size, LOG_BYTES)), channel.log_lost)
        if answer:
            helper.end()
            raise fault_of(self._fault)
        self._runtime.give_back(helper)


class IsolatedRuntime:
    """Runs launches and loads images in helpers, like Runtime; thread-safe."""

    def __init__(self, own: Runtime, space: SharedSpace) -> None:
        self.space = space
        self._own = own
        self._idle: list[Helper] = []
        self._lent: dict[ref[IsolatedCall], Helper] = {}
        self._dropped: deque[ref[IsolatedCall]] = deque()  # calls that were not made, or nobody asked what came of them
        self._imports: list[tuple[str, int, bool]] = []
        self._slots: dict[str, int] = {}
        self._lock = threading.Lock()
        atexit.register(self.close)

    def load(self, path: Path) -> IsolatedImage:
        """Places a shared object, which this process does not load."""
        return IsolatedImage(self, path.read_bytes())

    def prepare(
        self, launches: Any, count: int, deadline_s: float = 0.0, threads: int = 0, brief: bool = False
    ) -> IsolatedCall:
        """A call that runs an array of launches, or a single one; Python's other threads go on meanwhile."""
        return IsolatedCall(self, launches, count, deadline_s, threads)

    def run(self, launches: Sequence[abi.SoftLaunch], deadline_s: float = 0.0, threads: int = 0) -> RunResult:
        """Runs launches in order and waits; raises KernelFault."""
        count = len(launches)
        prepared = self.prepare((abi.SoftLaunch * count)(*launches), count, deadline_s, threads)
        function, *arguments = prepared.call
        prepared.check(function(*arguments))
        return RunResult(tuple(LaunchTimes(*prepared.times[2 * i : 2 * i + 2]) for i in range(count)))

    def take(self) -> Helper:
        """A helper that is idle, or a new one; it sees all memory and all imports."""
        while True:
            try:
                helper = self._idle.pop()
            except IndexError:
                break
            try:
                if helper.is_idle():
                    helper.bring(self._imports)
                    return helper
            except HelperGone:
                pass
            helper.end()
        helper = Helper(self.space, self._own.library, self._own.path)
        helper.bring(self._imports)
        return helper

    def lend(self, user: IsolatedCall) -> Helper:
        """A helper for one call, until that is settled or dropped."""
        self.reclaim()
        helper = self._lent[ref(user, self._dropped.append)] = self.take()
        return helper

    def reclaim(self) -> None:
        """Takes back what was lent to calls that were dropped."""
        with suppress(IndexError):
            while self._dropped:
                self.give_back(self._lent.pop(self._dropped.popleft()))

    def settle(self, user: IsolatedCall) -> None:
        """The call looks after its helper itself."""
        self._lent.pop(ref(user), None)

    def give_back(self, helper: Helper) -> None:
        """The helper is idle again, unless somebody left it in the middle of something."""
        if len(self._idle) < _MOST_IDLE and helper.is_idle():
            self._idle.append(helper)
        else:
            helper.end()

    def slot(self, name: str) -> int:
        """Where kernels find what they import by this name, in every helper."""
        with self._lock:
            if name not in self._slots:
                slot = self.space.imports + _SLOT * len(self._slots)
                if slot + _SLOT > self.space.imports + IMPORT_BYTES:
                    raise IsolationUnavailable("kernels import more functions than there are")
                self._slots[name] = slot
                self._imports.append((name, slot, name in _VALUES))
            return self._slots[name]

    def close(self) -> None:
        """Ends all helpers that are idle."""
        while self._idle:
            self._idle.pop().end()


_lock = threading.Lock()
_opened: IsolatedRuntime | None = None


def isolated_runtime(own: Runtime) -> IsolatedRuntime:
    """The process's runtime for isolated devices."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = IsolatedRuntime(own, shared_space())
        return _opened

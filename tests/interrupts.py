"""Raises an exception, or does other work, at each bytecode of a call in turn, to prove that nothing breaks.

`act(state)` is the call under test, `check(state)` asserts that everything still works. CPython itself looks for
signals only after calls, at the start of a function and where a loop goes back. So `with lock:` is safe, although an
exception between its last bytecodes would leave the lock taken. `only_checked=True` raises in those places alone; code
without locks should stand the harder test.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from dis import opname
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Tracer = Callable[[FrameType, str, Any], Any]


_CHECKED = ("CALL", "RESUME", "JUMP_BACKWARD")  # after these CPython looks for signals


class Interrupt(KeyboardInterrupt):
    """What is raised; a class of its own, so that no real Ctrl-C is mistaken for it."""


def _interrupt(where: str) -> None:
    raise Interrupt(where)


class Countdown:
    """Counts the bytecodes of Python files below `inside`; calls `arrive` with the place of number `at`."""

    def __init__(
        self, inside: tuple[Path, ...], at: int, only_checked: bool, arrive: Callable[[str], None] = _interrupt
    ) -> None:
        self._arrive = arrive
        self._inside = tuple(str(path.resolve()) for path in inside)
        self._at = at
        self._only_checked = only_checked
        self._before: dict[int, str] = {}  # the bytecode that each frame ran last
        self._count = 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        if not frame.f_code.co_filename.startswith(self._inside):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and self._counts(frame):
            self._count += 1
            if self._count > self._at and not self.where:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}, bytecode {frame.f_lasti}"
                self._arrive(self.where)
        if event == "return":
            self._before.pop(id(frame), None)
        return self

    def _counts(self, frame: FrameType) -> bool:
        before = self._before.get(id(frame), "")
        self._before[id(frame)] = opname[frame.f_code.co_code[frame.f_lasti]]
        # Code without a line cleans up after `except`; what a tracer raises there keeps the exception before it alive.
        return not self._only_checked or (before.startswith(_CHECKED) and frame.f_lineno is not None)


def _traced(act: Callable[[T], object], state: T, countdown: Countdown) -> bool:
    """Whether the exception came out of `act`."""
    before = sys.gettrace()
    sys.settrace(countdown)
    try:
        act(state)
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _ends(check: Callable[[], object], seconds: float) -> BaseException | None:
    """What `check` raised, run beside the test so that a hang is seen."""
    ends: list[BaseException | None] = []

    def run() -> None:
        try:
            check()
        except BaseException as error:
            ends.append(error)
        else:
            ends.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for _ in range(int(seconds)):  # one after the other, so that a process which was stopped is not blamed for it
        thread.join(1)
    return ends[0] if ends else TimeoutError(f"still not done after {seconds} s:\n{_stacks()}")


def _stacks() -> str:
    """Where each thread is, for a hang that nobody can look at."""
    names = {each.ident: each.name for each in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def raise_at_every_bytecode(
    setup: Callable[[], T],
    act: Callable[[T], object],
    check: Callable[[T], object],
    *,
    inside: Path | tuple[Path, ...],
    only_checked: bool = False,
    step: int = 1,
    seconds: float = 60.0,
    swallowed: Callable[[str], bool] = lambda where: False,
) -> int:
    """Tries each bytecode (each `step`-th) and returns how many were tried; the first failure is raised with its place.

    An exception that does not come out of `act` is a failure, except where `swallowed` allows it, such as in a
    finaliser, where Python itself drops it.
    """
    roots = inside if isinstance(inside, tuple) else (inside,)
    act(setup())  # so that what happens once in a process is done
    tried, at = 0, 0
    while True:
        state, countdown = setup(), Countdown(roots, at, only_checked)
        came_out = _traced(act, state, countdown)
        if not countdown.where:
            return tried
        if not came_out and not swallowed(countdown.where):
            raise AssertionError(f"the exception at {countdown.where} did not come out of the call")
        error = _ends(partial(check, state), seconds)
        if error is not None:
            raise AssertionError(f"after an exception at {countdown.where}: {type(error).__name__}: {error}") from error
        tried, at = tried + 1, at + step


def work_at_every_bytecode(
    setup: Callable[[], T],
    act: Callable[[T], object],
    work: Callable[[], object],
    check: Callable[[T], object],
    *,
    inside: Path | tuple[Path, ...],
    step: int = 1,
    seconds: float = 60.0,
) -> int:
    """Does `work` in the middle of `act`, as a signal handler or a finaliser does; returns in how many places."""
    roots = inside if isinstance(inside, tuple) else (inside,)

    def arrive(_: str) -> None:
        sys.settrace(None)
        work()

    tried = at = 0
    while True:
        countdown = Countdown(roots, at, True, arrive)

        def all_of_it(countdown: Countdown = countdown) -> None:
            state = setup()  # in the thread that acts
            _traced(act, state, countdown)
            check(state)

        error = _ends(all_of_it, seconds)
        if error is not None:
            raise AssertionError(f"with other work at {countdown.where}: {type(error).__name__}: {error}") from error
        if not countdown.where:
            return tried
        tried, at = tried + 1, at + step

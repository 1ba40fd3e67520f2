"""Raises an exception at each bytecode of a call in turn, to prove that none of them leaves a broken state behind.

def act(state): ...      # the call under test, in the calling thread
def check(state): ...    # asserts that everything still works; must end within `seconds`

raise_at_every_bytecode(setup, act, check, inside=Path("mlx_native_py/softmetal"))
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
Tracer = Callable[[FrameType, str, Any], Any]


class Interrupt(KeyboardInterrupt):
    """What is raised; a class of its own, so that no real Ctrl-C is mistaken for it."""


class _Countdown:
    """Counts the bytecodes of Python files below `inside`; raises at the one with number `at`."""

    def __init__(self, inside: tuple[Path, ...], at: int | None) -> None:
        self._inside = tuple(str(path.resolve()) for path in inside)
        self._at = at
        self.count = 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Tracer | None:
        if not frame.f_code.co_filename.startswith(self._inside):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            if self.count == self._at:
                self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}, bytecode {frame.f_lasti}"
                self.count += 1
                raise Interrupt(self.where)
            self.count += 1
        return self


def _traced(act: Callable[[T], object], state: T, countdown: _Countdown) -> bool:
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


def _ends(check: Callable[[T], object], state: T, seconds: float) -> BaseException | None:
    """What `check` raised, run beside the test so that a hang is seen."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            check(state)
        except BaseException as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else TimeoutError(f"still not done after {seconds} s")


def raise_at_every_bytecode(
    setup: Callable[[], T],
    act: Callable[[T], object],
    check: Callable[[T], object],
    *,
    inside: Path | tuple[Path, ...],
    step: int = 1,
    seconds: float = 5.0,
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
        state, countdown = setup(), _Countdown(roots, at)
        came_out = _traced(act, state, countdown)
        if not countdown.where:
            return tried
        if not came_out and not swallowed(countdown.where):
            raise AssertionError(f"the exception at {countdown.where} did not come out of the call")
        error = _ends(check, state, seconds)
        if error is not None:
            raise AssertionError(f"after an exception at {countdown.where}: {error!r}") from error
        tried, at = tried + 1, at + step

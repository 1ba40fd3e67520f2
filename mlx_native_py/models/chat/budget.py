"""The steps that a chat template may take, and what values cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["Budget", "BudgetExceeded", "ENTRIES", "TemplateLimits", "current", "running", "size_of"]

ENTRIES = 4  # list entries passed on per step
_MOST_GIVEN = 1 << 28  # characters of the messages that are counted


@dataclass(frozen=True)
class TemplateLimits:
    """Limits of a template."""

    source: int = 1 << 16
    """Characters of the template."""
    words: int = 6_000
    """Words and signs within its tags; the time and memory to read it are proportional."""
    weight: int = 4_000
    """Its expressions and statements, weighted by what they cost to compile."""
    steps: int = 20_000
    """Loop iterations, calls and new values, besides those for the messages."""
    characters: int = 32
    """Characters per step; steps x characters is also the longest prompt."""
    seconds: float = 0.25
    """Processor time for `steps`; more steps get more in proportion."""
    times: int = 64
    """How often it may go through the messages: steps for each `characters` of them."""


class BudgetExceeded(Exception):
    """The budget is used up."""


class Budget:
    """The remaining steps."""

    def __init__(self, limits: TemplateLimits, given: Any) -> None:
        worth = size_of(given, _MOST_GIVEN) // limits.characters
        self.limits = limits
        self._left = limits.steps + limits.times * worth
        self._end = time.thread_time() + limits.seconds * self._left / limits.steps

    @property
    def most(self) -> int:
        """The characters that the remaining steps pay for."""
        return self._left * self.limits.characters

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise BudgetExceeded("takes too many steps")
        if time.thread_time() > self._end:
            raise BudgetExceeded("takes too long")

    def pay(self, value: Any, *, deep: bool = False) -> Any:
        """Charges for a value by its length, or by its full size if `deep`; returns the value."""
        if deep or isinstance(value, (str, bytes, int)):
            self.spend(1 + size_of(value, self.most) // self.limits.characters)
        else:
            self.spend(1 + (len(value) // ENTRIES if isinstance(value, (list, tuple, dict)) else 0))
        return value


current: ContextVar[Budget] = ContextVar("mlx_native_py_chat_budget")


@contextmanager
def running(limits: TemplateLimits, given: Any) -> Iterator[Budget]:
    """A block in which templates may run, on what they are given."""
    budget = Budget(limits, given)
    token = current.set(budget)
    try:
        yield budget
    finally:
        current.reset(token)


def size_of(value: Any, most: int) -> int:
    """Characters of a value written out, counted up to `most`; an entry costs a step."""
    total, waiting = 0, [value]
    while waiting and total <= most:
        each = waiting.pop()
        if isinstance(each, (str, bytes)):
            total += len(each)
        elif isinstance(each, dict):
            total += len(each) * TemplateLimits.characters
            waiting += [*each.keys(), *each.values()]
        elif isinstance(each, (list, tuple)):
            total += len(each) * TemplateLimits.characters
            waiting += each
        elif isinstance(each, int):
            total += each.bit_length() // 3
    return total

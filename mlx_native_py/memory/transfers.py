"""Transfers from and to other processes that are under way: whoever uses their memory next waits for them.

A command buffer waits when it is submitted, so that it can be encoded meanwhile; the CPU waits when it reads.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import Lock, get_ident
from typing import Protocol

from ..hazards.ranges import Memory

__all__ = ["UnderWay", "begin", "end", "thread", "under_way", "wait_for"]


class UnderWay(Protocol):
    """What is under way: the allocations that it reads or writes, and how to wait for it."""

    @property
    def allocations(self) -> frozenset[object]: ...

    def wait(self) -> object: ...


under_way: tuple[UnderWay, ...] = ()
"""Those that are not done, in the order in which they began; empty for most programs at most times."""

_changing = Lock()
thread = 0
"""The thread that runs them, which must not wait for them."""


def wait_for(allocations: Collection[object]) -> None:
    """Returns when none of them is in a transfer; raises the error of one that failed."""
    if get_ident() == thread:
        return
    for each in under_way:
        if Memory.any_aliases or not each.allocations.isdisjoint(allocations):
            each.wait()


def begin(transfer: UnderWay) -> None:
    """Its memory is waited for from now on."""
    global under_way
    with _changing:
        under_way = (*under_way, transfer)


def end(transfer: UnderWay) -> None:
    """It is done, and somebody knows how it ended."""
    global under_way
    with _changing:
        under_way = tuple(each for each in under_way if each is not transfer)

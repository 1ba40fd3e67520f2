"""Background transfers between processes, and waiting for those that use given memory.

A command buffer waits when it is submitted, so that it can be encoded meanwhile; the CPU waits when it reads.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import get_ident
from typing import Protocol

from ..forks import Lock
from ..hazards.ranges import Memory

__all__ = ["UnderWay", "begin", "end", "thread", "under_way", "wait_for"]


class UnderWay(Protocol):
    """A pending transfer: the allocations it uses, and how to wait for it."""

    @property
    def allocations(self) -> frozenset[object]: ...

    def wait(self) -> object: ...


under_way: tuple[UnderWay, ...] = ()
"""Pending transfers in the order they began; usually empty."""

_changing = Lock()
thread = 0
"""The thread that runs transfers, which must not wait for them."""


def wait_for(allocations: Collection[object]) -> None:
    """Waits until no transfer uses the allocations; raises the error of one that failed."""
    if get_ident() == thread:
        return
    for each in under_way:
        if Memory.any_aliases or not each.allocations.isdisjoint(allocations):
            each.wait()


def begin(transfer: UnderWay) -> None:
    """Registers a transfer as pending."""
    global under_way
    with _changing:
        under_way = (*under_way, transfer)


def end(transfer: UnderWay) -> None:
    """Removes a transfer whose outcome has been reported."""
    global under_way
    with _changing:
        under_way = tuple(each for each in under_way if each is not transfer)

"""The tool that raises at every bytecode finds what it is meant to find."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from interrupts import raise_at_every_bytecode

HERE = Path(__file__)


class Account:
    """Two numbers that should agree."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.left = self.right = 0

    def torn(self) -> None:
        self.left += 1
        self.right += 1

    def locked(self) -> None:
        with self.lock:
            self.left += 1

    def whole(self) -> None:
        self.left = self.left + 1

    def swallowing(self) -> None:
        try:
            self.whole()
        except BaseException:
            self.left = 0

    def agrees(self) -> None:
        assert self.left == self.right

    def is_free(self) -> None:
        assert self.lock.acquire(timeout=0.1)
        self.lock.release()


def test_a_torn_state_is_found_with_its_place() -> None:
    with pytest.raises(AssertionError, match=r"Account\.torn:\d+, bytecode"):
        raise_at_every_bytecode(Account, Account.torn, Account.agrees, inside=HERE)


def test_a_swallowed_exception_is_found() -> None:
    with pytest.raises(AssertionError, match="did not come out"):
        raise_at_every_bytecode(Account, Account.swallowing, Account.is_free, inside=HERE)


def test_a_check_that_hangs_is_found() -> None:
    with pytest.raises(AssertionError, match="still not done"):
        raise_at_every_bytecode(
            Account, Account.whole, lambda _: threading.Event().wait(2), inside=HERE, seconds=0.05, step=100
        )


def test_a_lock_is_safe_where_python_looks_for_signals() -> None:
    assert raise_at_every_bytecode(Account, Account.locked, Account.is_free, inside=HERE, only_checked=True) > 0
    with pytest.raises(AssertionError, match="Account.locked"):
        raise_at_every_bytecode(Account, Account.locked, Account.is_free, inside=HERE)


def test_what_holds_is_tried_everywhere() -> None:
    assert raise_at_every_bytecode(Account, Account.whole, Account.is_free, inside=HERE) > 5

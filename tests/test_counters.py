"""Counters: exact, thread-safe, in scopes, and untouched by each other's resets."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interrupts import raise_at_every_bytecode, work_at_every_bytecode

import mlx_native_py as mlx
from mlx_native_py import counters

GETTERS = {
    "dispatches": mlx.dispatch_count,
    "syncs": mlx.sync_count,
    "cmd_bufs": mlx.cmd_buf_count,
    "barriers": mlx.barrier_count,
    "barrier_ns": mlx.barrier_total_ns,
    "auto_barriers": mlx.auto_barrier_count,
    "auto_concurrent": mlx.auto_barrier_concurrent_count,
}


@pytest.fixture
def brisk_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("name", GETTERS)
def test_each_getter_reads_its_own_figure(name: str) -> None:
    before = {other: getter() for other, getter in GETTERS.items()}
    counters.add(**{name: 3})
    assert {other: getter() - before[other] for other, getter in GETTERS.items()} == {
        other: 3 * (other == name) for other in GETTERS
    }


def test_reset_zeroes_all_seven() -> None:
    counters.add(**dict.fromkeys(GETTERS, 5))
    mlx.reset_counters()
    assert [getter() for getter in GETTERS.values()] == [0] * 7
    counters.add(syncs=1)
    assert mlx.sync_count() == 1


def test_a_scope_reads_during_and_after() -> None:
    with counters.scope() as c:
        counters.mine().dispatches += 1
        assert c.dispatches == 1
        with counters.scope() as inner:
            counters.add(dispatches=2, barriers=1)
        assert (c.dispatches, inner.dispatches, inner.barriers) == (3, 2, 1)
    counters.add(dispatches=10)
    assert (c.dispatches, c.tally.barriers, inner.dispatches) == (3, 1, 2)
    assert "dispatches=3" in repr(c)
    with pytest.raises(AttributeError, match="there are: dispatches, syncs"):
        _ = c.dispatch


def test_a_reset_does_not_touch_scopes() -> None:
    with counters.scope() as c:
        counters.add(syncs=2)
        mlx.reset_counters()
        counters.add(syncs=1)
    assert (c.syncs, mlx.sync_count()) == (3, 1)


def test_a_scope_ends_with_an_exception() -> None:
    with pytest.raises(KeyError), counters.scope() as c:
        counters.add(dispatches=1)
        raise KeyError
    counters.add(dispatches=1)
    assert c.dispatches == 1


def test_threads_lose_nothing(brisk_switching: None) -> None:
    threads, times = 8, 5000
    scopes: list[counters.Scope] = []

    def work() -> None:
        with counters.scope() as c:
            tally = counters.mine()
            for _ in range(times):
                tally.dispatches += 1
                tally.barriers += 2
        scopes.append(c)

    with counters.scope(all_threads=True) as everyone, counters.scope() as me:
        before = mlx.dispatch_count()
        started = [threading.Thread(target=work) for _ in range(threads)]
        for thread in started:
            thread.start()
        for _ in range(50):
            assert mlx.dispatch_count() >= before
        for thread in started:
            thread.join()
    assert mlx.dispatch_count() - before == everyone.dispatches == threads * times
    assert everyone.barriers == 2 * threads * times
    assert [c.dispatches for c in scopes] == [times] * threads
    assert me.dispatches == 0


def test_figures_outlive_their_threads_and_the_list_stays_short() -> None:
    before, live = mlx.sync_count(), len(counters._live)
    for _ in range(50):
        thread = threading.Thread(target=counters.add, kwargs={"syncs": 1})
        thread.start()
        thread.join()
    gc.collect()
    assert mlx.sync_count() - before == 50
    assert len(counters._live) <= live + 1


class Encoder:
    """Something that counts."""

    def __init__(self, dispatches: int = 1) -> None:
        self.tally = counters.Tally(dispatches=dispatches)
        counters.open_tally(self, self.tally)


def _ended_threads() -> int:
    """Counts in threads that end before anybody adds them up, and in more encoders than are counted separately."""
    before = mlx.dispatch_count()
    for _ in range(3):
        thread = threading.Thread(target=counters.add, kwargs={"dispatches": 10})
        thread.start()
        thread.join()
    for _ in range(counters._MAX_ENCODERS):
        Encoder()
    return before


@pytest.mark.parametrize("act", [mlx.dispatch_count, Encoder], ids=["add up", "open an encoder"])
def test_a_finaliser_or_signal_handler_may_count_and_add_up_inside(act: Any) -> None:
    kept: list[Encoder] = []

    def work() -> None:
        kept.append(Encoder(1000))
        Encoder(100)
        mlx.dispatch_count()

    def check(before: int) -> None:
        own = act is Encoder
        assert mlx.dispatch_count() - before == 30 + counters._MAX_ENCODERS + own + (1100 if kept else 0)
        kept.clear()

    assert work_at_every_bytecode(_ended_threads, lambda _: act(), work, check, inside=Path(counters.__file__)) > 20


def test_a_finaliser_of_garbage_may_count_inside() -> None:
    before = _ended_threads()
    kept: list[Encoder] = []

    class Garbage:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            kept.append(Encoder(1000))

    here, limits = counters._here(), gc.get_threshold()
    gc.disable()
    try:
        for number in range(1, 100):  # allocations until garbage is collected
            gc.collect()
            Garbage()
            gc.set_threshold(number, 1000, 1000)
            gc.enable()
            here.fold()
            gc.disable()
    finally:
        gc.set_threshold(*limits)
        gc.enable()
    gc.collect()
    assert mlx.dispatch_count() - before == 30 + counters._MAX_ENCODERS + 1000 * len(kept) and kept


def test_an_exception_inside_leaves_the_figures_right() -> None:
    def check(before: int) -> None:
        assert mlx.dispatch_count() - before == 30 + counters._MAX_ENCODERS

    inside = Path(counters.__file__)
    act = lambda _: mlx.dispatch_count()  # noqa: E731
    assert raise_at_every_bytecode(_ended_threads, act, check, inside=inside, only_checked=True) > 20


def test_tallies_add_and_subtract() -> None:
    one, two = counters.Tally(dispatches=3, barrier_ns=7), counters.Tally(dispatches=1)
    assert one + two == counters.Tally(dispatches=4, barrier_ns=7)
    assert one - two == counters.Tally(dispatches=2, barrier_ns=7)

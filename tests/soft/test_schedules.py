"""`device.schedules`: passes in many orders, compared bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice, Out, settings
from mlx_native_py.errors import InvalidArgument, MissingBarrierError, OrderDependenceError
from mlx_native_py.softmetal.execution.repeating import orders

pytestmark = pytest.mark.soft
SOURCE = """
kernel void twice(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = 2 * x[i]; }
kernel void add(device float *y, uint i [[thread_position_in_grid]]) { y[i] = y[i] + 1; }
kernel void last(device float *y, uint g [[threadgroup_position_in_grid]]) { y[0] = g; }
kernel void chain(device float *y, uint i [[thread_position_in_grid]]) { y[i + 1] = y[i] + 1; }
"""
N = 256


@pytest.fixture(scope="module", params=["auto", "lanes", "fibers"])
def device(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    with settings.override(soft_engine=request.param, soft_checked=False, soft_schedule="ordered"):
        with MlxDevice("soft") as opened:
            yield opened


@pytest.fixture(scope="module")
def library(device: MlxDevice) -> Any:
    return device.compile(SOURCE)


def test_what_has_its_barriers_is_the_same_in_every_order(device: MlxDevice, library: Any) -> None:
    x, y = device.buffer(np.arange(N, dtype=np.float32)), device.zeros(N)
    with device.schedules(16) as runs:
        with device.command_encoder() as enc:
            enc.dispatch(library.twice.pipeline, x, Out(y), threads=N, group=32)
            enc.dispatch(library.add.pipeline, y, threads=N, group=32)
        assert y.numpy().tolist() == [2.0 * i + 1 for i in range(N)]
        y.numpy()[:] = 0
        with device.command_encoder() as enc:
            enc.dispatch(library.add.pipeline, y, threads=N, group=32)
    assert (runs.orders, runs.passes) == (16, 2)
    assert repr(runs) == "<ScheduledRuns: 2 passes in 16 orders>"
    assert set(y.numpy().tolist()) == {1.0}


@pytest.mark.parametrize("kernel", ["last", "chain"])
def test_threadgroups_in_another_order(device: MlxDevice, library: Any, kernel: str) -> None:
    y = device.zeros(N + 1, label="the result")
    with pytest.raises(OrderDependenceError, match="buffer 'the result' differ"):
        with device.schedules(4), device.command_encoder() as enc:
            enc.dispatch(getattr(library, kernel).pipeline, y, threads=N, group=32)


def test_memory_without_a_label_is_told_by_its_argument(device: MlxDevice, library: Any) -> None:
    numbers = np.zeros(N, np.float32)
    with pytest.raises(OrderDependenceError, match=r"'reversed', \d bytes? of argument '\w+' of 'last' differ"):
        with device.schedules(4):
            library.last(numbers, threads=N, group=32)


@pytest.mark.parametrize("serial", [False, True], ids=["concurrent", "serial"])
@pytest.mark.parametrize("indirect", [False, True], ids=["straight", "indirect"])
def test_threadgroups_of_plans_in_another_order(device: MlxDevice, library: Any, indirect: bool, serial: bool) -> None:
    y = device.zeros(N)
    with device.capture() as graph:
        graph.encoder.dispatch(library.last.pipeline, y, threads=N, group=32)
    plan = graph.plan(indirect=indirect)
    with settings.override(force_serial_dispatch=serial):
        for _ in range(3):
            plan.run()
        with pytest.raises(OrderDependenceError, match="'last'"), device.schedules(3):
            plan.run()
        y.numpy()[:] = 0
        plan.run()
    assert y.numpy()[0] == N // 32 - 1, "the usual order again"


def test_dispatches_in_another_order(device: MlxDevice, library: Any) -> None:
    x, y = device.buffer(np.arange(N, dtype=np.float32)), device.zeros(N)
    with pytest.raises(OrderDependenceError, match="'add', 'twice'"):
        with device.schedules(2), device.command_encoder(auto_barrier=False) as enc:
            enc.dispatch(library.twice.pipeline, x, Out(y), threads=N, group=32)
            enc.dispatch(library.add.pipeline, y, threads=N, group=32)
    assert y.numpy().tolist() == [2.0 * i + 1 for i in range(N)], "the first run's"


def test_who_does_not_wait_hears_of_it_at_the_end(device: MlxDevice, library: Any) -> None:
    y = device.zeros(N)
    with pytest.raises(OrderDependenceError):
        with device.schedules(3):
            enc = device.command_encoder()
            enc.dispatch(library.last.pipeline, y, threads=N, group=32)
            enc.commit()


def test_outside_of_the_block_nothing_is_repeated(device: MlxDevice, library: Any) -> None:
    with device.schedules(16) as runs:
        pass
    with device.command_encoder() as enc:
        enc.dispatch(library.last.pipeline, device.zeros(N), threads=N, group=32)
    assert runs.passes == 0


def test_a_missing_barrier_says_more() -> None:
    with settings.override(soft_checked=True), MlxDevice("soft") as checked:
        library = checked.compile(SOURCE)
        x, y = checked.zeros(N), checked.zeros(N)
        with pytest.raises(MissingBarrierError), checked.schedules(4):
            with checked.command_encoder(auto_barrier=False) as enc:
                enc.dispatch(library.twice.pipeline, x, Out(y), threads=N, group=32)
                enc.dispatch(library.add.pipeline, y, threads=N, group=32)


def test_a_count_is_a_count(device: MlxDevice) -> None:
    with pytest.raises(InvalidArgument, match="count"), device.schedules(0):
        pass
    assert orders(1) == ("ordered",) and orders(3) == ("ordered", "reversed", "shuffled:1")

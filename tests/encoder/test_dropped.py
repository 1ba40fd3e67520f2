"""Dropping things runs no Python code, in which CPython would lose a Ctrl-C, and with it what was to be done."""

from __future__ import annotations

import ctypes
import gc
import mmap
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice
from mlx_native_py.softmetal.execution.atomic import one_step

pytestmark = pytest.mark.soft
SOURCE = "kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"
_raise = ctypes.CDLL(None)["raise"]  # unlike signal.raise_signal, it leaves the signal pending


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice("soft") as device:
        yield device


@pytest.fixture(scope="module")
def kernel(device: MlxDevice) -> Any:
    return device.compile(SOURCE).count


def unused(device: MlxDevice, _: Any) -> list[Any]:
    return [device.empty(1000)]


def used(device: MlxDevice, kernel: Any) -> list[Any]:
    x = device.zeros(8, "u32")
    with device.command_encoder() as enc:
        enc.dispatch(kernel.pipeline, x, threads=8)
    return [x]


def view_and_array(device: MlxDevice, _: Any) -> list[Any]:
    x = device.empty(1000)
    return [x[:500], x.numpy()]


def over_memory(device: MlxDevice, _: Any) -> list[Any]:
    pages = np.frombuffer(mmap.mmap(-1, 1 << 16), np.uint8)
    return [device.buffer(pages, copy=False)]


def lent(device: MlxDevice, _: Any) -> list[Any]:
    pool = device.buffer_pool()
    x = pool.alloc(32, "u32", 8)
    return [x, pool]


def texture(device: MlxDevice, _: Any) -> list[Any]:
    return [device.texture(np.zeros((4, 4), np.uint32))]


def committed(device: MlxDevice, kernel: Any) -> list[Any]:
    enc = device.command_encoder()
    enc.dispatch(kernel.pipeline, device.zeros(8, "u32"), threads=8)
    enc.commit_and_wait()
    return [enc, enc.ticket]


def called(device: MlxDevice, kernel: Any) -> list[Any]:
    x = device.zeros(8, "u32")
    return [kernel(x), kernel(x), x]


def graph_and_plan(device: MlxDevice, kernel: Any) -> list[Any]:
    x = device.zeros(8, "u32")
    with device.capture() as graph:
        graph.encoder.dispatch(kernel.pipeline, x, threads=8)
    plan = graph.plan()
    plan.run()
    return [graph, plan, x]


def session(device: MlxDevice, kernel: Any) -> list[Any]:
    with device.encoder_session() as session:
        session.encoder().dispatch(kernel.pipeline, device.zeros(8, "u32"), threads=8)
    return [session]


def opened(_: MlxDevice, kernel: Any) -> list[Any]:
    other = MlxDevice("soft")
    other.compile(SOURCE).count(other.zeros(8, "u32"))
    return [other]


KINDS: list[Callable[..., list[Any]]] = [
    unused,
    used,
    view_and_array,
    over_memory,
    lent,
    texture,
    committed,
    called,
    graph_and_plan,
    session,
]
KINDS += [opened]


def calls_inside(act: Callable[[], object]) -> list[str]:
    """The functions written in Python that run meanwhile, but for those of this file."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename != __file__:
            seen.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("make", KINDS, ids=lambda each: each.__name__)
def test_dropping_runs_no_python_code(device: MlxDevice, kernel: Any, make: Any) -> None:
    held = make(device, kernel)
    gc.collect()

    others, gc.callbacks[:] = gc.callbacks[:], []  # of Hypothesis

    def drop() -> None:
        held.clear()
        gc.collect()

    assert calls_inside(drop) == []
    gc.callbacks[:] = others


@pytest.mark.parametrize("make", KINDS, ids=lambda each: each.__name__)
def test_ctrl_c_while_something_is_dropped_is_not_lost(
    device: MlxDevice, kernel: Any, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.object))
    held = make(device, kernel)
    gc.collect()
    others, gc.callbacks[:] = gc.callbacks[:], []  # of Hypothesis, in which an interrupt would be lost
    with pytest.raises(KeyboardInterrupt):
        one_step((_raise, signal.SIGINT), (held.clear,), (gc.collect,))
    gc.callbacks[:] = others
    assert lost == []

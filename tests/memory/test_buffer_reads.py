"""The CPU reads what kernels wrote: reads wait for work in flight that writes those bytes, and for no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from mlx_native_py import CommandBufferError, MlxBuffer, MlxDevice

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void hold(device atomic_uint *stop, device float *y, uint i [[thread_position_in_grid]]) {
  while (atomic_load_explicit(stop, memory_order_relaxed) == 0) {}
  y[i] = 7;
}
kernel void look(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void wreck(device uint *x, uint i [[thread_position_in_grid]]) { while (x[i] == 0) { x[1] = x[0]; } }
"""


class Held:
    """A kernel in flight that writes 7 to `y` once it is let go."""

    def __init__(self, device: MlxDevice) -> None:
        self.device = device
        self.lib = device.compile(SOURCE)
        self.stop, self.y = device.zeros(1, "u32"), device.zeros(8)
        self.lib.hold(self.stop, self.y[:4], threads=4, wait=False)
        self.ticket = next(iter(device.submissions._in_flight))

    def let_go(self) -> None:
        self.stop.numpy(wait=False)[0] = 1

    def let_go_soon(self) -> threading.Timer:
        timer = threading.Timer(0.1, self.let_go)
        timer.start()
        return timer


@pytest.fixture
def held(device: MlxDevice) -> Iterator[Held]:
    holding = Held(device)
    yield holding
    holding.let_go()
    holding.ticket.wait()


def test_a_read_waits_for_the_writer(held: Held) -> None:
    assert held.y.numpy(wait=False)[0] == 0 and not held.ticket.done()
    timer = held.let_go_soon()
    assert held.y.numpy()[:4].tolist() == [7] * 4
    timer.join()


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y.tolist()[0],
        lambda y: float(y[0]),
        lambda y: np.asarray(y)[0],
        lambda y: np.from_dlpack(y)[0],
        lambda y: np.frombuffer(y.to_bytes(), np.float32)[0],
        lambda y: (y + 0).numpy()[0],
        lambda y: y[0].item(),
    ],
)
def test_every_way_to_read_waits(held: Held, read: object) -> None:
    timer = held.let_go_soon()
    assert read(held.y) == 7  # type: ignore[operator]
    timer.join()


def test_other_bytes_and_memory_that_is_only_read_do_not_wait(held: Held, device: MlxDevice) -> None:
    assert held.y[4:].numpy().tolist() == [0] * 4
    x, z = device.ones(4), device.zeros(4)
    held.lib.look(x, z, wait=False)
    assert x.numpy().tolist() == [1] * 4 and not held.ticket.done()


def test_a_repr_does_not_wait_and_says_so(held: Held) -> None:
    assert repr(held.y) == "MlxBuffer(f32[8], 32 bytes, in flight)"
    assert "<table>" not in held.y._repr_html_() and not held.ticket.done()
    held.let_go()
    held.ticket.wait()
    assert repr(held.y) == "MlxBuffer(f32[8], 32 bytes: 7, 7, 7, ..., 0)"


def test_uncommitted_work_is_not_waited_for(device: MlxDevice) -> None:
    y, lib = device.zeros(4), device.compile(SOURCE)
    enc = device.command_encoder()
    enc.dispatch(lib.look, device.ones(4), y, threads=4)
    assert y.tolist() == [0] * 4
    enc.commit_and_wait()
    assert y.tolist() == [1] * 4


def test_memory_under_two_buffers(held: Held, device: MlxDevice) -> None:
    import mmap

    pages = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.float32)
    one, other = device.buffer(pages, copy=False), device.buffer(pages, copy=False)
    held.lib.hold(held.stop, one[:4], threads=4, wait=False)
    timer = held.let_go_soon()
    assert other.numpy()[:4].tolist() == [7] * 4
    timer.join()


@pytest.mark.soft
def test_the_error_of_the_writer_is_raised() -> None:
    from kit.encoding import soft_device

    with soft_device(watchdog_seconds=0.2) as device:
        x: MlxBuffer = device.zeros(2, "u32")
        device.compile(SOURCE).wreck(x, threads=1, wait=False)
        begin = time.monotonic()
        with pytest.raises(CommandBufferError, match="wreck"):
            x.numpy()
        assert time.monotonic() - begin < 60

"""The short way of a synchronous call does what an encoder does: results, counters, refusals, errors, order."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest

from mlx_native_py import (
    CommandBufferError,
    DType,
    InvalidArgument,
    MlxDevice,
    MlxError,
    Out,
    counters,
    fast,
    fn,
    settings,
)
from mlx_native_py.encoder import synchronous
from mlx_native_py.memory import recycler
from mlx_native_py.memory.signature import signature_of

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void plus(device float *y, device const float *x, uint i [[thread_position_in_grid]]) { y[i] += x[i]; }
kernel void axpy(device float *y, device const float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void reversed(device const float *x, device float *out, threadgroup float *room,
                     uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  room[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = room[n - 1 - i];
}
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that gets what each call by the short way answers."""
    answers: list[Any] = []
    run = synchronous._run_alone

    def watched(*given: Any) -> Any:
        answers.append(run(*given))
        return answers[-1]

    monkeypatch.setattr(synchronous, "_run_alone", watched)
    return answers


def takes_short_way(device: MlxDevice) -> bool:
    """Checked mode is told of each dispatch, by an encoder."""
    return device.backend.declare is None


def test_results_and_counters_are_those_of_an_encoder(device: MlxDevice, short: list[Any]) -> None:
    plus, x, y = device.compile(SOURCE).plus, device.ones(64), device.zeros(64)
    tallies = []
    for _ in range(3):
        with counters.scope() as counted:
            ticket = plus(y, x)
        tallies.append(counted.tally)
        assert ticket.done() and [each.pipeline.name for each in ticket.dispatches] == ["plus"] and ticket.gpu_time >= 0
        assert ticket.label == "plus"
    # The first launch of a shape is planned by an encoder.
    assert [each is not None for each in short] == [takes_short_way(device)] * 2
    assert tallies[0] == tallies[1] == tallies[2] and tallies[0].dispatches == tallies[0].syncs == 1
    np.testing.assert_array_equal(y.numpy(), 3.0)


def test_threadgroup_memory_groups_and_marks(device: MlxDevice, short: list[Any]) -> None:
    kernel, x = device.compile(SOURCE).reversed, device.buffer(np.arange(32, dtype=np.float32))
    for _ in range(2):
        out = device.zeros(32)
        kernel(x, Out(out), threadgroups=1, group=32, shared=(128,))
        np.testing.assert_array_equal(out.numpy(), np.arange(31.0, -1.0, -1.0))
    if takes_short_way(device):
        assert len(short) == 1 and short[0].writes(out.span) and not short[0].writes(x.span)


def test_what_an_encoder_refuses_is_refused(device: MlxDevice, short: list[Any]) -> None:
    plus, x, y = device.compile(SOURCE).plus, device.ones(64), device.zeros(64)
    plus(y, x)
    pool = device.buffer_pool()
    lent = pool.alloc(256, "f32", 64)
    pool.release(lent)
    for given, problem in (
        ((lent, x), "was returned to its pool"),
        ((y, "2"), "not a value for a float"),
        ((y, None), "is None"),
    ):
        with pytest.raises(MlxError, match=problem):
            plus(*given, threads=64)
    assert repr(device.submissions) == "<Submissions: 0 open, 0 in flight>"
    np.testing.assert_array_equal(y.numpy(), 1.0)


@pytest.mark.soft
def test_a_buffer_of_another_device_is_refused(device: MlxDevice) -> None:
    plus, y = device.compile(SOURCE).plus, device.zeros(64)
    plus(y, device.ones(64))
    with MlxDevice("soft") as other, pytest.raises(InvalidArgument, match="another device"):
        plus(y, other.ones(64))


@pytest.mark.soft
def test_numbers_travel_with_the_command(device: MlxDevice, short: list[Any]) -> None:
    axpy, y = device.compile(SOURCE).axpy, device.zeros(64)
    for number in (2.0, 3, np.float32(4.0), b"\0\0\x80\x3f"):
        axpy(y, device.ones(64), number)
    np.testing.assert_array_equal(y.numpy(), 10.0)
    inline = takes_short_way(device) and not device.backend.parameter_arena
    assert [each is not None for each in short] == [inline, False, inline]
    with pytest.raises(InvalidArgument, match="holds values of 4 bytes"):
        axpy(y, device.ones(64), b"\0")


@pytest.mark.soft
def test_errors_of_the_device_are_raised(device: MlxDevice) -> None:
    wild = """kernel void wild(device float *x, device uint *far, uint i [[thread_position_in_grid]]) {
      if (!i) x[far[0]] = 1;
    }"""
    kernel, x = device.compile(wild).wild, device.zeros(16)
    near, far = (device.buffer([at], "u32") for at in (1, 1 << 30))
    kernel(x, near)
    with pytest.raises(CommandBufferError, match="wild"):
        kernel(x, far)
    kernel(x, near)


def test_profiles_see_every_call(device: MlxDevice, short: list[Any]) -> None:
    plus, x, y = device.compile(SOURCE).plus, device.ones(64), device.zeros(64)
    plus(y, x)
    with settings.override(profile_cb=True):
        plus(y, x)
    assert short == [None]


def test_calls_of_several_threads_at_once(device: MlxDevice) -> None:
    axpy, x = device.compile(SOURCE).axpy, np.ones(65, np.float32)[1:]
    results = [np.zeros(65, np.float32)[1:] for _ in range(4)]

    def work(y: Any) -> None:
        for _ in range(50):
            axpy(y, x, 1.0)

    threads = [threading.Thread(target=work, args=(y,)) for y in results]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert all((y == 50).all() for y in results)


def test_results_that_were_dropped_serve_again(device: MlxDevice) -> None:
    x = np.arange(65, dtype=np.float32)[1:]
    places = set()
    for _ in range(12):
        result = fn.add(x, x, stream=device)
        assert np.array_equal(result.numpy(), 2 * x)
        places.add(result.start)
        del result
    assert len(places) < 6
    held = [fn.add(x, x, stream=device) for _ in range(12)]
    assert len({each.start for each in held}) == 12
    array = held[0].numpy()
    held.clear()
    for _ in range(20):
        fn.multiply(fn.add(x, x, stream=device), 0.0)
    assert np.array_equal(array, 2 * x), "an array over a result keeps it"


def test_nothing_is_taken_from_whoever_holds_it(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Python counts no reference for an argument that a variable holds anyway, as from 3.14 on."""
    if recycler._alone() > 1:
        monkeypatch.setattr(recycler, "getrefcount", lambda thing: sys.getrefcount(thing) - 2)
    store, signature = recycler.Recycler(device.empty), signature_of(DType.F32, (64,))
    held = store.take(signature)
    assert recycler._alone() == 1
    store.give_back([held])
    assert store.take(signature).start != held.start
    start = held.start
    del held
    assert start in [store.take(signature).start for _ in range(2)]


def test_outputs_of_metal_kernel_are_their_own(device: MlxDevice) -> None:
    body = "uint i = thread_position_in_grid.x; out[i] = a[i] + 1;"
    kernel = fast.metal_kernel("plus_one", ["a"], ["out"], body)
    given = [np.full(65, n, np.float32)[1:] for n in range(6)]
    sizes: dict[str, Any] = {"grid": (64, 1, 1), "threadgroup": (32, 1, 1), "output_shapes": [(64,)]}
    results = [kernel(inputs=[each], output_dtypes=[np.float32], stream=device, **sizes)[0] for each in given]
    for each, result in zip(given, results, strict=True):
        np.testing.assert_array_equal(result, each + 1)

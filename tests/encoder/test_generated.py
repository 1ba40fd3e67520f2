"""The generated way of a dispatch does what the way by a bound value does: messages, barriers, refusals, counters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.encoding import floats, names, pipeline, record, soft_device

from mlx_native_py import EncoderStateError, InvalidArgument, MlxDevice, Out, open_metal
from mlx_native_py.encoder import CommandEncoder, encoding

pytestmark = pytest.mark.soft

calls = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.booleans(), st.floats(-2, 2, width=32)),
    min_size=1,
    max_size=40,
)


def encode(enc: CommandEncoder, program: list[Any], views: list[Any], device: MlxDevice, *, slowly: bool) -> None:
    add, axpy = pipeline(device, "add"), pipeline(device, "axpy")
    for a, b, out, marked, number in program:
        for kernel in (add, axpy):
            if slowly:
                kernel.encode = None
        enc.dispatch(add, views[a], views[b], Out(views[out]) if marked else views[out], threads=4)
        enc.dispatch(axpy, views[b], views[out], number, threads=4)


@given(program=calls)
def test_both_ways_send_the_same(program: list[Any]) -> None:
    with soft_device() as device:
        memory = device.buffer(np.zeros(64, np.float32))
        other = device.buffer(np.zeros(64, np.float32))
        views = [memory[0:4], memory[2:6], memory[8:12], other[0:4], other[4:8], other[0:8]]
        seen = []
        for slowly in (False, True):
            log = record(device)
            enc = CommandEncoder(device)
            encode(enc, program, views, device, slowly=slowly)
            seen.append((list(log)[1:], [str(each) for each in enc.barriers], enc.tally))
            enc.discard()
            device.queue = device.queue._target
            del device.submissions
        assert seen[0] == seen[1]


@pytest.mark.parametrize("number", [True, np.float32(2), np.float64(2), 2])
def test_numbers_of_other_kinds_take_the_slow_way(device: MlxDevice, number: Any) -> None:
    x, y, axpy = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "axpy")
    with device.command_encoder() as enc:
        enc.dispatch(axpy, x, y, 1.0, threads=2)
        enc.dispatch(axpy, x, y, number, threads=2)
    assert y.numpy().tolist() == [1 + float(number), 2 + 2 * float(number)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("x",), "takes 3 arguments"),
        (("x", "y", "z", 1.0), "takes 3 arguments"),
        (("x", "y", "one"), "declared float"),
        (("x", 2.0, 1.0), "needs a buffer"),
        (("written x", "y", 1.0), "only reads it"),
    ],
)
def test_refusals_are_the_same_on_both_ways(device: MlxDevice, arguments: tuple[Any, ...], complaint: str) -> None:
    at = {"x": floats(device, 1, 2), "y": floats(device, 0, 0), "z": floats(device, 0)}
    axpy = pipeline(device, "axpy")
    given = [(at | {"written x": Out(at["x"])}).get(each, each) for each in arguments]
    enc = device.command_encoder()
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=complaint):
            enc.dispatch(axpy, *given, threads=2)
        enc.dispatch(axpy, at["x"], at["y"], 1.0, threads=2)
    assert enc.tally.dispatches == 2
    enc.discard()


def test_released_memory_is_refused_after_its_first_use(device: MlxDevice) -> None:
    pool, y, add = device.buffer_pool(), floats(device, 1, 2), pipeline(device, "add")
    x = pool.alloc(8, "f32", 2)
    enc = device.command_encoder()
    for _ in range(2):
        enc.dispatch(add, x, y, x, threads=2)
    pool.release(x)
    with pytest.raises(EncoderStateError, match="was returned to its pool"):
        enc.dispatch(add, x, y, x, threads=2)
    enc.discard()


class TestParameters:
    """Backends on which bytes are slow get numbers through a buffer."""

    @pytest.fixture
    def arena(self) -> Any:
        with MlxDevice(replace(open_metal("soft"), parameter_arena=True)) as device:
            yield device

    def test_no_bytes_are_sent_and_equal_numbers_share_a_cell(self, arena: MlxDevice) -> None:
        log = record(arena)
        x, y, axpy = floats(arena, 1, 2), floats(arena, 0, 0), pipeline(arena, "axpy")
        with arena.command_encoder() as enc:
            for number in (1.0, 2.0, 1.0, 1.0):
                enc.dispatch(axpy, x, y, number, threads=2)
        assert y.numpy().tolist() == [5, 10]
        assert "setBytes_length_atIndex_" not in names(log)
        assert names(log).count("setBufferOffset_atIndex_") == 2

    def test_a_full_chunk_is_followed_by_another(self, arena: MlxDevice) -> None:
        x, y, axpy = floats(arena, 1), floats(arena, 0), pipeline(arena, "axpy")
        count = 5000
        with arena.command_encoder() as enc:
            for number in range(count):
                enc.dispatch(axpy, x, y, number, threads=1)
        assert y.numpy()[0] == sum(range(count))

    def test_none_keeps_a_number(self, arena: MlxDevice) -> None:
        x, y, axpy = floats(arena, 1), floats(arena, 0), pipeline(arena, "axpy")
        with arena.command_encoder() as enc:
            enc.dispatch(axpy, x, y, 3.0, threads=1)
            enc.dispatch(axpy, None, None, None, threads=1)
        assert y.numpy()[0] == 6


def test_the_first_dispatch_of_a_command_buffer_takes_generated_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **options: Any) -> None:
        raise AssertionError("bound anew")

    with soft_device() as device:
        x, y, axpy = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "axpy")
        for _ in range(2):
            with device.command_encoder() as enc:
                enc.dispatch(axpy, x, y, 2.0, threads=2)
            assert (enc.tally.dispatches, enc.tally.auto_concurrent, enc.ticket.dispatch_count()) == (1, 1, 1)
            monkeypatch.setattr(encoding, "bind", refused)
        assert y.numpy().tolist() == [4, 8]

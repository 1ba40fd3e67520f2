"""Automatic barriers: one for each hazard, none without, and the reason of each."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
from kit.encoding import floats, pipeline
from kit.programs import pipelines

from mlx_native_py import MlxDevice
from mlx_native_py.encoder import CapturedOpKind, Out
from mlx_native_py.errors import InvalidArgument


def test_each_barrier_says_why(device: MlxDevice) -> None:
    x, y = floats(device, 1, 2), floats(device, 0, 0)
    y.label = "sums"
    enc = device.command_encoder()
    enc.dispatch(pipeline(device, "fill"), y, 1.0, threads=2)
    enc.dispatch(pipeline(device, "axpy"), x, y, 1.0, threads=2, kind=CapturedOpKind.ElemAdd)
    enc.memory_barrier()
    (automatic, by_hand) = enc.barriers
    hazard = automatic.hazard
    assert hazard is not None and (hazard.kind.name, hazard.nbytes, hazard.offset) == ("RAW", 8, 0)
    assert (hazard.earlier.index, hazard.later.index, hazard.later.kind) == (0, 1, CapturedOpKind.ElemAdd)
    assert "dispatch 1 (axpy) reads bytes 0..8 of sums" in str(automatic)
    assert by_hand.by_hand and by_hand.hazard is None and str(by_hand) == "before dispatch 2: placed by hand"
    enc.discard()


def test_out_and_narrowed_ranges_spare_barriers(device: MlxDevice) -> None:
    x, y, add, axpy = (
        floats(device, 1, 2, 3, 4),
        floats(device, 0, 0, 0, 0),
        pipeline(device, "add"),
        pipeline(device, "axpy"),
    )
    enc = device.command_encoder()
    enc.dispatch(axpy, x, y, 1.0, threads=2, reads=[x[:2], y[:2]], writes=[y[:2]])
    enc.dispatch(axpy, x[2:], y[2:], 1.0, threads=2)
    assert enc.barriers == []
    enc.dispatch(add, x, x, Out(y), threads=4)
    assert enc.barriers[0].hazard.kind.name in ("WAW", "WAR")  # type: ignore[union-attr]
    with pytest.raises(InvalidArgument, match="take buffers and views"):
        enc.dispatch(add, x, x, y, threads=4, reads=[1])
    enc.commit_and_wait()


def test_reads_between_reads_need_no_barrier(device: MlxDevice) -> None:
    x = floats(device, 1, 2)
    enc = device.command_encoder()
    for _ in range(4):
        enc.dispatch(pipeline(device, "add"), x, x, floats(device, 0, 0), threads=2)
    assert enc.barriers == []
    enc.commit_and_wait()


def test_two_wrappers_over_the_same_memory_are_one(device: MlxDevice) -> None:
    pages = mmap.mmap(-1, mmap.PAGESIZE)
    one, two = device.buffer(pages, "u32", copy=False), device.buffer(pages, "u32", copy=False)
    fill, twist = pipelines(device, "fill", "twist")
    with device.command_encoder() as enc:
        enc.dispatch(fill, one, 7, threads=4)
        enc.dispatch(twist, two, threads=4)
    assert [barrier.by_hand for barrier in enc.barriers] == [False]
    assert two.numpy()[:4].tolist() == [36, 41, 46, 51]


def test_memory_that_gets_an_alias_is_tracked(device: MlxDevice) -> None:
    x, y, add = device.buffer(np.ones(4096, np.float32)), floats(device, 1, 2), pipeline(device, "add")
    enc = device.command_encoder()
    enc.dispatch(add, y, y, x[:2], threads=2)
    enc.dispatch(add, y, y, x[2:4], threads=2)
    twin = device.wrap(x.mtl, "f32", 4096)
    enc.dispatch(add, twin[:2], y, x[8:10], threads=2)
    enc.dispatch(add, twin[2:4], y, x[10:12], threads=2)
    assert enc.tally.barriers == 1
    enc.dispatch(add, y, y, twin[8:10], threads=2)
    assert enc.tally.barriers == 2
    enc.commit_and_wait()


def test_two_encoders_see_their_own_hazards(device: MlxDevice) -> None:
    x, y, add = floats(device, 1, 2), floats(device, 0, 0), pipeline(device, "add")
    one, two = device.command_encoder(), device.command_encoder()
    for enc in (one, two, one, two):
        enc.dispatch(add, x, x, y, threads=2)
    assert one.tally.barriers == two.tally.barriers == 1
    one.discard()
    two.discard()

"""Arguments and shapes of a dispatch: converted to what the kernel declares, refused before any message is sent."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest
from kit.encoding import floats, names, pipeline, record, soft_device

from mlx_native_py import MlxDevice
from mlx_native_py.encoder import Out
from mlx_native_py.encoder.launch import plan_launch
from mlx_native_py.errors import InvalidArgument


def launched(device: MlxDevice, kernel: str, *args: Any, **shape: Any) -> None:
    with device.command_encoder() as enc:
        enc.dispatch(pipeline(device, kernel), *args, **(shape or {"threads": 1}))


def test_scalars_take_the_declared_type(device: MlxDevice) -> None:
    out = device.alloc_buffer(32, "u32", 8)
    launched(device, "kinds", out, True, 2.5, -3, 5 << 32, 9.0, (1.0, 2.0, 3.0), (4, -1))
    assert out.numpy()[:7].tolist() == [1, 5, 97, 5, 9, 6, 3]
    launched(
        device, "kinds", out, np.bool_(False), np.float16(1), np.int64(1), np.uint64(1 << 32), 3, np.ones(3), [7, 7]
    )
    assert out.numpy()[:7].tolist() == [0, 2, 101, 1, 3, 3, 14]


def test_vectors_of_three_take_sixteen_bytes(device: MlxDevice) -> None:
    gap = pipeline(device, "gap")
    assert gap.buffers[2].size == 16
    out = device.alloc_buffer(4, "u32", 1)
    shape = np.array([(10, 1.0)], dtype=[("rows", "<u4"), ("scale", "<f4")])[0]
    launched(device, "gap", out, None, (1, 2, 3), shape)
    assert out.numpy()[0] == 16

    class Shape(ctypes.Structure):
        _fields_ = [("rows", ctypes.c_uint32), ("scale", ctypes.c_float)]

    launched(device, "gap", out, None, bytes(16), Shape(7, 1.0))
    assert out.numpy()[0] == 7


@pytest.mark.soft
def test_bytes_beyond_four_kilobytes_travel_in_a_buffer() -> None:
    with soft_device() as device:
        log = record(device)
        table = np.arange(1500, dtype=np.float32)
        out = device.alloc_buffer(6000, "f32", 1500)
        launched(device, "long_table", table[:1024].tobytes(), out, threads=1024)
        assert [args[1] for name, args in log if name == "setBytes_length_atIndex_"] == [4096]
        log.clear()
        launched(device, "long_table", table.tobytes(), out, threads=1500)
        assert "setBytes_length_atIndex_" not in names(log)
        assert np.array_equal(out.numpy(), table)


@pytest.mark.soft
def test_unretained_long_bytes_stay_alive() -> None:
    with soft_device() as device:
        table = np.arange(1500, dtype=np.float32)
        out = device.alloc_buffer(6000, "f32", 1500)
        enc = device.command_encoder(unretained_refs=True)
        enc.dispatch(pipeline(device, "long_table"), table.tobytes(), out, threads=1500)
        enc.commit_and_wait()
        assert np.array_equal(out.numpy(), table)


def test_none_leaves_a_slot_as_it_is(device: MlxDevice) -> None:
    x, y = floats(device, 1, 2), floats(device, 0, 0)
    axpy = pipeline(device, "axpy")
    with device.command_encoder() as enc:
        enc.dispatch(axpy, x, y, 3.0, threads=2)
        enc.dispatch(axpy, None, None, None, threads=2)
        assert len(enc.barriers) == 1, "what stays bound is read and written all the same"
    assert y.numpy().tolist() == [6.0, 12.0]


WRONG_ARGUMENTS = [
    ("axpy", lambda d: (floats(d, 1), floats(d, 1)), "takes 3 arguments by slot .0: x, 1: y, 2: a.; 2 were given"),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), 1.0, 2.0), "takes 3 arguments"),
    ("axpy", lambda d: (None, floats(d, 1), 1.0), "'x' .slot 0. is None, and nothing was bound"),
    (
        "axpy",
        lambda d: (floats(d, 1), 5.0, 1.0),
        "'y' .slot 1. may be written, so it needs a buffer or an array, not 5.0",
    ),
    ("axpy", lambda d: (floats(d, 1), b"1234", 1.0), "may be written, so it needs a buffer"),
    ("axpy", lambda d: (floats(d, 1), np.ones(1, np.float32), 1.0), "'y' .* pass device.buffer.array."),
    ("axpy", lambda d: (Out(floats(d, 1)), floats(d, 1), 1.0), "is marked Out, but the kernel only reads it"),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), "one"), "declared float: 'one' .str. is not a value"),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), (1.0, 2.0)), "is declared float"),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), 1e39), "1e.39 does not fit a float"),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), b"12"), "holds values of 4 bytes; 2 were given"),
    ("axpy", lambda d: (np.ones(4, np.float32), floats(d, 1), 1.0), "pass device.buffer.array."),
    ("axpy", lambda d: (floats(d, 1), floats(d, 1), object()), "expects a buffer or a float, not <object"),
    ("gap", lambda d: (floats(d, 1), 4, (1, 2, 3), b"12345678"), "has no argument at slot 1; pass None there, not 4"),
    ("gap", lambda d: (floats(d, 1), None, (1, 2), b"12345678"), "is declared uint3: .1, 2. is not a uint3"),
    ("gap", lambda d: (floats(d, 1), None, (1, 2, -3), b"12345678"), "-3 does not fit a uint"),
    ("gap", lambda d: (floats(d, 1), None, (1, 2, 3.5), b"12345678"), "3.5 .float. is not a value for a uint"),
    ("gap", lambda d: (floats(d, 1), None, (1, 2, 3), 7), "expects a buffer or bytes, since its type is a struct"),
    ("wide", lambda d: (floats(d, 1, 2),), "holds values of 16 bytes; MlxBuffer.f32.2., 8 bytes.* has 8"),
    ("wide", lambda d: (floats(d, *range(8))[1:7],), "multiple of 16; .* starts at byte 4"),
    ("nothing", lambda d: (1,), "takes 0 arguments by slot .none."),
]


@pytest.mark.soft
@pytest.mark.parametrize(("kernel", "make", "message"), WRONG_ARGUMENTS, ids=range(len(WRONG_ARGUMENTS)))
@pytest.mark.parametrize("capture", [False, True])
def test_wrong_arguments_send_nothing(kernel: str, make: Any, message: str, capture: bool) -> None:
    with soft_device() as device:
        kernel_pipeline, args = pipeline(device, kernel), make(device)
        log = record(device)
        enc = device.command_encoder()
        if capture:
            enc.start_capture()
        log.clear()
        with pytest.raises(InvalidArgument, match=message):
            enc.dispatch(kernel_pipeline, *args, threads=1)
        assert log == []
        assert (enc.tally.dispatches, len(enc.mem_ranges), enc.take_capture() or []) == (0, 0, [])
        enc.commit_and_wait()


@pytest.mark.soft
def test_buffers_of_another_device_are_refused() -> None:
    with soft_device() as one, soft_device() as two:
        enc = one.command_encoder()
        with pytest.raises(InvalidArgument, match="belongs to another device"):
            enc.dispatch(pipeline(one, "fill"), floats(two, 1), 1.0, threads=1)
        with pytest.raises(InvalidArgument, match="belongs to another device"):
            enc.dispatch(pipeline(one, "fill"), Out(floats(two, 1)), 1.0, threads=1)


def test_read_only_memory_is_not_written(device: MlxDevice) -> None:
    import mmap

    pages = mmap.mmap(-1, mmap.PAGESIZE)
    array = np.frombuffer(pages, np.float32)
    array.flags.writeable = False
    buffer = device.buffer(array, copy=False)
    with pytest.raises(InvalidArgument, match="may be written, but .* read-only"):
        launched(device, "fill", buffer, 1.0)
    launched(device, "axpy", buffer, floats(device, 1), 1.0)


WRONG_SHAPES: list[tuple[dict[str, Any], str]] = [
    ({}, "give either threads= or threadgroups="),
    ({"threads": 1, "threadgroups": 1}, "and not both"),
    ({"threads": -1}, "threads=-1"),
    ({"threads": 1 << 32}, "threads=4294967296"),
    ({"threads": (1, 2, 3, 4)}, "one to three numbers"),
    ({"threads": ()}, "one to three numbers"),
    ({"threads": 2.5}, "threads is 2.5, expected whole numbers"),
    ({"threads": "4"}, "expected whole numbers"),
    ({"threads": 4, "group": 0}, "group=0"),
    ({"threads": 4, "group": 2048}, "has 2048 threads; this kernel allows at most 1024"),
    ({"threads": 4, "group": (32, 32, 2)}, "has 2048 threads"),
    ({"threadgroups": 1 << 31, "group": 2}, "2..32 or more threads"),
    ({"threads": (2**22, 2**21, 2**21)}, "are 18446744073709551616 threads, expected fewer than 2..64"),
    ({"threadgroups": (2**22, 2**21, 2**16), "group": 32}, "are 18446744073709551616 threads"),
    ({"threads": 4, "shared": (16,)}, "has no threadgroup arguments; shared= gives 1 lengths"),
]


@pytest.mark.soft
@pytest.mark.parametrize(("shape", "message"), WRONG_SHAPES, ids=range(len(WRONG_SHAPES)))
def test_wrong_shapes(shape: dict[str, Any], message: str) -> None:
    with soft_device() as device:
        log = record(device)
        enc = device.command_encoder()
        log.clear()
        with pytest.raises(InvalidArgument, match=message):
            enc.dispatch(pipeline(device, "fill"), floats(device, 1), 1.0, **shape)
        assert log == []


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        ((), "has threadgroup argument 'part' .slot 0.; shared= gives 0"),
        ((0,), "of 0 bytes"),
        ((None,), "needs a length"),
        ((16, 16), "gives 2"),
        (40000, "40000 bytes of threadgroup memory .* the device has 32768"),
    ],
)
def test_wrong_threadgroup_memory(device: MlxDevice, shared: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        launched(device, "total", floats(device, 1), floats(device, 1), threads=1, shared=shared)


def test_threadgroup_memory_is_rounded_up(device: MlxDevice) -> None:
    out = floats(device, 0)
    launched(device, "total", floats(device, 1, 2, 3), out, threads=3, group=3, shared=12)
    assert out.numpy()[0] == 6.0
    assert plan_launch(pipeline(device, "total"), 3, None, 3, 12).shared == ((0, 16),)


@pytest.mark.parametrize(
    "threads", [1, 31, 32, 33, 1000, (3, 1000), (7, 5, 3), (1, 1, 4096), (1 << 20, 2), 64.0, [4, 4]]
)
def test_a_group_left_open_fits(device: MlxDevice, threads: Any) -> None:
    for kernel, most in (("axpy", 1024), ("narrow_group", 48)):
        launch = plan_launch(pipeline(device, kernel), threads, None, None, ())
        total = math.prod(launch.group)
        assert total <= most
        assert total % 32 == 0
        assert all(isinstance(n, int) for n in (*launch.grid, *launch.group))


def test_narrow_kernels_get_narrow_groups(device: MlxDevice) -> None:
    out = device.alloc_buffer(4, "u32", 1)
    launched(device, "narrow_group", out, threadgroups=1)
    assert out.numpy()[0] == 32
    with pytest.raises(InvalidArgument, match="at most 48"):
        launched(device, "narrow_group", out, threads=64, group=64)


def test_a_shape_is_checked_once(device: MlxDevice) -> None:
    fill = pipeline(device, "fill")
    assert plan_launch(fill, 4, None, None, ()) == fill.launches[4, None, None, ()]
    assert plan_launch(fill, [4], None, None, ()) == plan_launch(fill, (4,), None, None, ())


def test_what_is_no_pipeline_is_refused(device: MlxDevice) -> None:
    enc = device.command_encoder()
    for wrong in ("fill", None, pipeline(device, "fill").mtl):
        with pytest.raises(InvalidArgument, match="dispatch takes a Pipeline"):
            enc.dispatch(wrong, threads=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="expected a CapturedOpKind"):
        enc.set_op_kind("Sdpa")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="expected a CapturedOpKind"):
        enc.dispatch(pipeline(device, "nothing"), threads=1, kind="Sdpa")
    enc.discard()


@pytest.mark.soft
def test_a_pipeline_of_another_device_is_refused() -> None:
    with soft_device() as one, soft_device() as two:
        with pytest.raises(InvalidArgument, match="compiled for another device"):
            one.command_encoder().dispatch(pipeline(two, "nothing"), threads=1)

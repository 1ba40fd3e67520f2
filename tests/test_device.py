"""The device: what it makes, what it refuses, what it says of itself, and how it ends."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from selection import absence

from mlx_native_py import (
    BufferAllocationError,
    DeviceNotFound,
    DType,
    EncoderStateError,
    ForkedProcessError,
    InvalidArgument,
    MlxDevice,
    SettingsError,
    settings,
)
from mlx_native_py.metal import Backend


def test_names_and_limits(device: MlxDevice) -> None:
    info = device.info()
    assert device.name and info["name"] == device.name and device.name in repr(device)
    assert info["backend"] == device.backend.kind
    for limit in (
        "max_threads_per_threadgroup",
        "max_threadgroup_memory",
        "max_buffer_length",
        "recommended_working_set",
        "max_buffer_bindings",
        "max_threadgroup_bindings",
        "max_inline_bytes",
        "page_size",
    ):
        assert np.min(info[limit]) > 0
    assert info["currently_allocated"] >= 0


@pytest.mark.soft
def test_the_backend_is_chosen_by_argument_or_setting() -> None:
    assert MlxDevice("soft").backend.kind == "soft"
    with settings.override(device="soft"):
        assert MlxDevice().backend.kind == "soft"
    with pytest.raises(SettingsError):
        MlxDevice("cuda")  # type: ignore[arg-type]


def test_metal_demanded_and_absent() -> None:
    if not absence("metal"):
        pytest.skip("Metal is here")
    with pytest.raises(DeviceNotFound, match="Metal was requested but is not available"):
        MlxDevice("metal")


def test_alloc_buffer(device: MlxDevice) -> None:
    x = device.alloc_buffer(48, DType.F16, [2, 3, 4], label="x")
    assert (x.nbytes, x.shape, x.dtype, x.offset, x.label) == (48, (2, 3, 4), DType.F16, 0, "x")
    assert int(x.mtl.length()) == 48 and not x.numpy().any()
    assert device.alloc_buffer(2, "bf16", ()).shape == ()


@pytest.mark.parametrize(
    ("byte_len", "dtype", "shape", "complaint"),
    [
        (0, "f32", 0, "byte_len is 0"),
        (-4, "f32", 1, "at least 1"),
        (4.0, "f32", 1, "whole number"),
        (True, "u8", 1, "whole number"),
        ("4", "f32", 1, "whole number"),
        (4, "f64", 1, "not an element type"),
        (4, "f32", 2, r"f32\[2\] takes 8 bytes"),
        (8, "f32", 1, r"f32\[1\] takes 4 bytes"),
        (8, "f32", (2, 0), "axis 1 of shape"),
        (8, "f32", (2, -1), "axis 1 of shape"),
        (8, "f32", (2.0,), "axis 0 of shape"),
        (8, "f32", None, "axis 0 of shape"),
    ],
)
def test_alloc_buffer_checks(device: MlxDevice, byte_len: Any, dtype: Any, shape: Any, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        device.alloc_buffer(byte_len, dtype, shape)


def test_too_much_is_refused_before_the_device_is_asked(device: MlxDevice) -> None:
    limit = device.capabilities.max_buffer_length
    with pytest.raises(BufferAllocationError, match=f"at most {limit} bytes") as caught:
        device.alloc_buffer(limit + 1, "u8", limit + 1)
    assert caught.value.nbytes == limit + 1
    with pytest.raises(MemoryError):
        device.empty((1 << 40, 1 << 40), "u64")


def test_an_exhausted_device_says_what_it_holds(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, real: Any) -> None:
            self._real = real

        def newBufferWithLength_options_(self, *_: int) -> None:
            return None

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    monkeypatch.setattr(device, "mtl", Full(device.mtl))
    with pytest.raises(BufferAllocationError, match=r"out of memory: \d+ bytes are in use, and \d+ are recommended"):
        device.empty(4)


@pytest.mark.parametrize("dtype", list(DType))
def test_buffer_copies_arrays_of_every_type(device: MlxDevice, dtype: DType) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    x = device.buffer(array)
    assert (x.dtype, x.shape) == (dtype, (2, 3)) and np.array_equal(x.numpy(), array)
    array[0, 0] = 1
    assert not np.shares_memory(x.numpy(), array)
    assert np.array_equal(device.buffer(array.T).numpy(), array.T)


def test_buffer_of_other_things(device: MlxDevice) -> None:
    assert device.buffer([1.5, 2.5]).dtype is DType.F32
    assert device.buffer([1, 2]).dtype is DType.I32
    assert device.buffer([1, 1 << 40]).dtype is device.buffer(np.array([1, 2])).dtype is DType.I64
    assert device.buffer([1, 2], "bf16").numpy().dtype == ml_dtypes.bfloat16
    assert device.buffer(np.arange(3.0), DType.F16).dtype is DType.F16
    assert device.buffer(2.5).shape == ()
    raw = np.arange(3, dtype=np.uint32).tobytes()
    assert device.buffer(raw).dtype is DType.U8
    for memory in (raw, bytearray(raw), memoryview(raw)):
        assert device.buffer(memory, "u32").numpy().tolist() == [0, 1, 2]
    assert device.buffer(device.buffer([1, 2], "u8")).numpy().tolist() == [1, 2]
    assert device.buffer([1.0], label="one").label == "one"


@pytest.mark.parametrize(
    "source", [np.zeros(3, complex), np.zeros(0, np.float32), ["a"], b"", object(), np.zeros((2, 0)), [[1], [1, 2]]]
)
def test_buffer_refuses_what_it_cannot_hold(device: MlxDevice, source: Any) -> None:
    with pytest.raises(InvalidArgument):
        device.buffer(source)


@pytest.mark.parametrize(("source", "dtype"), [(["a"], "f32"), ([1 << 70], "u8"), ([None], "i32"), (object(), "u8")])
def test_buffer_refuses_what_it_cannot_convert(device: MlxDevice, source: Any, dtype: str) -> None:
    with pytest.raises(InvalidArgument):
        device.buffer(source, dtype)


def test_raw_memory_must_be_whole_elements(device: MlxDevice) -> None:
    with pytest.raises(InvalidArgument, match="3 bytes are not a whole number of u16"):
        device.buffer(b"abc", "u16")


def test_wrap(device: MlxDevice) -> None:
    mtl = device.mtl.newBufferWithLength_options_(64, device.backend.Metal.MTLResourceStorageModeShared)
    x = device.wrap(mtl, "f32", 16)
    assert x.fill(3).numpy().sum() == 48 and x.mtl is mtl
    with pytest.raises(InvalidArgument, match="takes 68 bytes, and the MTLBuffer has 64"):
        device.wrap(mtl, "f32", 17)


def test_close(backend: Backend) -> None:
    with MlxDevice(backend) as device:
        x = device.buffer([1.0, 2.0])
        pool = device.buffer_pool()
    device.close()
    assert x.numpy().tolist() == [1, 2] and "closed" in repr(device)
    for act in (
        lambda: device.empty(4),
        lambda: device.buffer([1.0]),
        lambda: pool.alloc(4, "f32", 1),
        device.command_encoder,
        lambda: device.kernels,
        device.__enter__,
    ):
        with pytest.raises(EncoderStateError, match="is closed"):
            act()


SLOW = """
kernel void slow(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  for (uint step = 0; step < 200000; ++step) x[i] = x[i] * 1664525u + 1013904223u;
  x[i] = 5;
}
"""


def test_close_waits_for_what_is_committed(backend: Backend) -> None:
    with MlxDevice(backend) as device:
        device.kernels.register_source("slow", SLOW)
        x = device.alloc_buffer(256, "u32", 64)
        encoder = device.command_encoder()
        encoder.dispatch(device.kernels.get_pipeline("slow"), x, threads=64)
        encoder.commit()
    assert x.numpy().tolist() == [5] * 64


@pytest.mark.soft
def test_a_forked_child_is_told_the_same_by_all() -> None:
    device = MlxDevice("soft")
    reader, writer = multiprocessing.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        try:
            for call in (lambda: device.empty(4), device.command_encoder, lambda: MlxDevice("soft")):
                try:
                    call()
                    writer.send("no error")
                except ForkedProcessError as error:
                    writer.send(str(error))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    told = [reader.recv() for _ in range(3)]
    assert [f"process {os.getpid()} " in text and "by the spawn method" in text for text in told] == [True] * 3
    assert device.empty(4).fill(1).numpy().sum() == 4

"""Buffers over memory of others, and memory of buffers for others: without a copy where that can be."""

from __future__ import annotations

import gc
import mmap
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from mlx_native_py import DType, InvalidArgument, MlxDevice

PAGE = mmap.PAGESIZE


def paged(count: int, dtype: type = np.float32) -> np.ndarray:
    """A writable array in pages of its own."""
    size = np.dtype(dtype).itemsize * count
    return np.frombuffer(mmap.mmap(-1, max(size, PAGE)), dtype, count)


def test_over_an_mmap(device: MlxDevice) -> None:
    pages = mmap.mmap(-1, 2 * PAGE)
    x = device.buffer(pages, "u32", copy=False)
    assert x.shape == (2 * PAGE // 4,)
    pages[4:8] = (77).to_bytes(4, "little")
    x[2:3].fill(88)
    assert x.numpy()[1] == 77 and pages[8] == 88
    with pytest.raises(BufferError):
        pages.close()
    del x
    gc.collect()
    device.residency.flush()
    pages.close()


def test_over_a_part_of_a_mapped_file(device: MlxDevice, tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(np.arange(3 * PAGE // 4 - 5, dtype=np.uint32).tobytes())
    with file.open("rb") as stream:
        pages = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    tensor = np.frombuffer(pages, np.uint32)[PAGE // 4 + 7 :]
    x = device.buffer(tensor, copy=False)
    assert x.readonly and x.offset == 28 and "read-only" in repr(x)
    assert np.array_equal(x.numpy(), tensor) and np.shares_memory(x.numpy(), tensor)
    assert not x.numpy().flags.writeable
    for change, value in ((x.fill, 0), (x.copy_from, tensor)):
        with pytest.raises(InvalidArgument, match="read-only"):
            change(value)


def test_over_numpy_memory_where_it_is_aligned(device: MlxDevice, tmp_path: Path) -> None:
    array = paged(PAGE // 4)
    x = device.buffer(array, copy=False)
    array[:] = 3
    assert np.shares_memory(x.numpy(), array) and x.numpy().sum() == 3 * PAGE // 4
    memmap = np.memmap(tmp_path / "rows", np.int16, "w+", offset=100, shape=(2, 1000))
    row = device.buffer(memmap[1], copy=False)
    assert row.offset == 2100 and np.shares_memory(row.numpy(), memmap)


def test_an_error_says_why_a_copy_is_needed(device: MlxDevice) -> None:
    array = np.zeros(100, np.uint8)
    with pytest.raises(InvalidArgument, match=rf"starts .* and ends .* \(pages of {PAGE} bytes\).*copy=True"):
        device.buffer(array, copy=False)
    with pytest.raises(InvalidArgument, match="not row-major"):
        device.buffer(paged(PAGE)[::2], copy=False)
    assert not np.shares_memory(device.buffer(array, copy=None).numpy(), array)
    assert not np.shares_memory(device.buffer(paged(PAGE)).numpy(), paged(PAGE))


def test_over_a_buffer_s_own_array_is_a_view_of_it(device: MlxDevice) -> None:
    x = device.empty((4, 4))
    again = device.buffer(x.numpy()[2], copy=False)
    assert again.allocation is x.allocation and again.offset == 32


def test_aliases_know_each_other_and_forget(device: MlxDevice) -> None:
    array = paged(2 * PAGE, np.uint8)
    one, two = device.buffer(array, copy=False), device.buffer(array[PAGE:], copy=False)
    assert [alias() for alias in one.span[0].aliases] == [two.span[0]]
    del two
    gc.collect()
    device.residency.flush()
    assert [alias() for alias in one.span[0].aliases] == [None]
    three = device.buffer(array, copy=False)
    assert [alias() for alias in one.span[0].aliases] == [three.span[0]]


def test_kernels_work_on_memory_of_the_caller(device: MlxDevice) -> None:
    device.kernels.register_source(
        "double_it",
        "kernel void double_it(device const float *x, device float *y, uint i [[thread_position_in_grid]])"
        "{ y[i] = 2 * x[i]; }",
    )
    mapped = np.frombuffer(mmap.mmap(-1, PAGE, access=mmap.ACCESS_WRITE), np.float32)
    mapped[:] = np.arange(PAGE // 4)
    frozen = mapped[100:200]
    frozen.flags.writeable = False
    x, y = device.buffer(frozen, copy=False), device.buffer(mapped[300:], copy=False)
    pipeline = device.kernels.get_pipeline("double_it")
    with device.command_encoder() as encoder:
        encoder.dispatch(pipeline, x, y, threads=100)
        encoder.commit_and_wait()
    assert np.array_equal(mapped[300:400], 2 * frozen) and mapped[400] == 400
    with device.command_encoder() as encoder, pytest.raises(InvalidArgument, match="read-only"):
        encoder.dispatch(pipeline, y, x, threads=100)


# DLPack


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype is not DType.BF16])
def test_dlpack_to_numpy_and_back(device: MlxDevice, dtype: DType) -> None:
    x = device.alloc_buffer(2 * PAGE, dtype, (2, PAGE // dtype.size))
    array = np.from_dlpack(x)
    array[1, 1] = 1
    assert array.dtype == dtype.numpy and x.numpy()[1, 1] == 1 and x.__dlpack_device__() == (1, 0)
    back = device.buffer(array, copy=False)
    assert np.shares_memory(back.numpy(), x.numpy())


class Producer:
    """An array of a library that knows nothing but DLPack."""

    def __init__(self, source: object) -> None:
        self._source = source

    def __dlpack__(self, **keywords: object) -> object:
        return self._source.__dlpack__(**keywords)  # type: ignore[attr-defined]

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize("versioned", [False, True])
def test_bfloat16_through_dlpack(device: MlxDevice, versioned: bool) -> None:
    x = device.buffer(np.arange(4, dtype=ml_dtypes.bfloat16))

    class Old(Producer):
        def __dlpack__(self, **_: object) -> object:
            return x.__dlpack__()

    back = device.buffer(Producer(x) if versioned else Old(x))
    assert back.dtype is DType.BF16 and back.numpy().tolist() == [0, 1, 2, 3]
    assert x.copy_from(Producer(back)).numpy().tolist() == [0, 1, 2, 3]


def test_dlpack_keeps_the_memory_alive(device: MlxDevice) -> None:
    x = device.buffer(np.arange(4, dtype=ml_dtypes.bfloat16))
    allocation = weakref.ref(x.allocation)
    capsule = x.__dlpack__()
    del x
    gc.collect()
    assert allocation() is not None
    del capsule
    gc.collect()
    assert allocation() is None


def test_foreign_devices_are_refused(device: MlxDevice) -> None:
    class Elsewhere(Producer):
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(InvalidArgument):
        device.buffer(Elsewhere(np.zeros(3, np.float32)))


def test_mlx_arrays_come_and_go(device: MlxDevice) -> None:
    mx = pytest.importorskip("mlx.core")
    for dtype in (mx.float32, mx.bfloat16, mx.float16, mx.int32):
        theirs = mx.arange(6).astype(dtype).reshape(2, 3)
        ours = device.buffer(theirs)
        assert ours.shape == (2, 3) and str(ours.dtype.numpy) in str(dtype)
        assert mx.array_equal(mx.from_dlpack(ours), theirs).item()

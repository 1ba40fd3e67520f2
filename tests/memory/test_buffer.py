"""Buffers and views: exact, zero-copy, alive as long as anyone looks, and honest about what they cannot do."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import DType, EncoderStateError, InvalidArgument, MlxBuffer, MlxDevice
from mlx_native_py.metal import open_metal

# Views


def test_a_view_is_exact_in_every_respect(device: MlxDevice) -> None:
    x = device.buffer(np.arange(32, dtype=np.float32))
    view = x.slice_view(32, 4)
    assert (view.offset, view.nbytes, view.shape, view.size, view.dtype) == (32, 16, (4,), 4, DType.F32)
    assert view.allocation is x.allocation and view.mtl is x.mtl
    assert view.span == (x.span[0], x.span[1] + 32, x.span[1] + 48)
    assert view.numpy().tolist() == [8, 9, 10, 11]
    assert view.to_bytes() == np.arange(8, 12, dtype=np.float32).tobytes()
    view.fill(-1)
    assert x.numpy()[7:13].tolist() == [7, -1, -1, -1, -1, 12]


def test_views_of_views_add_up(device: MlxDevice) -> None:
    x = device.buffer(np.arange(64, dtype=np.int32))
    inner = x.slice_view(64, 32).slice_view(16, 8)[2:5]
    assert (inner.offset, inner.numpy().tolist()) == (88, [22, 23, 24])
    with pytest.raises(InvalidArgument, match="beyond the end"):
        inner.slice_view(0, 4)
    with pytest.raises(InvalidArgument, match="beyond the end"):
        inner.slice_view(4, 3)


def test_indexing_along_the_first_axis(device: MlxDevice) -> None:
    array = np.arange(24, dtype=np.uint16).reshape(4, 3, 2)
    x = device.buffer(array)
    for key in (slice(1, 3), slice(None), slice(-1, None), slice(2, 100), 0, -1, np.int64(2)):
        assert np.array_equal(x[key].numpy(), array[key]) and x[key].shape == array[key].shape
    assert x[1][2][1].numpy() == array[1, 2, 1] and x[1][2][1].shape == ()
    assert len(x) == 4 and x.ndim == 3 and [row.shape for row in x] == [(3, 2)] * 4


@pytest.mark.parametrize("key", [slice(None, None, -1), (0, [1, 2]), "a", 1.0, True, slice(2, 2), (0, slice(3, 3))])
def test_what_is_empty_or_beyond_views_and_kernels_is_refused(device: MlxDevice, key: object) -> None:
    with pytest.raises(InvalidArgument):
        device.empty((4, 4))[key]


def test_an_index_beyond_the_axis_is_an_index_error(device: MlxDevice) -> None:
    with pytest.raises(IndexError, match="outside the first axis"):
        device.empty(4)[4]
    with pytest.raises(InvalidArgument, match="no axis"):
        device.empty(())[0]
    with pytest.raises(TypeError, match="no length"):
        len(device.empty(()))


@pytest.mark.parametrize(
    ("offset", "count", "complaint"),
    [
        (2, 1, "multiple of 4"),
        (-4, 1, "at least 0"),
        (0, 0, "at least 1"),
        (0, 9, "beyond the end"),
        (32, 1, "beyond the end"),
        (1 << 70, 1, "beyond the end"),
        (0.0, 1, "whole number"),
        (0, True, "whole number"),
    ],
)
def test_slice_view_checks(device: MlxDevice, offset: int, count: int, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        device.empty(8).slice_view(offset, count)


def test_reshape_and_view(device: MlxDevice) -> None:
    x = device.buffer(np.arange(12, dtype=np.float32))
    assert x.reshape(3, 4).shape == x.reshape((3, 4)).shape == (3, 4) and x.reshape(12)[1:].reshape(11).offset == 4
    assert np.array_equal(x.reshape(3, 4).view("u16").numpy(), x.numpy().reshape(3, 4).view(np.uint16))
    assert x.reshape(-1, 4).shape == (3, 4) and x.reshape(3, 4).reshape(-1).shape == (12,)
    for wrong in ((5,), (12, 0), (-1, 5), (-1, -1), (-2,), (0, -1)):
        with pytest.raises(InvalidArgument):
            x.reshape(wrong)
    with pytest.raises(InvalidArgument, match="cannot be seen as u64"):
        x[1:3].view("u64")


@given(data=st.data())
def test_any_view_is_the_parent_s_bytes(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    dtype = data.draw(st.sampled_from(list(DType)))
    view = MlxDevice(open_metal()).alloc_buffer(count * dtype.size, dtype, count)
    model = np.arange(view.nbytes, dtype=np.uint8) % 2
    view.copy_from(model.tobytes())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, view.size - 1))
        length = data.draw(st.integers(1, view.size - start))
        byte = slice(start * dtype.size, (start + length) * dtype.size)
        view = view.slice_view(byte.start, length) if data.draw(st.booleans()) else view[start : start + length]
        model = model[byte]
        assert view.to_bytes() == model.tobytes() and view.nbytes == model.nbytes
        assert view.span[2] - view.span[1] == view.nbytes == view.numpy().nbytes


# CPU access


@pytest.mark.parametrize("dtype", list(DType))
def test_numpy_is_the_memory_itself(device: MlxDevice, dtype: DType) -> None:
    x = device.alloc_buffer(6 * dtype.size, dtype, (2, 3))
    assert not x.numpy().any()
    x.numpy()[1, 2] = 1
    array = np.asarray(x)
    assert (array.dtype, array.shape, array.flags.writeable) == (dtype.numpy, (2, 3), True)
    assert array[1, 2] == 1 and np.shares_memory(array, x.numpy())


def test_array_protocol(device: MlxDevice) -> None:
    x = device.buffer(np.arange(4, dtype=np.float32))
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(x, copy=False), x.numpy())
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, dtype=np.int8, copy=False)
    assert (np.add(x, x) == [0, 2, 4, 6]).all()


def test_arrays_keep_the_memory_alive(device: MlxDevice) -> None:
    x = device.buffer(np.arange(1 << 16, dtype=np.float32))
    allocation = weakref.ref(x.allocation)
    array = x[100:200].numpy()[10:].reshape(9, 10).T
    del x
    gc.collect()
    scratch = [device.alloc_buffer(1 << 18, "u8", 1 << 18).fill(255) for _ in range(4)]
    assert array[0].tolist() == list(range(110, 200, 10)) and allocation() is not None
    del array
    gc.collect()
    assert allocation() is None
    del scratch


def test_buffers_end_without_the_garbage_collector(device: MlxDevice) -> None:
    gc.disable()
    try:
        x = device.empty(4)
        x.numpy()[:] = 1
        allocation = weakref.ref(x.allocation)
        del x
        assert allocation() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("f32", 1.5), ("f16", np.inf), ("bf16", -2.0), ("u8", 255), ("i8", -128), ("i64", -(1 << 62)), ("bool", True)],
)
def test_fill(device: MlxDevice, dtype: str, value: object) -> None:
    x = device.empty((3, 5), dtype)
    assert x.fill(value) is x
    assert (x.numpy() == value).all()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u8", 256),
        ("u8", -1),
        ("i32", 1.5),
        ("i32", np.nan),
        ("bool", 2),
        ("f32", "x"),
        ("f32", [1, 2]),
        ("u32", 1 << 40),
        ("i64", 1 << 70),
        ("f32", 1 << 2000),
        ("f32", object()),
    ],
)
def test_fill_refuses_what_the_type_cannot_hold(device: MlxDevice, dtype: str, value: object) -> None:
    x = device.alloc_buffer(8 * DType.of(dtype).size, dtype, 8)
    with pytest.raises(InvalidArgument):
        x.fill(value)
    assert not x.numpy().any()


def test_copy_from(device: MlxDevice) -> None:
    x = device.alloc_buffer(16, "f32", (2, 2))
    assert x.copy_from([[1, 2], [3, 4]]).numpy().tolist() == [[1, 2], [3, 4]]
    x.copy_from(np.arange(8, dtype=np.float32).reshape(2, 4)[:, ::2])
    assert x.numpy().tolist() == [[0, 2], [4, 6]]
    x.copy_from(device.buffer(np.ones((2, 2), np.float32)))
    assert x.numpy().sum() == 4
    x.copy_from(np.arange(4, dtype=np.float32).tobytes())
    assert x.numpy().tolist() == [[0, 1], [2, 3]]
    x.reshape(4)[1:].copy_from(x.reshape(4)[:3])
    assert x.numpy().tolist() == [[0, 0], [1, 2]]


@pytest.mark.parametrize(
    "source", [np.ones((2, 2)), np.ones(4, np.float32), b"123", np.float32(1), [1, 2], np.ones((2, 2), np.int32)]
)
def test_copy_from_takes_only_the_same_type_and_shape(device: MlxDevice, source: object) -> None:
    with pytest.raises(InvalidArgument, match="copy_from got .*, expected"):
        device.empty((2, 2)).copy_from(source)


@pytest.mark.parametrize("source", [[1.5, 2], [300, 1], [-1, 0], ["a", "b"], [[1], [1, 2]], [1 << 70, 0]])
def test_copy_from_refuses_numbers_that_the_type_cannot_hold(device: MlxDevice, source: object) -> None:
    with pytest.raises(InvalidArgument):
        device.empty(2, "u8").copy_from(source)


def test_repr(device: MlxDevice) -> None:
    x = device.alloc_buffer(48, "f32", (3, 4))
    assert repr(x) == "MlxBuffer(f32[3, 4], 48 bytes: 0, 0, 0, ..., 0)"
    x.label = "weights"
    assert x.mtl.label() == "weights"
    assert repr(x[1]) == "MlxBuffer('weights', f32[4], 16 bytes at 16 of 48: 0, 0, 0, 0)"


# Life after a pool


def test_a_released_buffer_refuses_cpu_access(device: MlxDevice) -> None:
    pool = device.buffer_pool()
    x = pool.alloc(16, "f32", 4)
    view = x[1:]
    pool.release(x)
    for act in (x.numpy, view.numpy, view.to_bytes, lambda: x.fill(0), lambda: np.asarray(x)):
        with pytest.raises(EncoderStateError, match="was returned to its pool"):
            act()
    assert "released" in repr(view)


def test_a_private_buffer_has_no_cpu_access(device: MlxDevice) -> None:
    mtl = device.mtl.newBufferWithLength_options_(64, device.backend.Metal.MTLResourceStorageModePrivate)
    x: MlxBuffer = device.wrap(mtl, "f32", 16)
    with pytest.raises(InvalidArgument, match="private"):
        x.numpy()
    assert x[1:].span[2] - x[1:].span[1] == 60

"""Buffers as arrays: values, operators, indices, constructors, and how they are shown."""

from __future__ import annotations

import mmap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mlx_native_py import DType, InvalidArgument, MlxBuffer, MlxDevice


def test_one_value(device: MlxDevice) -> None:
    x = device.buffer(np.array([[2.5]], np.float32))
    assert (x.item(), float(x), int(x), type(x.item())) == (2.5, 2.5, 2, float)
    assert device.full((), 3, "u8").item() == 3 and device.full((), 1, "bool").tolist() is True
    assert device.buffer(np.array([1.5], ml_dtypes.bfloat16)).item() == 1.5
    with pytest.raises(InvalidArgument, match="item.. takes the one value.*has 2"):
        device.zeros(2).item()
    with pytest.raises(InvalidArgument, match="item"):
        float(device.zeros(2))


def test_lists_and_iteration(device: MlxDevice) -> None:
    x = device.arange(6).reshape(2, 3)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [row.tolist() for row in x] == x.tolist()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i32", "u8", "bool", "i64", "f32"])
def test_astype(device: MlxDevice, dtype: str) -> None:
    x = device.buffer(np.array([0, 1, 2], np.float32))
    y = x.astype(dtype)
    assert y.dtype is DType.of(dtype) and y.tolist() == np.array([0, 1, 2], np.float32).astype(y.dtype.numpy).tolist()
    y.fill(1)
    assert x.tolist() == [0, 1, 2], "in memory of its own"


OPERATORS: list[Any] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: b - a,
    lambda a, b: a * b,
    lambda a, b: a / (b + 3),
    lambda a, b: (a + 3) / b,
    lambda a, b: -a,
    lambda a, b: 2 - a,
    lambda a, b: 1.5 / (a + 9),
    lambda a, b: a / 4,
    lambda a, b: 3 * a + b * 2,
    lambda a, b: a @ b.reshape(4, 3) if b.size == 12 else a,
]


@pytest.mark.parametrize("operator", OPERATORS, ids=range(len(OPERATORS)))
@pytest.mark.parametrize("other", [(3, 4), (4,), (1,), (3, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_operators(device: MlxDevice, operator: Any, other: tuple[int, ...], dtype: str) -> None:
    kind = DType.of(dtype).numpy
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(3, 4)).astype(kind), (rng.normal(size=other) + 9).astype(kind)
    wanted, result = operator(a, b), operator(device.buffer(a), device.buffer(b))
    assert result.dtype is DType.of(dtype) and result.shape == wanted.shape
    np.testing.assert_allclose(result.numpy().astype(float), wanted.astype(float), rtol=2e-2, atol=2e-2)
    if dtype == "f32":
        np.testing.assert_allclose(result.numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_arrays_of_numpy_on_either_side(device: MlxDevice) -> None:
    x, y = device.arange(3, dtype="f32"), np.array([1, 2, 3], np.float32)
    assert (x + y).tolist() == (y + x).tolist() == [1, 3, 5]
    assert isinstance(y - x, MlxBuffer)
    assert (y - x).tolist() == [1, 1, 1] and (y / (x + 1)).tolist() == [1, 1, 1]
    assert np.add(y, x).sum() == 9 and np.sum(x) == 3, "numpy's own functions take a buffer as an array"


def test_whole_numbers(device: MlxDevice) -> None:
    x, y = device.arange(4), device.buffer(np.array([5, -6, 7, 1 << 30], np.int32))
    assert (x + y).tolist() == [5, -5, 9, (1 << 30) + 3] and (y - x).tolist() == [5, -7, 5, (1 << 30) - 3]
    assert (-x).tolist() == [0, -1, -2, -3]
    assert (y * 4).tolist() == [20, -24, 28, 0] and (10 - x).tolist() == [10, 9, 8, 7] and (x + y).dtype.name_ == "i32"
    assert (x / 2).tolist() == [0, 0.5, 1, 1.5] and (x * 0.5).tolist() == [0, 0.5, 1, 1.5], "a fraction makes floats"
    halves = device.full(4, 0.5, "f16")
    assert (x + halves).tolist() == (halves + x).tolist() == [0.5, 1.5, 2.5, 3.5] and (x + halves).dtype.name_ == "f16"


def test_what_the_ops_lack_is_said(device: MlxDevice) -> None:
    with pytest.raises(InvalidArgument, match="add: a is bool.*expected f32"):
        device.zeros(3, "bool") + device.zeros(3, "bool")
    with pytest.raises(InvalidArgument, match="cast one to the other's type"):
        device.zeros(3, "i32") + device.zeros(3, "u8")
    with pytest.raises(InvalidArgument, match="-1 is no u8"):
        device.zeros(3, "u8") + -1
    with pytest.raises(InvalidArgument, match="do not broadcast"):
        device.zeros((2, 3)) + device.zeros((2, 2))


KEYS: list[Any] = [
    (1, 2),
    (1, slice(1, 3)),
    (slice(None), 1),
    (slice(None, None, 2),),
    (..., 0),
    (slice(1, 3), slice(0, 4, 2)),
    (None, 1),
    (1, 2, 1),
    slice(1, None, 2),
    ...,
    [2, 0, -1],
    np.array([[0, 1], [3, 3]]),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indices(device: MlxDevice, key: Any) -> None:
    array = np.arange(48, dtype=np.float32).reshape(4, 4, 3)
    result, wanted = device.buffer(array)[key], array[key]
    assert result.shape == wanted.shape and np.array_equal(result.numpy(), wanted)


@pytest.mark.parametrize("key", [(1, 2), (1, slice(1, 3)), (2, ...)], ids=str)
def test_what_lies_in_one_piece_is_a_view(device: MlxDevice, key: Any) -> None:
    x = device.zeros((4, 4))
    x[key].fill(5)
    wanted = np.zeros((4, 4))
    wanted[key] = 5
    assert x.tolist() == wanted.tolist()


@pytest.mark.parametrize("key", [(4, 0), (0, 4), [4], [-5], (0, 0, 0)], ids=str)
def test_indices_beyond_an_axis(device: MlxDevice, key: Any) -> None:
    with pytest.raises(IndexError) as caught:
        device.zeros((4, 4))[key]
    assert isinstance(caught.value, InvalidArgument)


def test_writing_by_index(device: MlxDevice) -> None:
    x = device.zeros((2, 3), "i32")
    x[1, 1:] = [7, 8]
    x[:, 0] = 1
    x[0][2] = 9
    assert x.tolist() == [[1, 0, 9], [1, 7, 8]]
    pages = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.float32)
    pages.flags.writeable = False
    fixed = device.buffer(pages, copy=False)
    with pytest.raises(InvalidArgument, match="read-only"):
        fixed[0] = 1


def test_constructors(device: MlxDevice) -> None:
    assert device.zeros((2, 2)).tolist() == [[0, 0], [0, 0]] and device.zeros(3).dtype is DType.F32
    assert device.ones(2, "bf16").dtype is DType.BF16 and device.ones(2, "bool").tolist() == [True, True]
    assert device.full(2, -1, "i8", label="minus").label == "minus"
    assert device.arange(2, 8, 2).tolist() == [2, 4, 6] and device.arange(4).dtype is DType.I32
    assert device.arange(3, dtype="u64").dtype is DType.U64 and device.arange(0.0, 1.0, 0.5).dtype is DType.F32
    with pytest.raises(InvalidArgument):
        device.arange(0)


def test_a_buffer_knows_its_device(device: MlxDevice) -> None:
    assert device.zeros(1).device is device and device.zeros(4)[1:].device is device


def test_shown_in_a_line_and_as_a_table(device: MlxDevice) -> None:
    x = device.buffer(np.array([1, 2.5, 1 / 3], np.float32), label="<w>")
    assert repr(x) == "MlxBuffer('<w>', f32[3], 12 bytes: 1, 2.5, 0.33333)"
    assert repr(device.arange(1000)) == "MlxBuffer(i32[1000], 4000 bytes: 0, 1, 2, ..., 999)"
    assert len(repr(device.zeros((64, 64, 64)))) < 100
    html = x._repr_html_()
    assert "&lt;w&gt;" in html and html.count("<td>") == 3 and "0.33333" in html
    big = device.zeros((100, 100))._repr_html_()
    assert big.count("<tr>") == 9 and len(big) < 4000
    pool = device.buffer_pool()
    gone = pool.alloc(8, "f32", 2)
    pool.release(gone)
    assert repr(gone).endswith("released)") and "<table>" not in gone._repr_html_()

"""What elementwise ops, layouts and gathers refuse, and how they say it; how they are tagged and cut up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Dispatch, DType, MlxDevice, fn, ops
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.ops import flat

pytestmark = pytest.mark.soft


@pytest.fixture(scope="module")
def device() -> Any:
    with MlxDevice("soft") as opened:
        yield opened


Make = Callable[..., Any]
f32, f16, u32 = DType.F32, DType.F16, DType.U32
FRACTIONAL: Any = [1.0, 0]
CASES: list[tuple[str, Callable[[Any, Make], Any], str]] = [
    ("types", lambda e, b: ops.add(e, b(3), b(3, dtype=f16)), "add: b is f16[3] and a is f32[3]; cast one"),
    ("shape", lambda e, b: ops.add(e, b(2, 3), b(2)), "add: b is f32[2], expected the shape of a, f32[2, 3], or"),
    ("row", lambda e, b: ops.mul(e, b(3), b(2, 3)), "mul: b is f32[2, 3], expected the shape of a"),
    ("whole", lambda e, b: ops.div(e, b(3, dtype=u32), b(3, dtype=u32)), "div: a is u32[3], expected f32 or f16"),
    ("out", lambda e, b: ops.scalar_mul(e, b(3), 2.0, b(4)), "scalar_mul: out is f32[4], expected shape [3]"),
    ("same", lambda e, b: ops.cast(e, b(3), f32), "cast: x is f32[3] and dtype is f32, expected f16 or bf16"),
    ("other", lambda e, b: ops.cast(e, b(3), "uint32"), "dtype is u32, expected f16 or bf16"),
    ("fill", lambda e, b: ops.fill(e, b(3, dtype=DType.U8), 256), "fill: value is 256, which no u8 can hold"),
    ("gate", lambda e, b: ops.silu_mul(e, b(3), b(4)), "silu_mul: gate is f32[3], expected shape [4]"),
    ("cap", lambda e, b: ops.softcap(e, b(3), 0.0), "softcap: cap is 0.0, expected a number above 0"),
    ("strides", lambda e, b: ops.copy(e, b(9), shape=(2, 2), strides=(1,)), "expected a stride for each axis"),
    ("outside", lambda e, b: ops.copy(e, b(9), shape=(3,), strides=(4,), offset=1), "elements 1 to 9 of x, which is"),
    ("before", lambda e, b: ops.copy(e, b(9), shape=(3,), strides=(-1,)), "elements -2 to 0"),
    ("axes", lambda e, b: ops.transpose(e, b(2, 3), (0, 0)), "transpose: axes is (0, 0), expected each of the 2 axes"),
    ("axis", lambda e, b: ops.transpose(e, b(2, 3), (0, 2)), "transpose: axis is 2, expected one of the 2 axes"),
    ("whole axis", lambda e, b: ops.transpose(e, b(2, 3), FRACTIONAL), "axis is 1.0, expected one of the 2 axes"),
    ("rank", lambda e, b: ops.permute_021(e, b(2, 3)), "permute_021: x is f32[2, 3], expected 3 axes"),
    ("repeats", lambda e, b: ops.repeat(e, b(2), 0), "repeat: repeats is 0, expected at least 1"),
    ("empty", lambda e, b: ops.slice(e, b(5), (3,), (3,)), "slice: [3] to [3] of f32[5] is empty"),
    ("numbers", lambda e, b: ops.slice(e, b(5), (0, 1), (2, 3)), "expected numbers for each axis"),
    ("fits", lambda e, b: ops.slice_update(e, b(5), b(3), (3,)), "f32[3] at [3] does not fit in f32[5]"),
    ("part", lambda e, b: ops.slice_update(e, b(5), b(3, dtype=f16), (0,)), "expected a part of f32[5]"),
    ("nothing", lambda e, b: ops.concat(e, []), "concat: no buffers were given"),
    ("agree", lambda e, b: ops.concat(e, [b(2, 3), b(3, 2)], axis=1), "concat: f32[3, 2] and f32[2, 3], expected one"),
    (
        "widths",
        lambda e, b: ops.qkv_split(e, b(2, 6), (2, 2, 3)),
        "widths is [2, 2, 3], expected three that add up to 6",
    ),
    ("ids", lambda e, b: ops.gather(e, b(2, 6), b(3)), "gather: ids is f32[3], expected u32 or i32"),
    ("table", lambda e, b: ops.embedding(e, b(3, dtype=u32), b(6)), "embedding: table is f32[6], expected rows"),
    (
        "bits",
        lambda e, b: ops.quantized_embedding(e, b(1, dtype=u32), b(2, 8, dtype=u32), b(2, 1), b(2, 1), bits=7),
        "7 bits in groups of 64, expected (2, 3, 4, 5, 6, 8) bits",
    ),
    (
        "groups",
        lambda e, b: ops.quantized_embedding(e, b(1, dtype=u32), b(2, 7, dtype=u32), b(2, 1), b(2, 1)),
        "expected rows of whole groups of 64 4-bit values",
    ),
]


@pytest.mark.parametrize(("call", "said"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_refused(device: MlxDevice, call: Callable[[Any, Make], Any], said: str) -> None:
    def make(*shape: int, dtype: DType = DType.F32) -> Any:
        return device.empty(shape, dtype)

    enc = device.command_encoder()
    with pytest.raises(InvalidArgument) as problem:
        call(enc, make)
    enc.discard()
    assert said in str(problem.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fn.add(np.ones((2, 3), "f4"), np.ones((3, 2), "f4")), "do not broadcast"),
        (lambda: fn.take(np.ones((2, 3), "f4"), [0.5]), "expected whole numbers"),
        (lambda: fn.take(np.ones((2, 3), "f4"), [1 << 40]), "expected at most 32 bits"),
        (lambda: fn.take(np.ones((2, 3), "f4"), [0], axis=2), "axis is 2, expected one of the 2 axes"),
        (lambda: fn.broadcast_to(np.ones((2, 3), "f4"), (2, 4)), "cannot be broadcast to (2, 4)"),
    ],
)
def test_functions_refuse_too(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as problem:
        call()
    assert said in str(problem.value)


def test_long_buffers_take_several_launches(device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "MOST", 10)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    with device.command_encoder() as enc:
        doubled = ops.add(enc, device.buffer(x), device.buffer(x))
        ones = ops.fill(enc, device.empty((5, 5), DType.F16), 1)
    assert enc.tally.dispatches == 3 + 3 and enc.tally.barriers == 0
    assert np.array_equal(doubled.numpy(), x + x) and (ones.numpy() == 1).all()


def test_many_axes_take_several_launches(device: MlxDevice) -> None:
    x = np.arange(2**7, dtype=np.float32).reshape((2,) * 7)
    axes = (6, 4, 2, 0, 5, 3, 1)
    with device.command_encoder() as enc:
        turned = ops.transpose(enc, device.buffer(x), axes)
    assert np.array_equal(turned.numpy(), x.transpose(axes))


def test_sums_and_products_of_one_shape_are_tagged(device: MlxDevice) -> None:
    x, row = device.empty((2, 3), DType.F32), device.empty(3, DType.F32)
    enc = device.command_encoder()
    enc.start_capture()
    for op, b in ((ops.add, x), (ops.mul, x), (ops.add, row), (ops.mul, row)):
        op(enc, x, b)
    kinds = [node.op_kind.value for node in enc.take_capture() or () if isinstance(node, Dispatch)]
    enc.discard()
    assert kinds == ["ElemAdd", "ElemMul", "Other", "Other"]

"""Products refuse what does not fit, and say what they were given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import DType, MlxDevice, ops
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.weights.ggml_types import GGML_TYPES


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice() as opened:
        yield opened


def refuses(device: MlxDevice, message: str, op: Any, *shapes: Any, **options: Any) -> None:
    """`shapes` are (type, *axes) of a buffer, or plain values."""
    buffers = [device.empty(each[1:], each[0]) if isinstance(each, tuple) else each for each in shapes]
    options = {
        name: device.empty(each[1:], each[0]) if isinstance(each, tuple) else each for name, each in options.items()
    }
    enc = device.command_encoder()
    with pytest.raises(InvalidArgument, match=message):
        op(enc, *buffers, **options)
    enc.discard()


F32, F16, U32, U8 = DType.F32, DType.F16, DType.U32, DType.U8


@pytest.mark.parametrize(
    ("message", "shapes", "options"),
    [
        (r"matmul: a is u32\[2, 3\], expected f32", ((U32, 2, 3), (F32, 3, 4)), {}),
        (r"matmul: b is f32\[3, 4\], expected f16", ((F16, 2, 3), (F32, 3, 4)), {}),
        (r"at least two axes", ((F32, 3), (F32, 3, 4)), {}),
        (r"sum over 3 and 4 values", ((F32, 2, 3), (F32, 4, 3)), {}),
        (r"do not broadcast", ((F32, 2, 2, 3), (F32, 3, 3, 4)), {}),
        (r"separate axes", ((F32, 2, 1, 2, 1, 1, 3), (F32, 1, 2, 1, 2, 3, 1)), {}),
        (r"the addend is f32\[5\]", ((F32, 2, 3), (F32, 3, 4)), {"bias": (F32, 5)}),
        (r"the addend is f32\[2, 2, 4\]", ((F32, 2, 3), (F32, 3, 4)), {"bias": (F32, 2, 2, 4)}),
        (r"out is f32\[2, 3\], expected shape \[2, 4\]", ((F32, 2, 3), (F32, 3, 4)), {"out": (F32, 2, 3)}),
    ],
)
def test_matmul(device: MlxDevice, message: str, shapes: Any, options: Any) -> None:
    refuses(device, message, ops.matmul, *shapes, **options)


W, S = (U32, 4, 8), (F32, 4, 1)


@pytest.mark.parametrize(
    ("message", "shapes", "options"),
    [
        (r"mode is 'nvfp4'", ((F32, 1, 64), W, S, S), {"mode": "nvfp4"}),
        (r"7 bits in groups of 64", ((F32, 1, 64), W, S, S), {"bits": 7}),
        (r"mxfp4 with 8 bits", ((F32, 1, 64), W, (U8, 4, 2)), {"bits": 8, "mode": "mxfp4"}),
        (r"w is f32\[4, 8\], expected u32", ((F32, 1, 64), (F32, 4, 8), S, S), {}),
        (r"rows of whole groups", ((F32, 1, 64), (U32, 4, 9), S, S), {}),
        (r"scales is f32\[4, 2\], expected shape \[4, 1\]", ((F32, 1, 64), W, (F32, 4, 2), S), {}),
        (r"scales is f32\[4, 1\], expected u8", ((F32, 1, 64), W, S), {"mode": "mxfp4"}),
        (r"biases is None, expected a buffer", ((F32, 1, 64), W, S), {}),
        (r"biases is f16\[4, 1\], expected f32", ((F32, 1, 64), W, S, (F16, 4, 1)), {}),
        (r"expected rows of 64 values", ((F32, 1, 63), W, S, S), {}),
        (r"expected rows of 4 values", ((F32, 1, 64), W, S, S), {"transpose": False}),
        (r"do not broadcast", ((F32, 2, 1, 64), (U32, 3, 4, 8), (F32, 3, 4, 1), (F32, 3, 4, 1)), {}),
        (r"a batch of rows", ((F32, 64), (U32, 3, 4, 8), (F32, 3, 4, 1), (F32, 3, 4, 1)), {}),
    ],
)
def test_quantized_matmul(device: MlxDevice, message: str, shapes: Any, options: Any) -> None:
    refuses(device, message, ops.quantized_matmul, *shapes, **options)


def test_quantize_and_experts(device: MlxDevice) -> None:
    refuses(device, "whole groups of 64", ops.quantize, (F32, 2, 65))
    refuses(device, "out has 1 buffers, expected 3", ops.quantize, (F32, 2, 64), out=[device.empty(1, U32)])
    experts = (U32, 2, 4, 8), (F32, 2, 4, 1), (F32, 2, 4, 1)
    refuses(
        device,
        r"expected x of shape \[3, 64\] or \[3, 2, 64\]",
        ops.quantized_matmul_id,
        (F32, 4, 64),
        *experts,
        (U32, 3, 2),
    )
    refuses(device, "ids is f32", ops.quantized_matmul_id, (F32, 3, 64), *experts, (F32, 3, 2))
    refuses(device, "w is u32.*expected 3 axes", ops.quantized_matmul_id, (F32, 3, 64), W, S, S, (U32, 3, 2))


def test_dense_experts(device: MlxDevice) -> None:
    refuses(device, "w is f32.*expected f16", ops.matmul_id, (F16, 3, 64), (F32, 2, 4, 64), (U32, 3, 2))
    refuses(device, "expected 3 axes", ops.matmul_id, (F32, 3, 64), (F32, 4, 64), (U32, 3, 2))
    refuses(device, "expected x of shape", ops.matmul_id, (F32, 3, 63), (F32, 2, 4, 64), (U32, 3, 2))


def test_ggml(device: MlxDevice) -> None:
    refuses(device, "'Q9_9' is not a block format", ops.ggml_matmul, (F32, 1, 32), (U8, 4, 34), "Q9_9")
    refuses(device, "w is f32", ops.ggml_matmul, (F32, 1, 32), (F32, 4, 34), "Q8_0")
    refuses(device, "whole Q8_0 blocks, 34 bytes each", ops.ggml_matmul, (F32, 1, 32), (U8, 4, 33), "Q8_0")
    refuses(device, r"x is f32\[1, 64\], expected shape \[1, 32\]", ops.ggml_matmul, (F32, 1, 64), (U8, 4, 34), "Q8_0")
    refuses(device, "expected 2 axes", ops.ggml_matmul, (F32, 1, 32), (U8, 2, 4, 34), "Q8_0")
    refuses(device, "expected 3 axes", ops.ggml_matmul_id, (F32, 1, 32), (U8, 4, 34), (U32, 1, 2), "Q8_0")
    refuses(device, "ids is f32", ops.ggml_embedding, (F32, 2), (U8, 4, 34), "Q8_0")
    refuses(device, "out is u32", ops.ggml_dequantize, (U8, 4, 34), "Q8_0", out=(U32, 4, 32))
    odd = device.empty(69, U8).slice_view(1, 68).reshape(2, 34)
    refuses(device, "begins at byte 1", ops.ggml_dequantize, odd, "Q8_0")


def test_a_type_of_ggml_is_as_good_as_its_name(device: MlxDevice) -> None:
    kind = GGML_TYPES["Q8_0"]
    w = device.buffer(np.arange(68, dtype=np.uint8).reshape(2, 34))
    with device.command_encoder() as enc:
        by_type, by_name = ops.ggml_dequantize(enc, w, kind), ops.ggml_dequantize(enc, w, "Q8_0")
    np.testing.assert_array_equal(by_type.numpy(), by_name.numpy())

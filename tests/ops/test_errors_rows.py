"""What the ops on rows refuse: norms, reductions, sorting, softmax, sampling and rope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import CommandEncoder, InvalidArgument, MlxBuffer, MlxDevice, fn, ops

Make = Callable[..., MlxBuffer]


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice() as opened:
        yield opened


CASES: dict[str, tuple[Callable[[CommandEncoder, Make], Any], str]] = {
    "weight of another length": (
        lambda enc, b: ops.rms_norm(enc, b(2, 8), b(9)),
        r"rms_norm: weight is f32\[9\], expected shape \[8\] \(one per value of a row\)",
    ),
    "weight of another type": (
        lambda enc, b: ops.rms_norm(enc, b(2, 8), b(8, dtype="f16")),
        r"rms_norm: weight is f16\[8\] and x is f32\[2, 8\]; cast one",
    ),
    "no rows": (lambda enc, b: ops.rms_norm(enc, b()), r"rms_norm: x is f32\[\], expected at least one axis"),
    "out of another shape": (
        lambda enc, b: ops.rms_norm(enc, b(2, 8), out=b(8, 2)),
        r"rms_norm: out is f32\[8, 2\], expected shape \[2, 8\]",
    ),
    "bias": (lambda enc, b: ops.layer_norm(enc, b(2, 8), None, b(7)), r"layer_norm: bias is f32\[7\]"),
    "integers": (lambda enc, b: ops.l2_norm(enc, b(8, dtype="i32")), r"l2_norm: x is i32\[8\], expected f32 or f16"),
    "residual": (
        lambda enc, b: ops.residual_rms_norm(enc, b(2, 8), b(8)),
        r"residual_rms_norm: residual is f32\[8\], expected shape \[2, 8\]",
    ),
    "sum": (lambda enc, b: ops.residual_rms_norm(enc, b(8), b(8), sum=b(4)), r"residual_rms_norm: sum is f32\[4\]"),
    "factor": (lambda enc, b: ops.rms_norm_mul(enc, b(8), None, b(9)), r"rms_norm_mul: factor is f32\[9\]"),
    "heads": (
        lambda enc, b: ops.head_norm_rope(enc, b(2, 8), None, 0),
        r"head_norm_rope: x is f32\[2, 8\], expected \[tokens, heads, width\]",
    ),
    "odd dims": (lambda enc, b: ops.rope(enc, b(2, 8), dims=3), r"rope: dims is 3, expected an even number up to"),
    "wide dims": (lambda enc, b: ops.rope(enc, b(2, 8), dims=10), r"rope: dims is 10, expected an even number up to"),
    "base": (lambda enc, b: ops.rope(enc, b(2, 8), base=0.0), r"rope: base is 0.0, expected a positive number"),
    "no base": (lambda enc, b: ops.rope(enc, b(2, 8), base=None), r"rope: base is None, so factors"),
    "one axis": (lambda enc, b: ops.rope(enc, b(8)), r"rope: x is f32\[8\], expected \[\.\.\., tokens, width\]"),
    "offsets": (
        lambda enc, b: ops.rope(enc, b(2, 1, 3, 8), offset=b(3, dtype="u32")),
        r"rope: offset is u32\[3\], expected one element or 2, one per sequence",
    ),
    "positions": (
        lambda enc, b: ops.rope_at(enc, b(2, 1, 8), b(3, dtype="u32")),
        r"rope_at: positions is u32\[3\], expected shape \[2\] \(one per token\)",
    ),
    "factors": (lambda enc, b: ops.rope_at(enc, b(2, 1, 8), 0, factors=b(3)), r"rope_at: factors is f32\[3\]"),
    "scale with factors": (
        lambda enc, b: ops.rope(enc, b(2, 8), factors=b(4), scale=1e4),
        r"rope: scale is 10000.0, expected less than 800",
    ),
    "sections": (
        lambda enc, b: ops.rope_multi(enc, b(2, 1, 8), b(4, 2, dtype="i32"), sections=[]),
        r"rope_multi: sections is \(\), expected one to four",
    ),
    "mode": (
        lambda enc, b: ops.rope_multi(enc, b(2, 1, 8), b(4, 2, dtype="i32"), sections=[4], mode="x"),  # type: ignore[arg-type]
        r"rope_multi: mode is 'x', expected 'mrope', 'imrope' or 'vision'",
    ),
    "vision": (
        lambda enc, b: ops.rope_multi(enc, b(2, 1, 8), b(4, 2, dtype="i32"), sections=[1, 1], mode="vision"),
        r"vision has two that fill the head",
    ),
    "axes": (
        lambda enc, b: ops.rope_multi(enc, b(2, 1, 8), b(1, 2, dtype="i32"), sections=[2, 2]),
        r"rope_multi: positions is i32\[1, 2\], expected shape \[2 or more, 2\]",
    ),
    "patches": (
        lambda enc, b: ops.rope_2d(enc, b(2, 1, 6), b(2, 2, dtype="i32")),
        r"rope_2d: x is f32\[2, 1, 6\], expected a width that is a multiple of 4",
    ),
    "k": (lambda enc, b: ops.top_k(enc, b(8), 9), r"top_k: k is 9, expected 1 to 8"),
    "sort in place": (
        lambda enc, b: (lambda x: ops.sort(enc, x, out=x))(b(8)),
        r"sort: out shares memory with x, f32\[8\], expected memory of its own",
    ),
    "index": (lambda enc, b: ops.argmax(enc, b(8), out=b()), r"argmax: out is f32\[\], expected u32"),
    "mask": (
        lambda enc, b: ops.scale_mask_softmax(enc, b(3, 8), b(2, 8)),
        r"scale_mask_softmax: mask is f32\[2, 8\], expected rows of 8, as many as divide 3",
    ),
    "mask type": (
        lambda enc, b: ops.scale_mask_softmax(enc, b(3, 8), b(3, 8, dtype="u8")),
        r"scale_mask_softmax: mask is u8\[3, 8\], expected f32 or f16 or bf16 or bool",
    ),
    "temperature": (lambda enc, b: ops.softmax_sample(enc, b(8), temperature=-1.0), r"temperature is -1.0, expected"),
    "top_p": (lambda enc, b: ops.softmax_sample(enc, b(8), top_p=0.0), r"top_p is 0.0, expected more than 0"),
    "min_p": (lambda enc, b: ops.softmax_sample(enc, b(8), min_p=1.5), r"min_p is 1.5, expected 0 to 1"),
    "penalty alone": (
        lambda enc, b: ops.softmax_sample(enc, b(8), repetition_penalty=1.1),
        r"repetition_penalty is 1.1, expected a history with it",
    ),
    "history": (
        lambda enc, b: ops.softmax_sample(enc, b(2, 8), history=b(3, 4, dtype="u32")),
        r"history is u32\[3, 4\], expected 2 rows, as logits have",
    ),
    "history length": (
        lambda enc, b: ops.softmax_sample(enc, b(2, 8), history=b(2, 4, dtype="u32"), history_length=5),
        r"history_length is 5, expected at most 4",
    ),
    "step": (lambda enc, b: ops.softmax_sample(enc, b(8), step=-1), r"step is -1, expected a number of 32 bits"),
}


@pytest.mark.soft
@pytest.mark.parametrize("name", CASES)
def test_refusal(device: MlxDevice, name: str) -> None:
    attempt, message = CASES[name]
    enc = device.command_encoder()
    with pytest.raises(InvalidArgument, match=message):
        attempt(enc, lambda *shape, dtype="f32": device.empty(shape, dtype))
    enc.discard()


@pytest.mark.soft
def test_functions_refuse_axes_that_are_not_there(device: MlxDevice) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(InvalidArgument, match=r"softmax: axis is 2, expected axes of f32\[2, 3\]"):
        fn.softmax(x, axis=2, stream=device)
    with pytest.raises(InvalidArgument, match="sum: axis is .0, -2., expected each axis once"):
        fn.sum(x, axis=[0, -2], stream=device)
    with pytest.raises(InvalidArgument, match="exactly one of base and freqs"):
        fn.rope(x, 2, freqs=np.ones(1, np.float32), stream=device)
    with pytest.raises(InvalidArgument, match=r"offset is float64\[1\], expected whole numbers"):
        fn.rope(x, 2, offset=[0.5], stream=device)

"""Attention and its caches say what was given and what was expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxDevice, fn, ops
from mlx_native_py.errors import InvalidArgument

Make = Callable[..., MlxBuffer]
Refuses = Callable[..., Callable[..., None]]


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice() as opened:
        yield opened


@pytest.fixture
def make(device: MlxDevice) -> Make:
    return lambda *shape, dtype="f32": device.empty(shape, dtype)


@pytest.fixture
def refuses(device: MlxDevice) -> Refuses:
    def of(op: Any, **always: Any) -> Callable[..., None]:
        def say(says: str, *args: Any, **options: Any) -> None:
            with pytest.raises(InvalidArgument, match=says):
                op(device.command_encoder(), *args, **{**always, **options})

        return say

    return of


@pytest.mark.parametrize(
    ("q", "k", "options", "says"),
    [
        ((2, 4, 1), (1, 2, 5, 64), {}, "q is f32.2, 4, 1., expected four axes"),
        ((1, 4, 1, 64), (1, 2, 5, 32), {}, "k has rows of 32"),
        ((1, 4, 1, 520), (1, 2, 5, 520), {}, "none above 512"),
        ((1, 4, 1, 64), (1, 3, 5, 64), {}, "1 sequences of 3 heads, expected 1 of a number that divides 4"),
        ((2, 4, 1, 64), (1, 2, 5, 64), {}, "1 sequences of 2 heads, expected 2"),
        ((1, 4, 1, 64), (1, 2, 5, 64), {"length": 6}, "length is 6, expected at most 5"),
        ((1, 4, 1, 64), (1, 2, 5, 64), {"length": -1}, "length is -1, expected at least 0"),
        ((1, 4, 1, 64), (1, 2, 5, 64), {"window": 0}, "window is 0, expected at least 1"),
        ((1, 4, 1, 64), (1, 2, 5, 64), {"softcap": 0.0}, "softcap is 0.0, expected more than 0"),
    ],
)
def test_sdpa(make: Make, refuses: Refuses, q: Any, k: Any, options: Any, says: str) -> None:
    refuses(ops.sdpa, scale=1.0)(says, make(*q), make(*k), make(*k), **options)


def test_sdpa_buffers(make: Make, refuses: Refuses) -> None:
    q, k = make(1, 4, 1, 64), make(1, 2, 5, 64)
    say = refuses(ops.sdpa, scale=1.0)
    say("mask is f32.3, 5., expected a shape that broadcasts to .1, 4, 1, 5.", q, k, k, mask=make(3, 5))
    say("mask is i32.5., expected bool or f32", q, k, k, mask=make(5, dtype="i32"))
    say("sinks is f32.3., expected shape .4. .a logit per head", q, k, k, sinks=make(3))
    say("length is i32.1., expected u32", q, k, k, length=make(1, dtype="i32"))
    say("length is u32.3., expected one for each of 1 sequences", q, k, k, length=make(3, dtype="u32"))
    say("v has rows .1, 2, 6. of f32, expected .1, 2, 5. of f32", q, k, make(1, 2, 6, 64))
    say("v has rows .1, 2, 5. of f16", q, k, make(1, 2, 5, 64, dtype="f16"))
    say("q is f16 and k has f32", make(1, 4, 1, 64, dtype="f16"), k, k)
    say("out is f32.1, 4, 1, 32., expected shape", q, k, k, out=make(1, 4, 1, 32))
    say("k is 3, expected a buffer", q, 3, k)


def test_sdpa_quantised(make: Make, refuses: Refuses) -> None:
    q, scales = make(1, 4, 1, 64), make(1, 2, 5, 2)
    say = refuses(lambda enc, k: ops.sdpa(enc, q, k, k, scale=1.0))
    say("for 64 columns, expected 8 or 4 bits", (make(1, 2, 5, 4, dtype="u32"), scales, scales))
    say(
        "expected 8 or 4 bits in groups of 32 or 64",
        (make(1, 2, 5, 8, dtype="u32"), make(1, 2, 5, 4), make(1, 2, 5, 4)),
    )
    say("biases of k is f32.1, 2, 5, 1.", (make(1, 2, 5, 8, dtype="u32"), scales, make(1, 2, 5, 1)))
    say("scales of k are f32.1, 2, 6, 2.", (make(1, 2, 5, 8, dtype="u32"), make(1, 2, 6, 2), make(1, 2, 6, 2)))
    say("words of k is f32", (make(1, 2, 5, 8), scales, scales))
    half = make(1, 2, 5, 2, dtype="f16")
    say("q is f32 and k has f16", (make(1, 2, 5, 8, dtype="u32"), half, half))


def test_kv_cache_copy(make: Make, refuses: Refuses) -> None:
    new, cache = make(1, 2, 3, 64), make(1, 2, 8, 64)
    say = refuses(ops.kv_cache_copy, position=0)
    say("3 rows at position 6 do not fit a capacity of 8", new, new, cache, cache, position=6)
    say("keys is f32.1, 2, 3, 64., expected shape .1, 2, 3, 32.", new, new, make(1, 2, 8, 32), cache)
    say("values is f32.1, 2, 4, 64., expected shape .1, 2, 3, 64.", new, make(1, 2, 4, 64), cache, cache)
    say("value_cache .1, 2, 9.", new, new, cache, make(1, 2, 9, 64))
    say(
        "expected one type, or f32 for one of them",
        *[make(1, 2, 3, 64, dtype="f16")] * 2,
        *[make(1, 2, 8, 64, dtype="bf16")] * 2,
    )
    say("9 rows at position 0 do not fit", *[make(1, 2, 9, 64)] * 2, cache, cache, position=make(1, dtype="u32"))
    say("an axis for the 2 sequences", *[make(3, 2, 64)] * 2, *[make(2, 2, 8, 64)] * 2)
    say("expected three axes or four", *[make(64)] * 2, cache, cache)


def test_kv_cache_quantize(make: Make, refuses: Refuses) -> None:
    new, scales = make(1, 2, 3, 64), make(1, 2, 8, 2)
    eight = make(1, 2, 8, 16, dtype="u32"), scales, scales
    four = make(1, 2, 8, 8, dtype="u32"), scales, scales
    say = refuses(ops.kv_cache_quantize, position=0)
    say("differ in bits or group size", new, new, eight, four)
    say("3 rows at position 6 do not fit a capacity of 8", new, new, eight, eight, position=6)
    say("key_cache is f32.1, 2, 8, 64., expected words", new, new, make(1, 2, 8, 64), eight)
    half = make(1, 2, 3, 64, dtype="f16")
    say("scales of key_cache is f32.1, 2, 8, 2., expected f16", half, half, eight, eight)


def test_attention_mask(make: Make, refuses: Refuses) -> None:
    say = refuses(ops.attention_mask)
    say("queries is 0, expected at least 1", 0, 3)
    say("window is 0, expected at least 1", 2, 3, window=0)
    say("dtype is DType.I32, expected bool", 2, 3, dtype=make(1, dtype="i32").dtype)


def test_function() -> None:
    x = np.zeros((1, 1, 1, 64), np.float32)
    with pytest.raises(InvalidArgument, match="mask is 'tree', expected \"causal\" or an array"):
        fn.scaled_dot_product_attention(x, x, x, scale=1.0, mask="tree")

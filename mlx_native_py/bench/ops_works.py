"""The workloads of `mlx-native bench ops`, with their equivalents in other libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["OpWork", "WORKS"]

Array = NDArray[Any]
_F32 = np.float32


@dataclass(frozen=True)
class OpWork:
    """An op on arrays of a certain size, and its equivalents in numpy, MLX and torch.

    `numpy(*arrays)` is also the reference result; `timed=False` excludes it from timing. `mlx(mx, *arrays)` and
    `torch(torch, *arrays)` get arrays of their own. A list of arrays is one argument.
    """

    name: str
    op: str
    arrays: Callable[[], list[Any]]
    numpy: Callable[..., Any]
    mlx: Callable[..., Any] | None = None
    torch: Callable[..., Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    flops: float = 0.0
    touched: int = 0
    """Bytes; 0 means those of all arrays and results."""
    timed: bool = True
    tolerance: float = 1e-3
    bar: bool = False
    """Whether the software device should be faster than MLX's CPU here."""


def _normal(*shape: int, dtype: Any = _F32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=_F32).astype(dtype)


def _ids(count: int, below: int) -> Array:
    return np.random.default_rng(1).integers(0, below, count, dtype=np.uint32)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _rms(x: Array) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, -1, keepdims=True) + _F32(1e-5)))


def _layer_norm(x: Array, w: Array, b: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt(np.mean(centred * centred, -1, keepdims=True) + _F32(1e-5)) * w + b)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu_approx(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), _F32)


def _attention(q: Array, k: Array, v: Array) -> Array:
    return np.asarray(_softmax(q @ k.swapaxes(-1, -2) * _F32(q.shape[-1] ** -0.5)) @ v)


def _packed(n: int, k: int, bits: int, group: int = 64) -> list[Array]:
    words = np.random.default_rng(2).integers(0, 1 << 32, (n, k * bits // 32), dtype=np.uint32)
    return [words, _normal(n, k // group), _normal(n, k // group, seed=1)]


def _values(w: Array, scales: Array, biases: Array, bits: int) -> Array:
    stream = np.unpackbits(w.view(np.uint8), axis=1, bitorder="little").reshape(len(w), -1, bits)
    quants = stream @ (1 << np.arange(bits)).astype(_F32)
    group = quants.shape[1] // scales.shape[1]
    return np.asarray(quants * scales.repeat(group, 1) + biases.repeat(group, 1), _F32)


def _q8_0(n: int, k: int) -> Array:
    blocks = np.zeros((n, k // 32), [("d", "<f2"), ("q", "i1", 32)])
    blocks["d"] = np.abs(_normal(n, k // 32, seed=3)) / 64
    blocks["q"] = np.random.default_rng(4).integers(-127, 128, (n, k // 32, 32))
    return blocks.view(np.uint8).reshape(n, -1)


def _q8_0_values(w: Array) -> Array:
    blocks = w.reshape(-1).view([("d", "<f2"), ("q", "i1", 32)]).reshape(len(w), -1)
    return np.asarray(blocks["d"][..., None].astype(_F32) * blocks["q"], _F32).reshape(len(w), -1)


def _rope(x: Array, offset: int) -> Array:
    half = x.shape[-1] // 2
    angles = (offset + np.arange(x.shape[-2]))[:, None] * 10000.0 ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(_F32), np.sin(angles).astype(_F32)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def _top_k(logits: Array, k: int) -> tuple[Array, Array]:
    p = _softmax(logits)
    ids = np.argsort(-p, -1, kind="stable")[:, :k]
    chosen = np.take_along_axis(p, ids, -1)
    return ids, chosen / chosen.sum(-1, keepdims=True)


def _likeliest(logits: Array) -> tuple[Array, Array]:
    most = logits.max(-1)
    return logits.argmax(-1), -np.log(np.exp(logits - most[:, None]).sum(-1))


def _experts(x: Array, w: Array, scales: Array, biases: Array, ids: Array) -> Array:
    return np.stack([x[0] @ _values(w[i], scales[i], biases[i], 4).T for i in ids[0]])[None]


def _convolution(x: Array, weight: Array, state: Array) -> Array:
    whole = np.concatenate([state.swapaxes(1, 2), x], 1)
    y = np.asarray(sum(weight[:, k] * whole[:, k : k + x.shape[1]] for k in range(weight.shape[1])))
    return np.asarray(y * _sigmoid(y))


def _delta_step(q: Array, k: Array, v: Array, g: Array, beta: Array, state: Array) -> Array:
    s = state[0] * np.exp(-g[0, 0])[:, None, None]
    error = v[0, 0] - np.einsum("hvk,hk->hv", s, k[0, 0])
    s = s + beta[0, 0][:, None, None] * error[:, :, None] * k[0, 0][:, None, :]
    return np.asarray(np.einsum("hvk,hk->hv", s, q[0, 0])[None, None])


def _put(keys: Array, values: Array, key_cache: Array, value_cache: Array) -> tuple[Array, Array]:
    for new, cache in ((keys, key_cache), (values, value_cache)):
        cache[:, :, 100 : 100 + new.shape[2]] = new
    return key_cache, value_cache


_M = 1 << 20
_Q4 = {"group_size": 64, "bits": 4}
_HEADS = {"scale": 128**-0.5}

# fmt: off
WORKS = [
    OpWork("add f32 16M", "add", lambda: [_normal(16 * _M), _normal(16 * _M, seed=1)], np.add,
         lambda mx, a, b: mx.add(a, b), lambda torch, a, b: torch.add(a, b), flops=16 * _M),
    OpWork("rms_norm 1024x4096", "rms_norm", lambda: [_normal(1024, 4096), _normal(4096)], lambda x, w: _rms(x) * w,
         lambda mx, x, w: mx.fast.rms_norm(x, w, 1e-5),
         lambda torch, x, w: torch.nn.functional.rms_norm(x, (4096,), w, 1e-5), flops=4 * 4 * _M, bar=True),
    OpWork("softmax 1024x4096", "softmax", lambda: [_normal(1024, 4096)], _softmax,
         lambda mx, x: mx.softmax(x, axis=-1), lambda torch, x: torch.softmax(x, -1), flops=4 * 4 * _M, bar=True),
    OpWork("q4 matvec 4096^2", "quantized_matmul", lambda: [_normal(1, 4096), *_packed(4096, 4096, 4)],
         lambda x, w, s, b: x @ _values(w, s, b, 4).T, lambda mx, *all: mx.quantized_matmul(*all, **_Q4),
         options=_Q4, flops=2 * 16 * _M, timed=False, bar=True),
    OpWork("matmul 512^3", "matmul", lambda: [_normal(512, 512), _normal(512, 512, seed=1)], np.matmul,
         lambda mx, a, b: mx.matmul(a, b), lambda torch, a, b: a @ b, flops=2 * 512**3, bar=True),
    OpWork("sdpa decode 32x1024x128", "sdpa",
         lambda: [_normal(1, 32, 1, 128), _normal(1, 32, 1024, 128, seed=1), _normal(1, 32, 1024, 128, seed=2)],
         _attention, lambda mx, q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=128**-0.5),
         lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
         options=_HEADS, flops=4 * 32 * 1024 * 128, bar=True),
    OpWork("sdpa prefill 8x256x128", "sdpa",
         lambda: [_normal(1, 8, 256, 128), _normal(1, 8, 256, 128, seed=1), _normal(1, 8, 256, 128, seed=2)],
         _attention, lambda mx, q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=128**-0.5),
         lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v),
         options=_HEADS, flops=4 * 8 * 256 * 256 * 128),
    OpWork("mul f16 4M", "mul", lambda: [_normal(4 * _M, dtype=np.float16), _normal(4 * _M, dtype=np.float16, seed=1)],
         np.multiply, lambda mx, a, b: a * b, lambda torch, a, b: a * b, flops=4 * _M),
    OpWork("add bias 1024x4096", "add", lambda: [_normal(1024, 4096), _normal(4096, seed=1)], np.add,
         lambda mx, a, b: a + b, lambda torch, a, b: a + b, flops=4 * _M),
    OpWork("cast f16 4M", "cast", lambda: [_normal(4 * _M)], lambda x: x.astype(np.float16),
         lambda mx, x: x.astype(mx.float16), lambda torch, x: x.half(), options={"dtype": "f16"}),
    OpWork("silu 4M", "silu", lambda: [_normal(4 * _M)], lambda x: x * _sigmoid(x),
         lambda mx, x: x * mx.sigmoid(x), lambda torch, x: torch.nn.functional.silu(x), flops=4 * 4 * _M),
    OpWork("gelu_approx 4M", "gelu_approx", lambda: [_normal(4 * _M)], _gelu_approx,
         lambda mx, x: 0.5 * x * (1 + mx.tanh(0.7978846 * (x + 0.044715 * x**3))),
         lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"), flops=8 * 4 * _M),
    OpWork("silu_mul 4M", "silu_mul", lambda: [_normal(4 * _M), _normal(4 * _M, seed=1)],
         lambda gate, up: gate * _sigmoid(gate) * up, lambda mx, gate, up: gate * mx.sigmoid(gate) * up,
         lambda torch, gate, up: torch.nn.functional.silu(gate) * up, flops=5 * 4 * _M),
    OpWork("transpose_2d 2048^2", "transpose_2d", lambda: [_normal(2048, 2048)], lambda x: np.ascontiguousarray(x.T),
         lambda mx, x: mx.contiguous(x.T), lambda torch, x: x.T.contiguous()),
    OpWork("permute_021 1024x32x128", "permute_021", lambda: [_normal(1024, 32, 128)],
         lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)), lambda mx, x: mx.contiguous(x.transpose(1, 0, 2)),
         lambda torch, x: x.transpose(0, 1).contiguous()),
    OpWork("concat 1024x(2048+2048)", "concat", lambda: [[_normal(1024, 2048), _normal(1024, 2048, seed=1)]],
         lambda parts: np.concatenate(parts, 1), lambda mx, parts: mx.concatenate(parts, 1),
         lambda torch, parts: torch.cat(parts, 1), options={"axis": 1}),
    OpWork("embedding 512 of 32768x2048", "embedding", lambda: [_ids(512, 32768), _normal(32768, 2048)],
         lambda ids, table: table[ids], lambda mx, ids, table: table[ids],
         lambda torch, ids, table: table[ids.long()], touched=2 * 4 * _M),
    OpWork("q4 embedding 512 of 8192x2048", "quantized_embedding", lambda: [_ids(512, 8192), *_packed(8192, 2048, 4)],
         lambda ids, w, s, b: _values(w[ids], s[ids], b[ids], 4),
         lambda mx, ids, w, s, b: mx.dequantize(w[ids], s[ids], b[ids], **_Q4), options=_Q4, touched=9 * _M // 2,
         timed=False),
    OpWork("layer_norm 1024x4096", "layer_norm", lambda: [_normal(1024, 4096), _normal(4096), _normal(4096, seed=1)],
         _layer_norm, lambda mx, x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
         lambda torch, x, w, b: torch.nn.functional.layer_norm(x, (4096,), w, b, 1e-5), flops=8 * 4 * _M),
    OpWork("residual_rms_norm 512x2048", "residual_rms_norm",
         lambda: [_normal(512, 2048), _normal(512, 2048, seed=1), _normal(2048)], lambda x, r, w: _rms(x + r) * w,
         lambda mx, x, r, w: mx.fast.rms_norm(x + r, w, 1e-5), flops=5 * _M),
    OpWork("rope 32x512x128", "rope", lambda: [_normal(1, 32, 512, 128)], lambda x: _rope(x, 7),
         lambda mx, x: mx.fast.rope(x, 128, traditional=False, base=10000.0, scale=1.0, offset=7),
         options={"offset": 7}, flops=3 * 2 * _M),
    OpWork("row_sum 1024x4096", "row_sum", lambda: [_normal(1024, 4096)], lambda x: x.sum(-1),
         lambda mx, x: mx.sum(x, -1), lambda torch, x: x.sum(-1), flops=4 * _M, tolerance=1e-2),
    OpWork("cumsum 256x4096", "cumsum", lambda: [_normal(256, 4096)], lambda x: x.cumsum(-1),
         lambda mx, x: mx.cumsum(x, -1), lambda torch, x: x.cumsum(-1), flops=_M),
    OpWork("argmax 8x131072", "argmax", lambda: [_normal(8, 131072)], lambda x: (x.argmax(-1), x.max(-1)),
         lambda mx, x: (mx.argmax(x, -1), mx.max(x, -1)), lambda torch, x: x.max(-1), flops=_M),
    OpWork("argsort 64x4096", "argsort", lambda: [_normal(64, 4096)], lambda x: x.argsort(-1, kind="stable"),
         lambda mx, x: mx.argsort(x, -1), lambda torch, x: x.argsort(-1)),
    OpWork("top_k 50 of 8x32768", "top_k", lambda: [_normal(8, 32768)],
         lambda x: -np.sort(-x, -1)[:, :50], lambda mx, x: mx.topk(x, 50), lambda torch, x: x.topk(50),
         options={"k": 50}),
    OpWork("q8 matvec 4096^2", "quantized_matmul", lambda: [_normal(1, 4096), *_packed(4096, 4096, 8)],
         lambda x, w, s, b: x @ _values(w, s, b, 8).T,
         lambda mx, *all: mx.quantized_matmul(*all, group_size=64, bits=8),
         options={"group_size": 64, "bits": 8}, flops=2 * 16 * _M, timed=False),
    OpWork("q4 matmul 64x2048x2048", "quantized_matmul", lambda: [_normal(64, 2048), *_packed(2048, 2048, 4)],
         lambda x, w, s, b: x @ _values(w, s, b, 4).T, lambda mx, *all: mx.quantized_matmul(*all, **_Q4),
         options=_Q4, flops=2 * 64 * 4 * _M, timed=False),
    OpWork("Q8_0 matvec 4096^2", "ggml_matmul", lambda: [_normal(1, 4096), _q8_0(4096, 4096)],
         lambda x, w: x @ _q8_0_values(w).T, options={"format": "Q8_0"}, flops=2 * 16 * _M, timed=False),
    OpWork("matvec f16 4096^2", "matmul",
         lambda: [_normal(1, 4096, dtype=np.float16), _normal(4096, 4096, dtype=np.float16)],
         lambda x, w: (x.astype(_F32) @ w.T.astype(_F32)).astype(np.float16), lambda mx, x, w: x @ w.T,
         lambda torch, x, w: x @ w.T, options={"transpose_b": True}, flops=2 * 16 * _M, timed=False, tolerance=2e-2),
    OpWork("q4 experts 8 of 32x1024x1024", "quantized_matmul_id",
         lambda: [_normal(1, 1024), *(each.reshape(32, 1024, -1) for each in _packed(32 * 1024, 1024, 4)),
                  _ids(8, 32).reshape(1, 8)],
         _experts, lambda mx, x, w, s, b, ids: mx.gather_qmm(x[None], w, s, b, rhs_indices=ids[0], **_Q4),
         options=_Q4, flops=2 * 8 * _M, touched=8 * 5 * _M // 8, timed=False),
    OpWork("moe_softmax_topk 8 of 1024x128", "moe_softmax_topk", lambda: [_normal(1024, 128)], lambda x: _top_k(x, 8),
         options={"top_k": 8}),
    OpWork("ssm_conv 1x512x2048", "ssm_conv",
         lambda: [_normal(1, 512, 2048), _normal(2048, 4), _normal(1, 2048, 3, seed=1)], _convolution, flops=8 * _M),
    OpWork("gated_delta_net 1x1x32x128x128", "gated_delta_net",
         lambda: [_normal(1, 1, 32, 128, seed=n) / 16 for n in range(3)]
         + [np.abs(_normal(1, 1, 32, seed=4)), _sigmoid(_normal(1, 1, 32, seed=5)), _normal(1, 32, 128, 128, seed=6)],
         _delta_step, flops=7 * _M // 2, touched=2 * 2 * _M, timed=False),
    OpWork("kv_cache_copy 32x16x128 of 4096", "kv_cache_copy",
         lambda: [_normal(1, 32, n, 128, seed=n + at) for n in (16, 4096) for at in range(2)],
         _put, options={"position": 100}, touched=4 * 32 * 16 * 128 * 4),
    OpWork("hadamard 1024x4096", "hadamard_transform", lambda: [_normal(1024, 4096)],
         lambda x: _hadamard(x), lambda mx, x: mx.hadamard_transform(x), flops=12 * 4 * _M, timed=False),
    OpWork("softmax_sample greedy 131072", "softmax_sample", lambda: [_normal(1, 131072)],
         _likeliest, lambda mx, x: (mx.argmax(x, -1), mx.max(x, -1) - mx.logsumexp(x, -1)),
         lambda torch, x: torch.log_softmax(x, -1).max(-1), options={"temperature": 0.0}),
]
# fmt: on


def _hadamard(x: Array) -> Array:
    n = x.shape[-1]
    transformed = x.copy()
    step = 1
    while step < n:
        pairs = transformed.reshape(*x.shape[:-1], n // (2 * step), 2, step)
        a, b = pairs[..., 0, :].copy(), pairs[..., 1, :].copy()
        pairs[..., 0, :], pairs[..., 1, :] = a + b, a - b
        step *= 2
    return np.asarray(transformed / _F32(math.sqrt(n)))

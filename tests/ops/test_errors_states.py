"""What the ops of experts and of layers with a state refuse: moe, ssm, delta_net, hadamard and turboquant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mlx_native_py import CommandEncoder, DType, InvalidArgument, MlxBuffer, MlxDevice, ops

Make = Callable[..., MlxBuffer]


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice() as opened:
        yield opened


def delta(enc: CommandEncoder, b: Make, op: Any = ops.gated_delta_net, **changed: Any) -> Any:
    """The gated delta rule with one argument changed."""
    given = {
        "q": b(2, 3, 2, 8),
        "k": b(2, 3, 2, 8),
        "v": b(2, 3, 4, 5),
        "g": b(2, 3, 4),
        "beta": b(2, 3, 4),
        "state": b(2, 4, 5, 8),
    }
    return op(enc, **(given | changed))


def attend(enc: CommandEncoder, b: Make, **changed: Any) -> Any:
    """Attention on codes with one argument changed."""
    given: dict[str, Any] = {
        "q": b(2, 4, 1, 64),
        "k": (b(2, 2, 9, 32, dtype="u8"), b(2, 2, 9, 1)),
        "v": (b(2, 2, 9, 32, dtype="u8"), b(2, 2, 9, 1)),
        "length": 3,
        "bits": 4,
    }
    return ops.tq_sdpa_decode(enc, **(given | changed))


def store(enc: CommandEncoder, b: Make, position: Any, **options: Any) -> Any:
    x, cache = b(2, 1, 3, 64), (b(2, 1, 9, 32, dtype="u8"), b(2, 1, 9, 1))
    return ops.tq_quantize_kv(enc, x, cache, position=position, **({"bits": 4} | options))


CASES: dict[str, tuple[Callable[[CommandEncoder, Make], Any], str]] = {
    # Routing
    "no experts": (
        lambda enc, b: ops.moe_softmax_topk(enc, b(2, 4), top_k=0),
        r"moe_softmax_topk: top_k is 0, expected 1 to 4, the number of experts",
    ),
    "too many experts": (lambda enc, b: ops.moe_softmax_topk(enc, b(2, 4), top_k=5), r"top_k is 5, expected 1 to 4"),
    "logits": (lambda enc, b: ops.moe_softmax_topk(enc, b(4), top_k=1), r"logits is f32\[4\], expected \[tokens"),
    "scales": (
        lambda enc, b: ops.moe_softmax_topk(enc, b(2, 4), 1, b(3)),
        r"per_expert_scale is f32\[3\], expected shape \[4\] \(one for each expert\)",
    ),
    "ids": (
        lambda enc, b: ops.moe_softmax_topk(enc, b(2, 4), top_k=1, ids=b(2, 1)),
        r"moe_softmax_topk: ids is f32\[2, 1\], expected u32",
    ),
    "router": (
        lambda enc, b: ops.moe_gate(enc, b(2, 8), b(4, 7), b(8), top_k=1),
        r"moe_gate: router is f32\[4, 7\], expected shape \[4, 8\]",
    ),
    "norm": (lambda enc, b: ops.moe_gate(enc, b(2, 8), b(4, 8), b(8, dtype="f16"), top_k=1), r"moe_gate: norm is f16"),
    "many experts": (lambda enc, b: ops.moe_gate(enc, b(1, 1), b(8193, 1), b(1), top_k=1), r"8193 experts, expected"),
    "tokens": (lambda enc, b: ops.moe_gate(enc, b(8), b(4, 8), b(8), top_k=1), r"moe_gate: hidden is f32\[8\]"),
    # Experts
    "sorted ids": (lambda enc, b: ops.moe_sort(enc, b(3, dtype="u32"), experts=2), r"moe_sort: ids is u32\[3\]"),
    "none to sort": (lambda enc, b: ops.moe_sort(enc, b(3, 1, dtype="u32"), experts=0), r"experts is 0, expected at"),
    "order": (
        lambda enc, b: ops.moe_permute(enc, b(3, 8), b(5, dtype="u32"), top_k=2),
        r"moe_permute: order is u32\[5\], expected shape \[6\]",
    ),
    "weights": (
        lambda enc, b: ops.moe_unpermute(enc, b(6, 8), b(3, 2, dtype="u32"), b(2, 2)),
        r"moe_unpermute: weights is f32\[2, 2\], expected one for each of 6 rows of y",
    ),
    "places": (
        lambda enc, b: ops.moe_unpermute(enc, b(6, 8), b(6, dtype="u32"), b(3, 2)),
        r"moe_unpermute: places is u32\[6\], expected shape \[3, 2\]",
    ),
    "rows of experts": (lambda enc, b: ops.moe_weighted_sum(enc, b(6, 8), b(3, 2)), r"y is f32\[6, 8\], expected \[t"),
    "shared": (
        lambda enc, b: ops.moe_weighted_reduce(enc, b(3, 2, 8), b(3, 2), b(3, 7), b(3)),
        r"moe_weighted_reduce: shared is f32\[3, 7\], expected shape \[3, 8\]",
    ),
    "logit": (
        lambda enc, b: ops.moe_weighted_reduce(enc, b(3, 2, 8), b(3, 2), b(3, 8), b(3, 1)),
        r"shared_logit is f32\[3, 1\], expected shape \[3\]",
    ),
    "halves": (
        lambda enc, b: ops.moe_swiglu(enc, b(2, 7)),
        r"moe_swiglu: gate_up is f32\[2, 7\], expected a last axis",
    ),
    # State-space
    "taps": (lambda enc, b: ops.ssm_conv(enc, b(1, 2, 3), b(3, 1), b(1, 3, 1)), r"expected at least 2 taps"),
    "kept": (lambda enc, b: ops.ssm_conv(enc, b(1, 2, 3), b(3, 4), b(1, 3, 4)), r"state is f32\[1, 3, 4\], expected"),
    "channels": (lambda enc, b: ops.ssm_conv(enc, b(1, 2, 3), b(4, 4), b(1, 3, 3)), r"ssm_conv: weight is f32\[4, 4\]"),
    "gate": (lambda enc, b: ops.ssm_norm_gate(enc, b(2, 8), b(8), b(8)), r"ssm_norm_gate: z is f32\[8\], expected"),
    "bias": (lambda enc, b: ops.compute_g_beta(enc, b(2, 4), b(2, 4), b(3), b(4)), r"dt_bias is f32\[3\], expected"),
    # Delta rule
    "keys": (lambda enc, b: delta(enc, b, k=b(2, 3, 2, 7)), r"gated_delta_net: k is f32\[2, 3, 2, 7\], expected"),
    "heads": (lambda enc, b: delta(enc, b, q=b(2, 3, 3, 8), k=b(2, 3, 3, 8)), r"v has 4 heads, expected a multiple"),
    "state": (
        lambda enc, b: delta(enc, b, ops.gated_delta_net_chunked, state=b(2, 4, 8, 5)),
        r"gated_delta_net_chunked: state is f32\[2, 4, 8, 5\], expected shape \[2, 4, 5, 8\]",
    ),
    "decay": (lambda enc, b: delta(enc, b, g=b(2, 3, 4, dtype="f16")), r"gated_delta_net: g is f16\[2, 3, 4\]"),
    "mapping": (lambda enc, b: delta(enc, b, key_heads="both"), r"key_heads is 'both', expected 'grouped' or 'tiled'"),
    "long keys": (
        lambda enc, b: delta(enc, b, q=b(2, 3, 2, 257), k=b(2, 3, 2, 257), state=b(2, 4, 5, 257)),
        r"expected keys of at most 256",
    ),
    "chunk": (lambda enc, b: ops.chunk_cumsum(enc, b(1, 2, 3), chunk=0), r"chunk_cumsum: chunk is 0"),
    "square": (
        lambda enc, b: ops.tri_solve_lower_unit(enc, b(3, 4), b(4, 2)),
        r"tri_solve_lower_unit: a is f32\[3, 4\], expected shape \[4, 4\]",
    ),
    # Hadamard
    "length": (
        lambda enc, b: ops.hadamard_transform(enc, b(2, 36)),
        r"x is f32\[2, 36\], expected a last axis of m \* 2",
    ),
    "too long": (lambda enc, b: ops.hadamard_transform(enc, b(16384)), r"x is f32\[16384\], expected a last axis"),
    "signs": (
        lambda enc, b: ops.hadamard_transform(enc, b(2, 64), signs=b(1, dtype="u32")),
        r"hadamard_transform: signs is u32\[1\], expected shape \[2\] \(a bit for each of 64 values\)",
    ),
    "signs of parts": (
        lambda enc, b: ops.hadamard_transform(enc, b(2, 24), signs=b(1, dtype="u32")),
        r"signs need a last axis of 2\^k, and x is f32\[2, 24\]",
    ),
    # TurboQuant
    "bits": (lambda enc, b: ops.tq_quantize(enc, b(2, 64), bits=9), r"tq_quantize: bits is 9, expected 1 to 8"),
    "short rows": (lambda enc, b: ops.tq_quantize(enc, b(2, 16), bits=4), r"expected rows of 2\^k values, 32 to 4096"),
    "codes": (
        lambda enc, b: ops.tq_dequantize(enc, b(2, 33, dtype="u8"), b(2, 1), bits=4),
        r"tq_dequantize: codes is u8\[2, 33\], expected rows of 2\^k values",
    ),
    "norms": (
        lambda enc, b: ops.tq_dequantize(enc, b(2, 256, dtype="u8"), b(2, 1), bits=4),
        r"tq_dequantize: norms is f32\[2, 1\], expected shape \[2, 2\] \(rows of 512 values in 4 bits\)",
    ),
    "result": (
        lambda enc, b: ops.tq_dequantize(enc, b(2, 32, dtype="u8"), b(2, 1), bits=4, dtype=DType.U8),
        r"tq_dequantize: dtype is u8",
    ),
    "full": (lambda enc, b: store(enc, b, 7), r"tq_quantize_kv: 3 tokens from 7 on, expected to end by 9"),
    "starts": (lambda enc, b: store(enc, b, b(3, dtype="u32")), r"position is u32\[3\], expected shape \[2\]"),
    "cache": (lambda enc, b: store(enc, b, 0, bits=5), r"codes of cache is u8\[2, 1, 9, 32\], expected"),
    "query": (lambda enc, b: attend(enc, b, q=b(2, 4, 2, 64)), r"tq_sdpa_decode: q is f32\[2, 4, 2, 64\]"),
    "query heads": (lambda enc, b: attend(enc, b, q=b(2, 3, 1, 64)), r"q has 3 heads, expected a multiple of the 2"),
    "values": (
        lambda enc, b: attend(enc, b, v=(b(2, 2, 9, 32, dtype="u8"), b(1))),
        r"norms of v is f32\[1\], expected",
    ),
    "pair": (lambda enc, b: attend(enc, b, k=b(2, 2, 9, 32)), r"tq_sdpa_decode: k is .*, expected codes and norms as"),
    "window": (lambda enc, b: attend(enc, b, window=0), r"tq_sdpa_decode: window is 0, expected at least 1"),
    "softcap": (lambda enc, b: attend(enc, b, softcap=0.0), r"tq_sdpa_decode: softcap is 0.0, expected more than 0"),
    "lengths": (lambda enc, b: attend(enc, b, length=-1), r"tq_sdpa_decode: length is -1"),
}


@pytest.mark.soft
@pytest.mark.parametrize("name", CASES)
def test_refused(device: MlxDevice, name: str) -> None:
    def make(*shape: int, dtype: str = "f32") -> MlxBuffer:
        return device.empty(shape, dtype)

    call, message = CASES[name]
    enc = device.command_encoder()
    with pytest.raises(InvalidArgument, match=message):
        call(enc, make)
    assert enc.tally.dispatches == 0
    enc.discard()

"""Attention over dense or quantised keys and values, and attention masks."""

from __future__ import annotations

import math

from ...dtypes import DType
from ...encoder import CapturedOpKind, Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ...memory.shapes import whole
from ..attention_arguments import SIMDGROUPS, AttentionCall, AttentionOptions, Source, arguments
from ..forms import attends_by_lanes, lanes_bytes
from ..op import FLOATS, Count, Output, op
from ..support import SIMD, kernel, result

__all__ = ["attention_mask", "sdpa"]

FEW_QUERIES = 8
"""Up to this many queries, or if rows are not multiples of 8, each query reads the keys itself; otherwise tiles share
them."""
_SIMDGROUP_KEYS, _MOST_SPLITS, _ENOUGH_GROUPS = 128, 32, 256
_TILE, _MOST_COLUMNS, _MOST_SLICE = 32, 256, 128


@op(
    "softmax(softcap * tanh(scale * q @ k.T / softcap) + mask) @ v",
    (*FLOATS, "q8", "q4"),
    fn=("scaled_dot_product_attention",),
)
def sdpa(
    enc: Encoder,
    q: MlxBuffer,
    k: Source,
    v: Source,
    *,
    scale: float,
    mask: MlxBuffer | None = None,
    causal: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    sinks: MlxBuffer | None = None,
    length: Count | None = None,
    ring: bool = False,
    tokens_first: bool = False,
    kv_tokens_first: bool = False,
    out: Output = None,
) -> MlxBuffer:
    """Scaled dot-product attention of q [batch, heads, queries, dim] over k and v [batch, kv_heads, capacity, dim].

    k and v are buffers, or 8-bit or 4-bit caches as `(words, scales, biases)`. The first `length` rows are valid (a
    number, or a u32 buffer with one per sequence), and the last query is at the last of them. With `ring`, row
    `position % capacity` holds a position, and a length beyond the capacity means that the last `capacity` positions
    are present. `window` limits each query to that many keys, including its own. `mask` is boolean (true: attend) or
    added, and broadcasts to [batch, heads, queries, capacity]. `sinks` adds a logit per head to the softmax, without a
    value. With `tokens_first`, q and out are [batch, queries, heads, dim]; with `kv_tokens_first`, k and v are [batch,
    capacity, kv_heads, dim]. A row with all keys masked behaves as in MLX: the mean of the values for a boolean mask,
    NaN for an added one. A sequence of length 0 gives zeros.
    """
    options = AttentionOptions(scale, mask, causal, window, softcap, sinks, length, ring, tokens_first, kv_tokens_first)
    call = arguments(q, k, v, options)
    out = result(enc, out, call.out_shape, q.dtype)
    if call.queries <= FEW_QUERIES or call.keys.dim % 8 or call.values.dim % 8:
        _decode(enc, call, out)
    elif attends_by_lanes(enc.device.capabilities, call.keys.dim, call.values.dim):
        _lanes(enc, call, out)
    else:
        _prefill(enc, call, out)
    return out


def _decode(enc: Encoder, call: AttentionCall, out: MlxBuffer) -> None:
    rows, dim = call.heads * call.queries, call.values.dim
    splits = _splits(call)
    parts = enc.empty(rows * call.batch * splits * (dim + 2) if splits > 1 else 1, DType.F32)
    enc.dispatch(
        kernel(enc, "attention", f"sdpa_decode_{call.kind}", {"DIM": call.keys.dim, "V_DIM": dim}),
        *call.inputs,
        Out(parts),
        Out(out),
        call.packed,
        threadgroups=(splits, rows // call.together, call.batch),
        group=SIMDGROUPS * SIMD,
        kind=CapturedOpKind.Sdpa,
    )
    if splits > 1:
        enc.dispatch(
            kernel(enc, "attention", f"sdpa_merge_{out.dtype}"),
            *(parts, call.lengths, Out(out), call.packed, splits),
            threads=(dim, rows, call.batch),
            kind=CapturedOpKind.Sdpa,
        )


def _prefill(enc: Encoder, call: AttentionCall, out: MlxBuffer) -> None:
    dim, v_dim = call.keys.dim, call.values.dim
    columns = _even(v_dim, _MOST_COLUMNS)
    constants: dict[int | str, int] = {
        "DIM": dim,
        "V_DIM": v_dim,
        "SLICE": _even(dim, _MOST_SLICE),
        "COLUMNS": columns,
        "V_SLICE": _even(columns, _MOST_SLICE),
    }
    enc.dispatch(
        kernel(enc, "attention_prefill", f"sdpa_prefill_{call.kind}", constants),
        *call.inputs,
        Out(out),
        call.packed,
        threadgroups=(math.ceil(call.queries / _TILE), call.heads, call.batch * v_dim // columns),
        group=SIMDGROUPS * SIMD,
        kind=CapturedOpKind.Sdpa,
    )


def _lanes(enc: Encoder, call: AttentionCall, out: MlxBuffer) -> None:
    dim, v_dim = call.keys.dim, call.values.dim
    groups = math.ceil(call.queries / SIMD), call.heads, call.batch
    enc.dispatch(
        kernel(enc, "attention_lanes", f"sdpa_lanes_{call.kind}", {"DIM": dim, "V_DIM": v_dim}),
        *call.inputs,
        Out(enc.empty(math.prod(groups) * SIMD * dim, DType.F32)),
        Out(out),
        call.packed,
        threadgroups=groups,
        group=SIMD,
        shared=(lanes_bytes(dim, v_dim),),
        kind=CapturedOpKind.Sdpa,
    )


def _even(dim: int, most: int) -> int:
    """The widest equal parts of `dim` columns, in multiples of 32 if possible, otherwise of 8."""
    unit = 32 if dim % 32 == 0 else 8
    return max(width for width in range(unit, most + 1, unit) if dim % width == 0)


def _splits(call: AttentionCall) -> int:
    """The number of parts that the keys of a row are split into: enough threadgroups, with enough keys each."""
    groups = call.batch * call.heads * call.queries // call.together
    keys = _SIMDGROUP_KEYS * SIMDGROUPS // call.together
    return max(1, min(_MOST_SPLITS, math.ceil(call.capacity / keys), math.ceil(_ENOUGH_GROUPS / groups)))


@op("k <= q and q - k < window, for query q and key k", (DType.BOOL, *FLOATS))
def attention_mask(
    enc: Encoder,
    queries: int,
    keys: int,
    *,
    causal: bool = True,
    window: int | None = None,
    offset: int | None = None,
    dtype: DType = DType.BOOL,
    out: Output = None,
) -> MlxBuffer:
    """The mask [queries, keys] of causal and sliding-window attention: booleans, or 0 and minus infinity to add.

    Query i is at position `offset + i`; by default the last query is at the last key.
    """
    shape = whole(queries, "queries", 1), whole(keys, "keys", 1)
    if window is not None:
        window = whole(window, "window", 1)
    if dtype not in (DType.BOOL, *FLOATS):
        raise InvalidArgument(f"dtype is {dtype!r}, expected bool, f32, f16 or bf16")
    first = shape[1] - shape[0] if offset is None else whole(offset, "offset", -(2**31))
    out = result(enc, out, shape, dtype)
    seen, unseen = (True, False) if dtype is DType.BOOL else (0.0, -math.inf)
    pipeline = kernel(enc, "attention", f"attention_mask_{dtype}")
    enc.dispatch(
        pipeline, Out(out), shape[1], first, int(causal), window or 0, seen, unseen, threads=(shape[1], shape[0])
    )
    return out

"""Fusion rules of a decode step: matrix product with gate, and RoPE with the KV cache write."""

from __future__ import annotations

import struct
from itertools import product as pairs

from ..dtypes import FLOATS
from ..encoder import Encoder, Out
from ..graph import Arguments, fusion
from ..hazards.ranges import shared_bytes
from ..memory.buffer import MlxBuffer
from ..weights.ggml_types import GGML_TYPES
from .forms import gated_results
from .support import kernel

__all__: list[str] = []

_TYPES = ("f32_f32", "f16_f16", "bf16_bf16", "f32_f16", "f32_bf16")
_PRODUCTS = (
    *(f"ggml_{kind}_{format}_{x}" for kind, format, x in pairs(("quad", "mv"), GGML_TYPES, FLOATS)),
    *(f"quantized_{kind}_{x}" for kind, x in pairs(("quad", "mv"), FLOATS)),
    *(f"matmul_{kind}_{types}" for kind, types in pairs(("row", "mv"), _TYPES)),
)
_GATES = ("silu_mul", "gelu_mul", "gelu_approx_mul", "sigmoid_mul")
"""In the order of kernels/shared/gate.h."""


@fusion(_PRODUCTS, (f"{gate}_{x}" for gate, x in pairs(_GATES, FLOATS)), reads_parts=True)
def _product_then_gate(enc: Encoder, product: Arguments, gate: Arguments, between: MlxBuffer) -> bool:
    dispatch, out = product.dispatch, gate["out"]
    first, second = gate["gate"], gate["up"]
    rows, _, _, experts = struct.unpack_from("<4I", product["shape"])
    are_halves = (first.start, first.end, second.end) == (between.start, second.start, between.end)
    results = gated_results(dispatch.pipeline.name.split("_")[1], out.size)
    if rows != 1 or experts or dispatch.launch.grid[2] != 1 or not results:
        return False
    if not are_halves or not between.dtype is first.dtype is second.dtype:
        return False
    library, constants = dispatch.pipeline.origin
    function = _GATES.index(gate.dispatch.pipeline.name.rpartition("_")[0])
    kernels = enc.device.kernels
    gated = kernels.get_pipeline(dispatch.pipeline.name, {**constants, "GATE": function}, library=library)
    values = (Out(out) if value is product["out"] else value for value in dispatch.values)
    enc.dispatch(gated, *values, threadgroups=-(-out.size // results), group=dispatch.launch.group)
    return True


_COPIES = ("f32_f32", "f32_f16", "f32_bf16", "f16_f16", "f16_f32", "bf16_bf16", "bf16_f32")


@fusion(
    (f"rope_{x}" for x in FLOATS),
    (f"kv_cache_copy_{types}" for types in _COPIES),
    writes_between=True,
    reads_parts=True,
)
def _rope_then_cache(enc: Encoder, rope: Arguments, copy: Arguments, between: MlxBuffer) -> bool:
    _, head, token, heads, heads_each, _, _ = struct.unpack("<3Q4I", rope["layout"])
    *strides, kv_heads, tokens, _, _, _, width, _ = struct.unpack("<3Q7I4x", copy["c"])
    grid, sequences = rope.dispatch.launch.grid, copy.dispatch.launch.grid[2] // 2
    keys, values = copy["keys"], copy["values"]
    # A thread that rotates several heads computes each angle once; sequences are consecutive, like tokens.
    if heads_each != 1 or grid[1:] != (tokens * sequences, heads) or shared_bytes(between.span, values.span):
        return False
    if keys.dtype is not between.dtype or shared_bytes(between.span, keys.span) != keys.span[1:]:
        return False
    first_key, rest = divmod(keys.start - between.start, head * keys.dtype.size)
    placed = [stride * width for stride in strides]
    if rest or first_key + kv_heads != heads or placed[1] != head:
        return False
    if tokens > 1 and placed[2] != token or sequences > 1 and placed[0] != token * tokens:
        return False
    pipeline = kernel(enc, "rope", f"rope_cache_{copy.dispatch.pipeline.name.removeprefix('kv_cache_copy_')}")
    turned = (Out(between) if value is rope["out"] else value for value in rope.dispatch.values)
    caches = (values, Out(copy["key_cache"]), Out(copy["value_cache"]), copy["positions"], copy["c"], first_key)
    enc.dispatch(pipeline, *turned, *caches, threads=(grid[0], grid[1], heads + kv_heads))
    return True

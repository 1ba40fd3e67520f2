"""KV cache updates: writes new rows at a position of each sequence, dense or quantised."""

from __future__ import annotations

import struct

from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..attention_arguments import CacheRows, sequence_lengths, source_rows
from ..op import FLOATS, Count, op
from ..strides import parts_of
from ..support import check_dtype, check_shape, kernel, one_dtype, shown

__all__ = ["kv_cache_copy", "kv_cache_quantize"]

QuantizedRows = tuple[MlxBuffer, MlxBuffer, MlxBuffer]
"""Words [batch, heads, capacity, dim * bits / 32], scales and biases [batch, heads, capacity, dim / group]."""

_BLOCK = struct.Struct("<3Q7I4x")


@op("cache[position + i] = new[i], or cache[(position + i) % capacity] in a ring", fn=())
def kv_cache_copy(
    enc: Encoder,
    keys: MlxBuffer,
    values: MlxBuffer,
    key_cache: MlxBuffer,
    value_cache: MlxBuffer,
    *,
    position: Count,
    ring: bool = False,
    tokens_first: bool = False,
) -> tuple[MlxBuffer, MlxBuffer]:
    """Writes new keys and values into caches [batch, heads, capacity, dim] from `position` on.

    f32 rows are converted to the type of the cache. New rows are [batch, heads, tokens, dim]; with `tokens_first`
    [batch, tokens, heads, dim]; or [tokens, heads, dim] without a batch. `position` is a number, or a u32 buffer with
    one per sequence. Rows beyond the end of a linear cache raise if the position is a number, and are dropped if it is
    in a buffer. The caches may omit the batch axis.
    """
    dtype, stored = (
        one_dtype(keys=keys, values=values),
        one_dtype(key_cache=key_cache, value_cache=value_cache),
    )
    if stored is not dtype and "f32" not in (str(dtype), str(stored)):
        raise InvalidArgument(f"keys are {dtype} and the caches {stored}; expected one type, or f32 for one of them")
    caches = [
        source_rows(*each) for each in (("key_cache", _batched(key_cache)), ("value_cache", _batched(value_cache)))
    ]
    grid, positions, packed = _plan(keys, values, caches, position, ring, tokens_first)
    dims = [each.dim for each in caches]
    each_takes = parts_of(*dims)
    enc.dispatch(
        kernel(enc, "kv_cache", f"kv_cache_copy_{dtype}_{stored}", {"PARTS": each_takes}),
        *(keys, values, Out(key_cache), Out(value_cache), positions, packed),
        threads=(max(dims) // each_takes, *grid),
    )
    return key_cache, value_cache


@op("q = round((x - bias) / scale), with a scale and a bias per group", (*FLOATS, "q8", "q4"), fn=())
def kv_cache_quantize(
    enc: Encoder,
    keys: MlxBuffer,
    values: MlxBuffer,
    key_cache: QuantizedRows,
    value_cache: QuantizedRows,
    *,
    position: Count,
    ring: bool = False,
    tokens_first: bool = False,
) -> tuple[QuantizedRows, QuantizedRows]:
    """Writes new keys and values into quantised caches, packed and rounded like MLX's `quantize`.

    A cache is `(words, scales, biases)`: 8 or 4 bits in groups of 32 or 64 along a row, according to their shapes;
    scales and biases have the type of the new rows. Otherwise as `kv_cache_copy`.
    """
    dtype = one_dtype(keys=keys, values=values)
    caches = [
        source_rows("key_cache", key_cache, dim=keys.shape[-1]),
        source_rows("value_cache", value_cache, dim=values.shape[-1]),
    ]
    for each, cache in zip(("key_cache", "value_cache"), caches, strict=True):
        if not cache.group:
            raise InvalidArgument(f"{each} is {shown(cache.buffers[0])}, expected words, scales and biases as a tuple")
        check_dtype(f"scales of {each}", cache.buffers[1], (dtype,))
    if caches[0].kind != caches[1].kind or caches[0].group != caches[1].group:
        raise InvalidArgument("key_cache and value_cache differ in bits or group size")
    grid, positions, packed = _plan(keys, values, caches, position, ring, tokens_first)
    size = caches[0].group
    enc.dispatch(
        kernel(enc, "kv_cache", f"kv_cache_quantize_{dtype}_{caches[0].kind}"),
        *(keys, values, *map(Out, key_cache), *map(Out, value_cache), positions, packed, size),
        threadgroups=(max(each.dim for each in caches) // size, *grid),
        group=32,
    )
    return key_cache, value_cache


def _batched(cache: MlxBuffer) -> MlxBuffer:
    return cache.reshape(1, *cache.shape) if cache.ndim == 3 else cache


def _plan(
    keys: MlxBuffer,
    values: MlxBuffer,
    caches: list[CacheRows],
    position: Count,
    ring: bool,
    tokens_first: bool,
) -> tuple[tuple[int, int], MlxBuffer | bytes, bytes]:
    """The grid over rows and sequences, the positions, and the parameter block."""
    batch, heads, capacity = caches[0].axes
    if caches[1].axes != caches[0].axes:
        raise InvalidArgument(f"key_cache has rows {list(caches[0].axes)}, value_cache {list(caches[1].axes)}")
    first = tokens_first or keys.ndim == 3
    if keys.ndim not in (3, 4):
        raise InvalidArgument(f"keys are {shown(keys)}, expected three axes or four")
    tokens = keys.shape[-3] if first else keys.shape[-2]
    expected = (batch,) * (keys.ndim - 3) + ((tokens, heads) if first else (heads, tokens))
    if keys.ndim == 3 and batch != 1:
        raise InvalidArgument(f"keys are {shown(keys)}, expected an axis for the {batch} sequences of the caches")
    check_shape("keys", keys, (*expected, caches[0].dim), "the rows of key_cache")
    check_shape("values", values, (*expected, caches[1].dim), "the rows of value_cache")
    positions, step, known = sequence_lengths("position", position, batch)
    if not ring and known + tokens > capacity:
        raise InvalidArgument(f"{tokens} rows at position {known} do not fit a capacity of {capacity}")
    strides = (tokens * heads, 1, heads) if first else (tokens * heads, tokens, 1)
    dims = caches[0].dim, caches[1].dim
    packed = _BLOCK.pack(*strides, heads, tokens, capacity, step, int(ring), *dims)
    return (tokens * heads, batch * 2), positions, packed

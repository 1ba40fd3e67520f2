"""Attention arguments: options, checks, and the parameter block of the kernels."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..memory.shapes import whole
from .op import FLOATS, Count
from .support import check_dtype, check_shape, one_dtype, shown

__all__ = [
    "AttentionCall",
    "AttentionOptions",
    "CacheRows",
    "SIMDGROUPS",
    "Source",
    "arguments",
    "sequence_lengths",
    "source_rows",
]

Source = MlxBuffer | tuple[MlxBuffer, MlxBuffer, MlxBuffer]
"""Keys or values: a buffer, or quantised words, scales and biases."""

MOST_COLUMNS = 512
SIMDGROUPS = 4
FARTHEST = 2**31 - 1
BITS, GROUPS = (8, 4), (32, 64)
_BLOCK = struct.Struct("<3Q3Q3Q4Q10I2f3I4x")
_KINDS = {DType.BOOL: 1, DType.F32: 2, DType.F16: 3, DType.BF16: 4}


class AttentionOptions(NamedTuple):
    """The options of `sdpa`, which documents them."""

    scale: float
    mask: MlxBuffer | None = None
    causal: bool = False
    window: int | None = None
    softcap: float | None = None
    sinks: MlxBuffer | None = None
    length: Count | None = None
    ring: bool = False
    tokens_first: bool = False
    kv_tokens_first: bool = False


@dataclass(frozen=True)
class CacheRows:
    """Keys or values: `kind` is their type, or q8 or q4; `axes` is the shape without the columns."""

    buffers: tuple[MlxBuffer, ...]
    kind: str
    axes: tuple[int, ...]
    dim: int
    bits: int = 0
    group: int = 0


@dataclass(frozen=True)
class AttentionCall:
    """Checked arguments of attention."""

    keys: CacheRows
    values: CacheRows
    batch: int
    heads: int
    queries: int
    capacity: int
    together: int
    """Query rows per threadgroup, each processed by an equal number of its simdgroups."""
    out_shape: tuple[int, ...]
    kind: str
    """The types of queries and keys, as in kernel names."""
    inputs: tuple[MlxBuffer | bytes, ...]
    """The kernel's inputs in order: queries, keys, values, mask, sinks, lengths."""
    lengths: MlxBuffer | bytes
    packed: bytes


def source_rows(name: str, given: Source, *, dim: int | None = None, bits: int = 0) -> CacheRows:
    """Rows of a cache; for a quantised one, either the number of columns or of bits must be given."""
    if isinstance(given, MlxBuffer):
        check_dtype(name, given)
        _four_axes(name, given)
        return CacheRows((given,), str(given.dtype), given.shape[:3], given.shape[3])
    if not (isinstance(given, tuple) and len(given) == 3 and all(isinstance(each, MlxBuffer) for each in given)):
        raise InvalidArgument(f"{name} is {given!r}, expected a buffer, or words, scales and biases as a tuple")
    words, scales, biases = given
    check_dtype(f"words of {name}", words, (DType.U32,))
    _four_axes(f"words of {name}", words)
    one_dtype(FLOATS, **{f"scales of {name}": scales, f"biases of {name}": biases})
    check_shape(f"biases of {name}", biases, scales.shape, "the shape of the scales")
    if scales.shape[:-1] != words.shape[:3]:
        raise InvalidArgument(f"scales of {name} are {shown(scales)}, expected rows as in {shown(words)}")
    per_row = words.shape[3] * 32
    bits = bits or per_row // (dim or per_row)
    columns = per_row // bits
    group = columns // scales.shape[3]
    if bits not in BITS or group not in GROUPS or group * scales.shape[3] != columns or dim not in (None, columns):
        raise InvalidArgument(
            f"{name} has words {shown(words)} and scales {shown(scales)}"
            + (f" for {dim} columns" if dim else "")
            + ", expected 8 or 4 bits in groups of 32 or 64"
        )
    return CacheRows(given, f"q{bits}", words.shape[:3], columns, bits, group)


def sequence_lengths(name: str, given: int | MlxBuffer, batch: int) -> tuple[MlxBuffer | bytes, int, int]:
    """What the kernel reads, its stride per sequence, and the number itself (0 if it is in a buffer)."""
    if isinstance(given, MlxBuffer):
        check_dtype(name, given, (DType.U32,))
        if given.size not in (1, batch):
            raise InvalidArgument(f"{name} is {shown(given)}, expected one for each of {batch} sequences")
        return given, int(given.size > 1), 0
    number = whole(given, f"{name}")
    if number > FARTHEST:
        raise InvalidArgument(f"{name} is {number}, expected at most {FARTHEST}")
    return struct.pack("<I", number), 0, number


def arguments(q: MlxBuffer, k: Source, v: Source, options: AttentionOptions) -> AttentionCall:
    """Checks all arguments of `sdpa`."""
    check_dtype("q", q)
    _four_axes("q", q)
    keys = source_rows("k", k, dim=q.shape[3])
    values = source_rows("v", v, bits=keys.bits)
    _check_rows(q, keys, values)
    batch, heads, queries = (q.shape[0], *(q.shape[2:0:-1] if options.tokens_first else q.shape[1:3]))
    kv_heads, capacity = keys.axes[2:0:-1] if options.kv_tokens_first else keys.axes[1:3]
    if keys.axes[0] != batch or heads % kv_heads:
        raise InvalidArgument(
            f"k has {keys.axes[0]} sequences of {kv_heads} heads, expected {batch} of a number that divides {heads}"
        )
    length = capacity if options.length is None else options.length
    lengths, step, most = sequence_lengths("length", length, batch)
    if most > capacity and not options.ring:
        raise InvalidArgument(f"length is {most}, expected at most {capacity}, the capacity (or a ring)")
    together = math.gcd(heads // kv_heads * queries, SIMDGROUPS)
    # Absent arguments are bound to a placeholder that is never read.
    numbers = q if options.mask is None else options.mask, q if options.sinks is None else options.sinks
    return AttentionCall(
        *(keys, values, batch, heads, queries, capacity, together),
        out_shape=(*q.shape[:3], values.dim),
        kind=f"{q.dtype}_{keys.kind}",
        inputs=(q, *keys.buffers, *values.buffers, *numbers, lengths),
        lengths=lengths,
        packed=_packed(q, keys, values, (batch, heads, kv_heads, queries, capacity), step, together, options),
    )


def _packed(
    q: MlxBuffer,
    keys: CacheRows,
    values: CacheRows,
    axes: tuple[int, int, int, int, int],
    length_step: int,
    together: int,
    options: AttentionOptions,
) -> bytes:
    """The parameter block; `axes` are batch, heads, key/value heads, queries and capacity."""
    batch, heads, kv_heads, queries, capacity = axes
    mask, window = options.mask, options.window
    return _BLOCK.pack(
        *_strides(batch, heads, queries, q.shape[3], options.tokens_first),
        *_strides(batch, heads, queries, values.dim, options.tokens_first),
        *_strides(batch, kv_heads, capacity, 1, options.kv_tokens_first),
        *_mask_strides(mask, (batch, heads, queries, capacity)),
        *(heads, heads // kv_heads, queries, capacity, length_step, int(options.ring), int(options.causal)),
        0 if window is None else min(whole(window, "window", 1), FARTHEST),
        0 if mask is None else _KINDS[mask.dtype],
        _sink_kind(options.sinks, heads),
        *(options.scale, _softcap(options.softcap), keys.group, values.dim, together),
    )


def _four_axes(name: str, buffer: MlxBuffer) -> None:
    if buffer.ndim != 4:
        raise InvalidArgument(f"{name} is {shown(buffer)}, expected four axes")


def _check_rows(q: MlxBuffer, keys: CacheRows, values: CacheRows) -> None:
    if values.axes != keys.axes or values.kind != keys.kind or values.group != keys.group:
        raise InvalidArgument(
            f"v has rows {list(values.axes)} of {values.kind}, expected {list(keys.axes)} of {keys.kind}, as k has"
        )
    if keys.dim != q.shape[3] or max(keys.dim, values.dim) > MOST_COLUMNS:
        raise InvalidArgument(
            f"q is {shown(q)}, k has rows of {keys.dim} and v of {values.dim}; "
            f"expected one dim for q and k, and none above {MOST_COLUMNS}"
        )
    stored = keys.buffers[-1].dtype
    if stored is not q.dtype and (q.dtype is not DType.F32 or keys.group):
        raise InvalidArgument(f"q is {q.dtype} and k has {stored}; expected one type, or q in f32")


def _strides(batch: int, heads: int, tokens: int, dim: int, tokens_first: bool) -> tuple[int, int, int]:
    """Strides of sequences, heads and tokens."""
    return heads * tokens * dim, dim if tokens_first else tokens * dim, heads * dim if tokens_first else dim


def _mask_strides(mask: MlxBuffer | None, full: Sequence[int]) -> tuple[int, ...]:
    if mask is None:
        return 0, 0, 0, 0
    check_dtype("mask", mask, tuple(_KINDS))
    axes = (1,) * (4 - mask.ndim) + mask.shape
    if len(axes) != 4 or any(axis not in (1, wanted) for axis, wanted in zip(axes, full, strict=True)):
        raise InvalidArgument(f"mask is {shown(mask)}, expected a shape that broadcasts to {list(full)}")
    return tuple(math.prod(axes[i + 1 :]) if axis > 1 else 0 for i, axis in enumerate(axes))


def _sink_kind(sinks: MlxBuffer | None, heads: int) -> int:
    if sinks is None:
        return 0
    check_dtype("sinks", sinks)
    check_shape("sinks", sinks, (heads,), "a logit per head")
    return _KINDS[sinks.dtype]


def _softcap(softcap: float | None) -> float:
    if softcap is not None and not softcap > 0:
        raise InvalidArgument(f"softcap is {softcap!r}, expected more than 0")
    return float(softcap or 0.0)

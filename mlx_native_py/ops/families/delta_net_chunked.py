"""The gated delta rule in chunks of tokens, for prompts: the same results from matrix products."""

from __future__ import annotations

import struct

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..delta_sizes import DeltaSizes, KeyHeads, check_delta
from ..op import Output, op
from ..support import SIMD, check_dtype, check_shape, kernel, result, shown

__all__ = ["chunk_cumsum", "gated_delta_net_chunked", "tri_solve_lower_unit"]

_FAMILY = "delta_net_chunked"
_CHUNK = 64
_TILE = 8
_GROUP = SIMD * 4


@op("as gated_delta_net, by chunks of 64 tokens", fn=("gated_delta_net",))
def gated_delta_net_chunked(
    enc: Encoder,
    q: MlxBuffer,
    k: MlxBuffer,
    v: MlxBuffer,
    g: MlxBuffer,
    beta: MlxBuffer,
    state: MlxBuffer,
    *,
    scale: float = 1.0,
    norm_eps: float | None = None,
    key_heads: KeyHeads = "grouped",
    out: Output = None,
) -> MlxBuffer:
    """The queries' results, in the shape and type of v; `state` is updated in place.

    Arguments as for `gated_delta_net`. Keys should have about unit length, as `norm_eps` gives them, and g must not be
    negative.
    """
    sizes = check_delta(q, k, v, g, beta, state, key_heads)
    out = result(enc, out, v.shape, v.dtype)
    plan = _Plan(enc, sizes)
    queries = plan.rows(q, scale, norm_eps)
    keys = plan.rows(k, 1.0, norm_eps)
    values = plan.rows(v, 1.0, None)
    sums = chunk_cumsum(enc, g, chunk=_CHUNK)
    from_values, from_keys = plan.scratch(_CHUNK, _CHUNK), plan.scratch(_CHUNK, _CHUNK)
    plan.by_chunk("chunk_invert", keys, sums, beta, from_values, from_keys)
    deltas, weights = plan.scratch(_CHUNK, plan.value_dim), plan.scratch(_CHUNK, plan.key_dim)
    plan.by_chunk("chunk_products", from_values, from_keys, values, keys, Out(deltas), Out(weights))
    before = plan.scratch(plan.value_dim, plan.key_dim)
    plan.states(keys, weights, sums, deltas, state, Out(before))
    plan.by_chunk(f"chunk_output_{v.dtype}", queries, keys, sums, deltas, before, Out(out), last=(sizes.value_dim,))
    return out


class _Plan:
    """The sizes of one call, rounded up to whole chunks and tiles, and its launches."""

    def __init__(self, enc: Encoder, sizes: DeltaSizes) -> None:
        self.enc, self.sizes = enc, sizes
        self.chunks = -(-sizes.tokens // _CHUNK)
        self.key_dim, self.value_dim = _up(sizes.key_dim, _TILE), _up(sizes.value_dim, _TILE)
        axes = (sizes.tokens, self.chunks, sizes.heads, sizes.key_heads, self.key_dim, self.value_dim, sizes.tiled)
        self.packed = struct.pack("7I", *axes)

    def scratch(self, rows: int, columns: int) -> MlxBuffer:
        """A matrix per chunk and head."""
        return self.enc.empty((self.sizes.sequences, self.sizes.heads, self.chunks, rows, columns), DType.F32)

    def rows(self, x: MlxBuffer, scale: float, eps: float | None) -> MlxBuffer:
        """[sequences, tokens, heads, dim] rearranged by head, in f32, padded to whole chunks and tiles."""
        sequences, tokens, heads, dim = x.shape
        length, width = self.chunks * _CHUNK, _up(dim, _TILE)
        out = self.enc.empty((sequences, heads, length, width), DType.F32)
        pipeline = kernel(self.enc, _FAMILY, f"chunk_rows_{x.dtype}")
        options = (tokens, dim, width, scale, eps or 0.0, eps is not None)
        self.enc.dispatch(pipeline, x, Out(out), *options, threadgroups=(length, heads, sequences), group=SIMD)
        return out

    def by_chunk(self, name: str, *buffers: MlxBuffer | Out, last: tuple[int, ...] = ()) -> None:
        groups = (self.chunks, self.sizes.heads, self.sizes.sequences)
        pipeline = kernel(self.enc, _FAMILY, name)
        self.enc.dispatch(pipeline, *buffers, self.packed, *last, threadgroups=groups, group=_GROUP)

    def states(self, *buffers: MlxBuffer | Out) -> None:
        groups = (self.value_dim // _TILE, self.sizes.heads, self.sizes.sequences)
        pipeline = kernel(self.enc, _FAMILY, "chunk_states")
        dims = (self.sizes.value_dim, self.sizes.key_dim)
        self.enc.dispatch(pipeline, *buffers, self.packed, dims, threadgroups=groups, group=_GROUP)


@op("sums along the tokens of each chunk", (DType.F32,))
def chunk_cumsum(enc: Encoder, x: MlxBuffer, *, chunk: int = _CHUNK, out: Output = None) -> MlxBuffer:
    """Running sums of x [sequences, tokens, heads] along the tokens, restarting with each chunk."""
    check_dtype("x", x, (DType.F32,))
    if x.ndim != 3:
        raise InvalidArgument(f"x is {shown(x)}, expected [sequences, tokens, heads]")
    if chunk < 1:
        raise InvalidArgument(f"chunk is {chunk}, expected at least 1")
    sequences, tokens, heads = x.shape
    out = result(enc, out, x.shape, DType.F32)
    pipeline = kernel(enc, _FAMILY, "chunk_cumsum")
    threads = (heads, -(-tokens // chunk), sequences)
    enc.dispatch(pipeline, x, Out(out), tokens, heads, chunk, threads=threads)
    return out


@op("x with (I + strict lower part of a) x = b", (DType.F32,))
def tri_solve_lower_unit(enc: Encoder, a: MlxBuffer, b: MlxBuffer, *, out: Output = None) -> MlxBuffer:
    """Solves a x = b for b [..., n, columns] with unit lower triangular a [..., n, n].

    Only entries of `a` below the diagonal are used.
    """
    check_dtype("a", a, (DType.F32,))
    check_dtype("b", b, (DType.F32,))
    if b.ndim < 2:
        raise InvalidArgument(f"b is {shown(b)}, expected [..., n, columns]")
    *batch, n, columns = b.shape
    check_shape("a", a, (*batch, n, n), "a square for each part of b")
    out = result(enc, out, b.shape, DType.F32)
    pipeline = kernel(enc, _FAMILY, "tri_solve_lower_unit")
    enc.dispatch(pipeline, a, b, out, n, columns, threads=(columns, b.size // (n * columns)))
    return out


def _up(n: int, step: int) -> int:
    return -(-n // step) * step

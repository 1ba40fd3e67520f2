"""Products of dense matrices."""

from __future__ import annotations

from math import prod

from ...dtypes import DType
from ...encoder import Encoder
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..matmul_shape import Shape, broadcast
from ..op import FLOATS, Indices, Output, op
from ..product import check_rank, expert_batch, expert_rows, launch, product_flops
from ..support import check_dtype, result, shown

__all__ = ["addmm", "matmul", "matmul_id"]


@op("a @ b + bias", flops=product_flops)
def matmul(
    enc: Encoder,
    a: MlxBuffer,
    b: MlxBuffer,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    bias: MlxBuffer | None = None,
    out: Output = None,
) -> MlxBuffer:
    """The product of matrices or broadcast batches of them, summed in float.

    `transpose_b` takes b as [n, k], the usual layout of weights; `bias` has n values. b may be f16 or bf16 with an f32
    a. If the last batch axis of a is r times that of b, each matrix of b is used for r consecutive ones of a, as in
    grouped-query attention.
    """
    return _product(enc, a, b, bias, (transpose_a, transpose_b), 1.0, 1.0, out)


@op("alpha * (a @ b) + beta * c", flops=product_flops)
def addmm(
    enc: Encoder,
    c: MlxBuffer,
    a: MlxBuffer,
    b: MlxBuffer,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    out: Output = None,
) -> MlxBuffer:
    """The scaled product of matrices plus scaled c, which broadcasts to the result."""
    return _product(enc, a, b, c, (transpose_a, transpose_b), alpha, beta, out)


@op("x @ w[id]^T for each id", flops=product_flops)
def matmul_id(enc: Encoder, x: MlxBuffer, w: MlxBuffer, ids: Indices, *, out: Output = None) -> MlxBuffer:
    """Each row times the weights of its experts: w is [experts, n, k], typed as b of matmul, ids is u32 [..., top_k].

    x is [..., k], one row for all experts of a token, or [..., top_k, k], one for each. The result is [..., top_k, n],
    and zero for an id out of range.
    """
    check_dtype("x", x)
    check_dtype("w", w, FLOATS if x.dtype is DType.F32 else (x.dtype,))
    check_rank("w", w, 3)
    experts, n, k = w.shape
    share = expert_rows(x, ids, k)
    out = result(enc, out, (*ids.shape, n), x.dtype)
    shape = Shape(ids.size, n, k, experts=experts, share=share, w_row=k, batch=expert_batch(n * k))
    launch(enc, "matmul", f"{x.dtype}_{w.dtype}", shape, x, (w, 0), out, ids=ids)
    return out


def _product(
    enc: Encoder,
    a: MlxBuffer,
    b: MlxBuffer,
    c: MlxBuffer | None,
    transposes: tuple[bool, bool],
    alpha: float,
    beta: float,
    out: Output,
) -> MlxBuffer:
    m, n, k = _sizes(a, b, *transposes)
    batch_sizes, batches = _batches(a, b, c)
    out = result(enc, out, (*batch_sizes, m, n), a.dtype)
    c_steps, c_elements = _added(c, out)
    # A single row or column has the same layout either way.
    across, along = transposes[0] and m > 1, transposes[1] or n == 1
    if not across and c_steps[0] == 0 and {*batches[1], *batches[2]} <= {1}:  # one b serves all rows
        m, batches = m * prod(batch_sizes), [[], [], []]
    swapped = n == 1 and m > 1 and not across and a.dtype is b.dtype
    if swapped:  # a column: the rows of a are the weights
        a, b, m, n, batches, c_steps = b, a, 1, m, [batches[i] for i in (1, 0, 2)], c_steps[::-1]
    sizes = [max(axes) for axes in zip(*batches, strict=True)]
    shape = Shape(
        *(m, n, k),
        transposed=along,
        alpha=alpha,
        beta=0.0 if c is None else beta,
        x=(1, m) if across else (k, 1),
        w_row=k if along else n,
        c=c_steps,
        batch=broadcast(sizes, *zip(batches, (m * k, n * k, c_elements), strict=True)),
    )
    launch(enc, "matmul", f"{a.dtype}_{b.dtype}", shape, a, (b, 0 if c is None else c), out)
    return out


def _sizes(a: MlxBuffer, b: MlxBuffer, transpose_a: bool, transpose_b: bool) -> tuple[int, int, int]:
    """Checks the operands; returns m, n and k."""
    check_dtype("a", a)
    check_dtype("b", b, FLOATS if a.dtype is DType.F32 else (a.dtype,))
    if min(a.ndim, b.ndim) < 2:
        raise InvalidArgument(f"a is {shown(a)} and b is {shown(b)}, expected at least two axes each")
    m, k = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    n, b_k = b.shape[-2:] if transpose_b else b.shape[-2:][::-1]
    if k != b_k:
        raise InvalidArgument(f"a is {shown(a)} and b is {shown(b)}; they would sum over {k} and {b_k} values")
    return m, n, k


def _batches(a: MlxBuffer, b: MlxBuffer, c: MlxBuffer | None) -> tuple[list[int], list[list[int]]]:
    """The batch axes of the result, and those of a, b and c, all of one length."""
    given = [list(buffer.shape[:-2]) if buffer is not None else [] for buffer in (a, b, c)]
    rank = max(map(len, given[:2]))
    axes = [[1] * (rank - len(each)) + each for each in given]
    sizes = [max(each) for each in zip(*axes[:2], strict=True)]
    if rank and 1 < axes[1][-1] < axes[0][-1] and axes[0][-1] % axes[1][-1] == 0:
        shared = axes[0][-1] // axes[1][-1]
        axes[0][-1:], axes[1][-1:] = [axes[1][-1], shared], [axes[1][-1], 1]
        axes[2][-1:] = [1, 1] if axes[2][-1] == 1 else [axes[2][-1] // shared, shared]
    for x, y in zip(*axes[:2], strict=True):
        if x != y and 1 not in (x, y):
            raise InvalidArgument(f"a is {shown(a)} and b is {shown(b)}; their batches do not broadcast")
    return sizes, axes


def _added(c: MlxBuffer | None, out: MlxBuffer) -> tuple[tuple[int, int], int]:
    """Strides of c along the rows and columns of the result, and its matrix size."""
    if c is None:
        return (0, 0), 0
    check_dtype("what is added", c, (out.dtype,))
    tail = (1,) * (out.ndim - c.ndim) + c.shape
    if len(tail) > out.ndim or any(size not in (1, most) for size, most in zip(tail, out.shape, strict=True)):
        raise InvalidArgument(f"the addend is {shown(c)}, expected a shape that broadcasts to {shown(out)}")
    rows, columns = tail[-2:]
    return (columns if rows > 1 else 0, 1 if columns > 1 else 0), rows * columns

"""Printed by `mlx-native ops --stub`; not edited by hand."""

from ..device import MlxDevice
from ..dtypes import DTypeLike
from ..memory.buffer import MlxBuffer
from .call import Array
from collections.abc import Sequence
from mlx_native_py.dtypes import DType
from mlx_native_py.ops.families.moe_experts import ExpertOrder
from mlx_native_py.ops.families.turboquant import Codes
from mlx_native_py.weights.ggml_types import GgmlType
from typing import Literal

__all__ = [
    "attention_mask",
    "chunk_cumsum",
    "compute_g_beta",
    "dequantize",
    "embedding",
    "exp",
    "gelu",
    "gelu_approx",
    "gelu_mul",
    "ggml_dequantize",
    "ggml_embedding",
    "ggml_matmul",
    "ggml_matmul_id",
    "hadamard_transform",
    "head_norm_rope",
    "l2_norm",
    "layer_norm",
    "log",
    "matmul_id",
    "moe_gate",
    "moe_geglu",
    "moe_permute",
    "moe_softmax_topk",
    "moe_sort",
    "moe_swiglu",
    "moe_unpermute",
    "moe_weighted_reduce",
    "moe_weighted_sum",
    "permute_021",
    "qkv_split",
    "quantize",
    "quantized_embedding",
    "quantized_matmul",
    "rms_norm",
    "rms_norm_add",
    "rms_norm_mul",
    "rope_2d",
    "rope_at",
    "rope_multi",
    "scale_mask_softmax",
    "sigmoid",
    "sigmoid_mul",
    "silu",
    "silu_mul",
    "softcap",
    "softmax_sample",
    "ssm_norm_gate",
    "tanh",
    "tq_dequantize",
    "tq_quantize",
    "transpose",
    "transpose_2d",
    "transpose_last2",
    "tri_solve_lower_unit",
]

def attention_mask(
    queries: int,
    keys: int,
    *,
    causal: bool = True,
    window: int | None = None,
    offset: int | None = None,
    dtype: DTypeLike = DType.BOOL,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The mask [queries, keys] of causal and sliding-window attention: booleans, or 0 and minus infinity to add.

    Query i is at position `offset + i`; by default the last query is at the last key.

    Formula: k <= q and q - k < window, for query q and key k"""

def chunk_cumsum(
    x: Array,
    *,
    chunk: int = 64,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Running sums of x [sequences, tokens, heads] along the tokens, restarting with each chunk.

    Formula: sums along the tokens of each chunk"""

def compute_g_beta(
    a: Array,
    b: Array,
    dt_bias: Array,
    ssm_a: Array,
    *,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The decay g and strength beta of each head, f32, for rows of a and b; dt_bias and ssm_a are f32 [heads].

    Formula: g = softplus(a + dt_bias) * -ssm_a, beta = sigmoid(b)"""

def dequantize(
    w: Array,
    scales: Array,
    biases: Array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = 'affine',
    dtype: DTypeLike | None = None,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Unpacks weights, rounded as in MLX; the default type is that of the scales, or bf16 for mxfp4.

    Formula: scales * w + biases"""

def embedding(
    ids: Array,
    table: Array,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows of a table [rows, dims], by u32 or i32 ids of any shape, times `scale`.

    Formula: out[i, :] = table[ids[i], :] * scale"""

def exp(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The exponential.

    Formula: exp(x)"""

def gelu(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The Gaussian error linear unit, exact; `gelu_approx` has the form with tanh.

    Formula: x * (1 + erf(x / sqrt(2))) / 2"""

def gelu_approx(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The Gaussian error linear unit in its form with tanh.

    Formula: x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2"""

def gelu_mul(
    gate: Array,
    up: Array,
    *,
    approximate: bool = True,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The gate of GeGLU, with tanh as in Gemma, or exact.

    Formula: gelu_approx(gate) * up; gelu(gate) * up"""

def ggml_dequantize(
    w: Array,
    format: str | GgmlType,
    dtype: DTypeLike = DType.F32,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Dequantizes blocks: u8 [..., bytes per row] gives [..., values per row].

    Formula: values(w)"""

def ggml_embedding(
    ids: Array,
    table: Array,
    format: str | GgmlType,
    dtype: DTypeLike = DType.F32,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows of a block table, u8 [rows, bytes per row], by u32 ids of any shape; zeros for ids out of range.

    Formula: values(table[ids])"""

def ggml_matmul(
    x: Array,
    w: Array,
    format: str | GgmlType,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows x [..., k] times weights w, u8 [n, bytes per row]; the result [..., n] has x's type, summed in float.

    Formula: x @ values(w)^T"""

def ggml_matmul_id(
    x: Array,
    w: Array,
    ids: Array,
    format: str | GgmlType,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Each row times the weights of its experts: w is u8 [experts, n, bytes per row], ids is u32 [..., top_k].

    x is [..., k], one row for all experts of a token, or [..., top_k, k], one for each. The result is [..., top_k, n],
    and zero for an id out of range.

    Formula: x @ values(w[id])^T for each id"""

def hadamard_transform(
    x: Array,
    scale: float | None = None,
    *,
    signs: Array | None = None,
    inverse: bool = False,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The Walsh-Hadamard transform along the last axis of m * 2^k values, m one of 1, 12, 20, 28 and 2^k <= 8192.

    With the default scale and m = 1 it is its own inverse. `signs` has one bit per value of a row, in u32 words from
    the lowest bit; `inverse` undoes the transform with the same signs.

    Formula: H x * scale, scale 1/sqrt(n) unless given; signs flipped before H, or after it where inverse"""

def head_norm_rope(
    x: Array,
    weight: Array | None,
    positions: Array | int,
    *,
    dims: int | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    factors: Array | None = None,
    eps: float = 1e-06,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The RMS norm of each head of x[tokens, heads, width], then NeoX RoPE over its first `dims` values.

    `positions` is a buffer with one per token, or the first one. `factors` divide the frequencies.

    Formula: rope(rms_norm(x) * weight, positions) for each head"""

def l2_norm(
    x: Array,
    eps: float = 1e-06,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Divides each row by its Euclidean length.

    Formula: x / sqrt(sum(x^2) + eps)"""

def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-05,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Subtracts the mean of each row and divides by its standard deviation; weight and bias are optional.

    Formula: (x - mean(x)) / sqrt(var(x) + eps) * weight + bias"""

def log(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The natural logarithm: -inf of 0, NaN below.

    Formula: log(x)"""

def matmul_id(
    x: Array,
    w: Array,
    ids: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Each row times the weights of its experts: w is [experts, n, k], typed as b of matmul, ids is u32 [..., top_k].

    x is [..., k], one row for all experts of a token, or [..., top_k, k], one for each. The result is [..., top_k, n],
    and zero for an id out of range.

    Formula: x @ w[id]^T for each id"""

def moe_gate(
    hidden: Array,
    router: Array,
    norm: Array,
    top_k: int,
    per_expert_scale: Array | None = None,
    *,
    eps: float = 1e-06,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """Norm, router matmul, top-k and weights in one: u32 and f32 [tokens, top_k], largest logits first.

    `router` is f32 [experts, width] and `norm` f32 [width]; the weights of a token sum to one, scaled or not.

    Formula: ids of the top_k largest rms_norm(x) * norm @ router.T; softmax over them * per_expert_scale[ids], / its sum"""

def moe_geglu(
    gate_up: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The tanh form of GELU of the first half of each row, times the second half.

    Formula: gelu_tanh(gate) * up of rows gate || up"""

def moe_permute(
    x: Array,
    order: Array,
    *,
    top_k: int,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The rows of x [tokens, width] for the slots in `order`: [tokens * top_k, width].

    Formula: out[i] = x[order[i] // top_k]"""

def moe_softmax_topk(
    logits: Array,
    top_k: int,
    per_expert_scale: Array | None = None,
    *,
    renormalise: bool = True,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """The experts of each row of logits, u32, and their weights, f32, both [tokens, top_k], largest first.

    `renormalise` makes the weights sum to one before they are scaled per expert.

    Formula: ids, p of the top_k largest p = softmax(logits), ties to the lower id; p / sum(p) * per_expert_scale[ids]"""

def moe_sort(
    ids: Array,
    *,
    experts: int,
    stream: MlxDevice | None = None,
) -> ExpertOrder:
    """Sorts the slots of ids [tokens, top_k] by expert, so that each expert's rows are contiguous.

    Formula: counts, offsets, order, places of a stable sort of ids"""

def moe_swiglu(
    gate_up: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """SiLU of the first half of each row, times the second half.

    Formula: silu(gate) * up of rows gate || up"""

def moe_unpermute(
    y: Array,
    places: Array,
    weights: Array,
    residual: Array | None = None,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Returns the rows y [tokens * top_k, width] of sorted slots to their tokens, weighted and summed.

    Formula: out[t] = sum_k weights[t, k] * y[places[t, k]] (+ residual)"""

def moe_weighted_reduce(
    y: Array,
    weights: Array,
    shared: Array,
    shared_logit: Array,
    residual: Array | None = None,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The weighted sum of y [tokens, top_k, width], plus the shared expert's row [tokens, width] gated by its logit.

    `shared_logit` is the raw logit of each token, f32.

    Formula: sum_k weights_k * y_k + sigmoid(shared_logit) * shared (+ residual)"""

def moe_weighted_sum(
    y: Array,
    weights: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The experts' rows y [tokens, top_k, width] summed with f32 weights [tokens, top_k].

    Formula: sum_k weights_k * y_k"""

def permute_021(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """[tokens, heads, dims] to [heads, tokens, dims], or back.

    Formula: out[j, i, k] = x[i, j, k]"""

def qkv_split(
    x: Array,
    widths: Sequence[int],
    *,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer, MlxBuffer]:
    """Splits rows of fused queries, keys and values; `widths` are the three widths.

    Formula: q, k, v = x[..., :a], x[..., a:a + b], x[..., a + b:]"""

def quantize(
    w: Array,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = 'affine',
    *,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, ...]:
    """Packs [..., k] into u32 words, scales and biases (none for mxfp4), bit-identical to MLX.

    Formula: (w - biases) / scales, in 2 to 8 bits"""

def quantized_embedding(
    ids: Array,
    w: Array,
    scales: Array,
    biases: Array,
    *,
    group_size: int = 64,
    bits: int = 4,
    scale: float = 1.0,
    dtype: DTypeLike | None = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows of a table packed by MLX's `quantize`; `dtype` is the result's type (default: that of the scales).

    Formula: out[i, :] = (scales * w + biases)[ids[i], :] * scale"""

def quantized_matmul(
    x: Array,
    w: Array,
    scales: Array,
    biases: Array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = 'affine',
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Rows x [..., m, k] times packed weights [..., n, k], or [..., k, n] without `transpose`; batches broadcast.

    The result has x's type, summed in float with unrounded weights. Scales may have another type than x.

    Formula: x @ (scales * w + biases)^T"""

def rms_norm(
    x: Array,
    weight: Array | None = None,
    eps: float = 1e-05,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Divides each row by its root mean square; `weight` is optional.

    Formula: x / sqrt(mean(x^2) + eps) * weight"""

def rms_norm_add(
    x: Array,
    residual: Array,
    weight: Array | None = None,
    eps: float = 1e-05,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """A residual plus an RMS norm, as in Gemma's post-norms.

    Formula: (residual + rms_norm(x) * weight) * scale"""

def rms_norm_mul(
    x: Array,
    weight: Array | None,
    factor: Array,
    eps: float = 1e-05,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """An RMS norm times a buffer of the same shape.

    Formula: rms_norm(x) * weight * factor"""

def rope_2d(
    x: Array,
    positions: Array,
    *,
    base: float = 10000.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE of image patches: x[tokens, heads, width] with positions[2, tokens]; each half is treated as a head.

    Formula: rope of a head's first half by positions[0] and of its second half by positions[1]"""

def rope_at(
    x: Array,
    positions: Array | int,
    *,
    dims: int | None = None,
    traditional: bool = False,
    base: float | None = 10000.0,
    scale: float = 1.0,
    factors: Array | None = None,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """RoPE over x[tokens, heads, width] with a position per token; options as for `rope`.

    Formula: rope of each token at its own position"""

def rope_multi(
    x: Array,
    positions: Array,
    *,
    sections: Sequence[int],
    mode: Literal['mrope', 'imrope', 'vision'] = 'mrope',
    dims: int | None = None,
    base: float = 10000.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Multi-section RoPE over x[tokens, heads, width] with positions[axes, tokens]; pair i is (i, i + dims/2).

    `sections` are pairs per axis: consecutive for "mrope", interleaved for "imrope"; "vision" has two sections that
    fill the head, and restarts its frequencies in the second.

    Formula: rope whose pairs take their positions from different axes"""

def scale_mask_softmax(
    x: Array,
    mask: Array,
    *,
    scale: float = 1.0,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The softmax of scaled rows with a mask, which is added, or boolean (true: keep).

    The mask may have fewer rows than x, and then repeats: [queries, keys] for x[..., queries, keys].

    Formula: softmax(x * scale + mask[row % mask rows]); a boolean mask keeps where it is true"""

def sigmoid(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The logistic function.

    Formula: 1 / (1 + exp(-x))"""

def sigmoid_mul(
    x: Array,
    gate: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """A buffer multiplied by a sigmoid gate.

    Formula: x * sigmoid(gate)"""

def silu(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The sigmoid-weighted linear unit, also called swish.

    Formula: x / (1 + exp(-x))"""

def silu_mul(
    gate: Array,
    up: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The gate of SwiGLU.

    Formula: silu(gate) * up"""

def softcap(
    x: Array,
    cap: float,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Limits values smoothly to -cap..cap.

    Formula: cap * tanh(x / cap)"""

def softmax_sample(
    logits: Array,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    history: Array | None = None,
    history_length: Array | int | None = None,
    seed: int = 0,
    step: Array | int = 0,
    stream: MlxDevice | None = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """Samples one token per row of logits, as u32, with the natural logarithm of its probability.

    In this order: logits of tokens in `history` are divided by the penalty (multiplied, if negative); the softmax of
    logits / temperature; the `top_k` most probable (0: all); of those the fewest with a total of `top_p`; of those the
    ones with at least `min_p` of the highest probability. Ties go to the lower index. The log-probability is that of
    the full softmax. Temperature 0 picks the largest logit, with the log-probability at temperature 1. NaN counts as
    minus infinity.

    The draw depends only on `seed`, `step` and the row. `step`, and `history_length` (valid tokens per row of
    `history`), can be u32 buffers with one value or one per row, so that a captured step can be replayed.

    Formula: a token of softmax(logits / temperature), after penalty, top_k, top_p and min_p, and the log of its probability"""

def ssm_norm_gate(
    x: Array,
    weight: Array,
    z: Array,
    *,
    eps: float = 1e-06,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The RMS norm of each row, times the SiLU of its gate.

    Formula: x / sqrt(mean(x^2) + eps) * weight * silu(z)"""

def tanh(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """The hyperbolic tangent.

    Formula: tanh(x)"""

def tq_dequantize(
    codes: Array,
    norms: Array,
    bits: int = 4,
    *,
    signs: Array | None = None,
    rotated: bool = False,
    dtype: DTypeLike = DType.F32,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Reconstructs rows from codes and norms; `rotated` skips the inverse transform and signs.

    Formula: x = signs hadamard(level[codes] * norm / sqrt(n))"""

def tq_quantize(
    x: Array,
    bits: int = 4,
    *,
    signs: Array | None = None,
    stream: MlxDevice | None = None,
) -> Codes:
    """Codes, u8 [..., n * bits / 8], and norms, f32 [..., n / 256 or 1], of rows of n values, n a power of two.

    Codes of 1 to 8 bits are packed from the lowest bit of the first byte. `signs` has one bit per value, in u32 words
    from the lowest bit. In rows of more than 256 values, each 256 have their own norm and count as n.

    Formula: y = hadamard(signs x); norm = |y|; code of the level nearest to y sqrt(n) / norm, ties to the lower code"""

def transpose(
    x: Array,
    axes: Sequence[int] | None = None,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Permutes the axes (default: reverses them); axis i of the result is axis `axes[i]` of x.

    Formula: out[..., i, ...] = x[..., j, ...] with axes in the order given"""

def transpose_2d(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Swaps rows and columns.

    Formula: out[j, i] = x[i, j]"""

def transpose_last2(
    x: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Swaps rows and columns of each matrix of a batch.

    Formula: out[i, k, j] = x[i, j, k]"""

def tri_solve_lower_unit(
    a: Array,
    b: Array,
    *,
    stream: MlxDevice | None = None,
) -> MlxBuffer:
    """Solves a x = b for b [..., n, columns] with unit lower triangular a [..., n, n].

    Only entries of `a` below the diagonal are used.

    Formula: x with (I + strict lower part of a) x = b"""

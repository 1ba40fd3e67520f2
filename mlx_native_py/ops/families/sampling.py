"""Sampling of the next token: temperature, top-k, top-p, min-p and repetition penalty."""

from __future__ import annotations

import math
import struct

from ...dtypes import DType
from ...encoder import Encoder, Out
from ...errors import InvalidArgument
from ...memory.buffer import MlxBuffer
from ..op import Count, Indices, Output, op
from ..rows import for_rows
from ..support import check_dtype, kernel, one_dtype, result, rows_of, shown

__all__ = ["softmax_sample"]

_TOP_P, _MIN_P = 1 << 32, 1 << 31  # the kernel's fixed-point units of probability


@op("a token of softmax(logits / temperature), after penalty, top_k, top_p and min_p, and the log of its probability")
def softmax_sample(
    enc: Encoder,
    logits: MlxBuffer,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    history: Indices | None = None,
    history_length: Count | None = None,
    seed: int = 0,
    step: Count = 0,
    out: Output = None,
    log_probability: Output = None,
) -> tuple[MlxBuffer, MlxBuffer]:
    """Samples one token per row of logits, as u32, with the natural logarithm of its probability.

    In this order: logits of tokens in `history` are divided by the penalty (multiplied, if negative); the softmax of
    logits / temperature; the `top_k` most probable (0: all); of those the fewest with a total of `top_p`; of those the
    ones with at least `min_p` of the highest probability. Ties go to the lower index. The log-probability is that of
    the full softmax. Temperature 0 picks the largest logit, with the log-probability at temperature 1. NaN counts as
    minus infinity.

    The draw depends only on `seed`, `step` and the row. `step`, and `history_length` (valid tokens per row of
    `history`), can be u32 buffers with one value or one per row, so that a captured step can be replayed.
    """
    one_dtype(logits=logits)
    rows, length = rows_of("logits", logits)
    _check_options(temperature, top_k, top_p, min_p, repetition_penalty)
    out = result(enc, out, logits.shape[:-1], DType.U32)
    log_probability = result(enc, log_probability, logits.shape[:-1], DType.F32)
    logits = _prepared(enc, logits, history, history_length, repetition_penalty)
    steps, stride = _per_row("step", step, rows)
    most = 0 if top_p >= 1 else max(1, round(top_p * _TOP_P))
    options = struct.pack("<Qf5I", seed % 2**64, temperature, top_k, most, round(min_p * _MIN_P), length, stride)
    _launch(enc, logits, steps, (out, log_probability), options, draws=temperature > 0 and top_k != 1)
    return out, log_probability


def _launch(
    enc: Encoder,
    logits: MlxBuffer,
    steps: MlxBuffer | bytes,
    results: tuple[MlxBuffer, MlxBuffer],
    options: bytes,
    *,
    draws: bool,
) -> None:
    """Finds the most likely tokens, and then replaces them by sampled ones if required."""
    rows, length = rows_of("logits", logits)
    weights = enc.empty((rows, length), DType.U32) if draws else results[0]
    first = (logits, *map(Out, (weights, *results)), options)
    for_rows(enc, kernel(enc, "sampling", "sample_weights"), rows, length, *first)
    if draws:
        second = (logits, weights, steps, *results, options)
        for_rows(enc, kernel(enc, "sampling", "sample_draw"), rows, length, *second)


def _prepared(
    enc: Encoder,
    logits: MlxBuffer,
    history: Indices | None,
    history_length: Count | None,
    penalty: float,
) -> MlxBuffer:
    """The logits as f32 [rows, length], with the repetition penalty applied."""
    if history is None and penalty != 1:
        raise InvalidArgument(f"repetition_penalty is {penalty}, expected a history with it")
    if history is None and logits.dtype is DType.F32:
        return logits
    rows, length = rows_of("logits", logits)
    prepared = enc.empty((rows, length), DType.F32)
    pipeline = kernel(enc, "sampling", f"sample_logits_{logits.dtype}")
    enc.dispatch(pipeline, logits, Out(prepared), logits.size, threads=logits.size)
    if history is None:
        return prepared
    check_dtype("history", history, (DType.U32,))
    history_rows, capacity = rows_of("history", history)
    if history_rows != rows:
        raise InvalidArgument(f"history is {shown(history)}, expected {rows} rows, as logits have")
    if isinstance(history_length, int) and history_length > capacity:
        raise InvalidArgument(f"history_length is {history_length}, expected at most {capacity}")
    lengths, stride = _per_row("history_length", capacity if history_length is None else history_length, rows)
    penalise = kernel(enc, "sampling", f"sample_penalise_{logits.dtype}")
    enc.dispatch(penalise, logits, history, lengths, prepared, penalty, length, stride, threads=(capacity, rows))
    return prepared


def _per_row(name: str, value: Count, rows: int) -> tuple[MlxBuffer | bytes, int]:
    """A value for all rows or one per row, as the kernels take it, and its stride."""
    if isinstance(value, int):
        if not 0 <= value < 1 << 32:
            raise InvalidArgument(f"{name} is {value}, expected a number of 32 bits")
        return struct.pack("<I", value), 0
    check_dtype(name, value, (DType.U32,))
    if value.size not in (1, rows):
        raise InvalidArgument(f"{name} is {shown(value)}, expected one value, or one for each of {rows}")
    return value, int(value.size > 1)


def _check_options(temperature: float, top_k: int, top_p: float, min_p: float, penalty: float) -> None:
    for name, value, good, expected in (
        ("temperature", temperature, 0 <= temperature < math.inf, "0 or more"),
        ("top_k", top_k, 0 <= top_k < 1 << 32, "0 or more"),
        ("top_p", top_p, 0 < top_p <= 1, "more than 0 and up to 1"),
        ("min_p", min_p, 0 <= min_p <= 1, "0 to 1"),
        ("repetition_penalty", penalty, penalty > 0, "more than 0"),
    ):
        if not good:
            raise InvalidArgument(f"{name} is {value}, expected {expected}")

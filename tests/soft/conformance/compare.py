"""Decides whether a kernel's values are the expected ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Significant bits and smallest normal exponent.
_PRECISION = {"float32": (24, -126), "float16": (11, -14), "bfloat16": (8, -126)}


def mismatch(got: Array, want: Array, ulp: float | None, atol: float) -> str | None:
    """None when equal (bit for bit unless `ulp` is given); else a sentence naming the first difference."""
    expected = np.broadcast_to(np.asarray(want), got.shape)
    good = _same(got, expected) if ulp is None else _near(got, expected, ulp, atol)
    if bool(np.all(good)):
        return None
    where = tuple(int(i) for i in np.argwhere(~good)[0])
    bad = int(np.size(good) - np.count_nonzero(good))
    return f"{bad} of {good.size} values differ, first at {where}: got {got[where]!r}, expected {expected[where]!r}"


def _same(got: Array, want: Array) -> NDArray[np.bool_]:
    typed = want.astype(got.dtype)
    if got.dtype.kind in "biu":
        return np.asarray(got == typed)
    wide, reference = got.astype(np.float64), typed.astype(np.float64)
    both_nan = np.isnan(wide) & np.isnan(reference)
    return np.asarray(both_nan | ((wide == reference) & (np.signbit(wide) == np.signbit(reference))))


def _near(got: Array, want: Array, ulp: float, atol: float) -> NDArray[np.bool_]:
    bits, smallest = _PRECISION[got.dtype.name]
    reference = want.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = reference.astype(got.dtype).astype(np.float64)
        wide = got.astype(np.float64)
        exponent = np.maximum(np.floor(np.log2(np.abs(reference))), smallest)
        unit = np.exp2(np.where(np.isfinite(exponent), exponent, smallest) - (bits - 1))
        close = np.abs(wide - reference) <= ulp * unit + atol
    special = ~np.isfinite(rounded) | ~np.isfinite(wide)
    return np.asarray(np.where(special, (wide == rounded) | (np.isnan(wide) & np.isnan(rounded)), close))

"""A comparison with MLX: one call of a function, ours and theirs, with the same arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from mlx_native_py import DType, MlxDevice, fn

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class MlxRow:
    """`fn.<name>(*arguments, **options)` beside MLX's function of the same name.

    That is `mlx.core`'s, else `mlx.core.fast`'s, else `mlx.nn`'s. Arguments are numpy arrays and plain values; MLX gets
    its own copies of the arrays. Where the two differ by more than names, `ours` and `mlx` say what to call:
    `ours(*arguments, **options, stream=device)` and `mlx(mx, *arguments, **options)`.
    """

    name: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: Callable[..., Any] | None = None
    mlx: Callable[..., Any] | None = None
    exact: bool = False
    tolerance: float = 1e-4
    """Of each element and, for those near zero, of the root mean square of all."""
    note: str = ""
    """Tells rows of one function apart."""
    long: bool = False
    """Whether only the long run has it."""

    @property
    def id(self) -> str:
        shapes = ["x".join(map(str, value.shape)) for value in self.arguments if isinstance(value, np.ndarray)]
        return "-".join([self.name, *filter(None, [self.note]), *shapes[:2]])

    def run_ours(self, device: MlxDevice) -> list[Array]:
        call = self.ours or getattr(fn, self.name)
        return [np.asarray(each) for each in _several(call(*self.arguments, **self.options, stream=device))]

    def run_mlx(self, mx: Any) -> list[Array]:
        arguments = [_to_mlx(mx, value) for value in self.arguments]
        options = {name: _to_mlx(mx, value) for name, value in self.options.items()}
        answer = self.mlx(mx, *arguments, **options) if self.mlx else _theirs(mx, self.name)(*arguments, **options)
        return [_from_mlx(mx, each) for each in _several(answer)]

    def compare(self, ours: Array, theirs: Array) -> None:
        assert ours.shape == theirs.shape, f"{ours.shape}, MLX has {theirs.shape}"
        if self.exact:
            assert ours.dtype == theirs.dtype, f"{ours.dtype}, MLX has {theirs.dtype}"
            np.testing.assert_array_equal(ours, theirs)
            return
        exact = theirs.astype(np.float64)
        finite = exact[np.isfinite(exact)]
        least = np.sqrt(np.mean(np.square(finite))) if finite.size else 0.0
        np.testing.assert_allclose(ours.astype(np.float64), exact, rtol=self.tolerance, atol=self.tolerance * least)


def normal(*shape: int, seed: int = 0, dtype: DType = DType.F32) -> Array:
    """Random numbers of a type, the same in every run."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32).astype(dtype.numpy)


def _several(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _theirs(mx: Any, name: str) -> Any:
    import mlx.nn as nn

    return next(getattr(module, name) for module in (mx, mx.fast, nn) if hasattr(module, name))


def _to_mlx(mx: Any, value: Any) -> Any:
    if isinstance(value, list):
        return [_to_mlx(mx, each) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return mx.array(value.view(np.uint16)).view(mx.bfloat16)
    return mx.array(value)


def _from_mlx(mx: Any, value: Any) -> Array:
    if value.dtype == mx.bfloat16:
        return np.array(value.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(value)

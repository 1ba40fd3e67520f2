"""Generates the table of ops for the terminal and for `docs/ops.md`."""

from __future__ import annotations

import importlib
from itertools import groupby

from .. import ops
from ..dtypes import DType

__all__ = ["markdown", "mlx_name", "rows"]

_INTRODUCTION = """\
# Ops

`ops.<name>(enc, ...)` encodes an op on buffers; [writing a kernel](writing-a-kernel.md) shows how one is made.
`fn.<name>(...)` is for those who just want a result: numpy arrays or buffers in, a buffer out, under MLX's name where
MLX has the function. Arithmetic on floats of any width is in float. NaN and infinity mean what IEEE 754 says.
What an op reads and writes follows from its kernels, so barriers need no thought; all can be captured and replayed.

This page is printed by `mlx-native ops --markdown`. `mx` is `mlx.core`, and `nn` is `mlx.nn`.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Family, name, types and formula of each op, in the order of the page."""
    return [(each.family, each.name, _types(each), each.formula) for each in _ops()]


def markdown() -> str:
    """The page; needs MLX to look up its function names."""
    lines = [_INTRODUCTION]
    for family, members in groupby(_ops(), key=lambda each: each.family):
        lines += [f"## {family}", "", "| op | formula | types | function | in MLX | |", "|---|---|---|---|---|---|"]
        for each in members:
            theirs = [name for name in map(mlx_name, each.functions) if name]
            ours = [f"fn.{name}" for name in each.functions]
            named = [", ".join(f"`{name}`" for name in names) for names in (ours, theirs)]
            cells = [f"`{each.name}`", f"`{each.formula}`", _types(each), *named, each.summary]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def mlx_name(function: str) -> str:
    """The MLX name of a function of ours, with its module; empty if MLX has none.

    >>> mlx_name("rms_norm"), mlx_name("silu_mul")
    ('mx.fast.rms_norm', '')
    """
    for module, short in (("mlx.core", "mx"), ("mlx.core.fast", "mx.fast"), ("mlx.nn", "nn")):
        theirs = getattr(importlib.import_module(module), function, None)
        if callable(theirs):
            return f"{short}.{function}"
    return ""


def _ops() -> list[ops.Op]:
    return sorted(ops.table().values(), key=lambda each: (each.family, each.name))


def _types(each: ops.Op) -> str:
    return "any" if set(each.types) == {str(dtype) for dtype in DType} else " ".join(each.types)

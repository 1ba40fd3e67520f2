"""The table of ops, from the ops themselves: on the terminal, and as the page `docs/ops.md`."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from itertools import groupby

from .. import fn, ops
from ..dtypes import DType

__all__ = ["functions_of", "markdown", "mlx_name", "rows"]

_INTRODUCTION = """\
# Ops

`ops.<name>(enc, ...)` encodes an op on buffers; [writing a kernel](writing-a-kernel.md) shows how one is made.
`fn.<name>(...)` is for those who just want a result: numpy arrays or buffers in, a buffer out, under MLX's name where
MLX has the function. Arithmetic is in float, whatever the elements are. NaN and infinity mean what IEEE 754 says.
What an op reads and writes follows from its kernels, so barriers need no thought; all can be captured and replayed.

This page is printed by `mlx-native ops --markdown`. `mx` is `mlx.core`, and `nn` is `mlx.nn`.
"""


def rows() -> list[tuple[str, str, str, str]]:
    """Family, name, types and formula of each op, in the order of the page."""
    return [(each.family, each.name, _types(each), each.formula) for each in _ops()]


def markdown() -> str:
    """The page; MLX has to be installed, since it is asked for its names."""
    lines = [_INTRODUCTION]
    for family, members in groupby(_ops(), key=lambda each: each.family):
        lines += [f"## {family}", "", "| op | formula | types | function | in MLX | |", "|---|---|---|---|---|---|"]
        for each in members:
            functions = functions_of(each.name)
            theirs = [name for name in map(mlx_name, functions) if name]
            named = [", ".join(f"`{name}`" for name in names) for names in ([f"fn.{f}" for f in functions], theirs)]
            cells = [f"`{each.name}`", f"`{each.formula}`", _types(each), *named, each.summary]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def mlx_name(function: str) -> str:
    """What MLX calls a function of ours, with its module; empty where MLX has none.

    >>> mlx_name("rms_norm"), mlx_name("silu_mul")
    ('mx.fast.rms_norm', '')
    """
    for module, short in (("mlx.core", "mx"), ("mlx.core.fast", "mx.fast"), ("mlx.nn", "nn")):
        found = getattr(importlib.import_module(module), function, None)
        if callable(found):
            return f"{short}.{function}"
    return ""


def functions_of(op: str) -> list[str]:
    """The functions of `fn` that encode an op: its twin first."""
    found = [name for name, used in _uses().items() if op in used]
    return sorted(found, key=lambda name: (name != op, name))


@cache
def _uses() -> dict[str, frozenset[str]]:
    """The ops that each public function names."""
    found = {}
    for module in pkgutil.iter_modules(fn.__path__):
        source = inspect.getsource(importlib.import_module(f"{fn.__name__}.{module.name}"))
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef) and hasattr(fn, node.name):
                found[node.name] = frozenset(_named(node)) & ops.table().keys()
    return found


def _named(function: ast.FunctionDef) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            yield node.attr


def _ops() -> list[ops.Op]:
    return sorted(ops.table().values(), key=lambda each: (each.family, each.name))


def _types(each: ops.Op) -> str:
    return "any" if set(each.types) == {str(dtype) for dtype in DType} else " ".join(each.types)

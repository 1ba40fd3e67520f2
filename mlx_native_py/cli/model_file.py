"""`mlx-native info FILE`: the contents of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..json_fields import read_table
from ..models import model_path
from ..weights import Tensor, TensorFile, open_gguf, open_safetensors
from .table import plain, print_table

__all__ = ["describe_model_file", "show_model_file"]


def show_model_file(name: str, *, every_tensor: bool = False) -> None:
    """Prints architecture, tensors by format, and metadata of a GGUF file, safetensors or a folder."""
    path = model_path(name)
    kind, file, metadata = _opened(path)
    values = sum(tensor.size for tensor in file.values())
    rows = [
        ("file", plain(path, 200)),
        ("format", kind),
        ("architecture", plain(_architecture(metadata))),
        ("tensors", f"{len(file):,}"),
        ("values", f"{values:,} in the shapes of the tensors"),
        ("size", _size(file.nbytes)),
    ]
    print_table(("property", "value"), rows)
    print()
    print_table(("format", "tensors", "values", "size", "note"), _by_format(file))
    if every_tensor:
        print()
        print_table(("tensor", "format", "shape", "size"), [_row(tensor) for tensor in file.values()])
    print()
    print_table(("metadata", "value"), [(plain(key), plain(value)) for key, value in _flat(metadata)])


def describe_model_file(name: str, *, every_tensor: bool = False) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    path = model_path(name)
    kind, file, metadata = _opened(path)
    columns = ("format", "tensors", "values", "size", "note")
    told = {
        "file": str(path),
        "format": kind,
        "architecture": plain(_architecture(metadata)),
        "tensors": len(file),
        "values": sum(tensor.size for tensor in file.values()),
        "nbytes": file.nbytes,
        "formats": [dict(zip(columns, row, strict=True)) for row in _by_format(file)],
        "metadata": {plain(key): plain(value) for key, value in _flat(metadata)},
    }
    if every_tensor:
        tensors = file.values()
        told["tensor_list"] = [
            {"name": plain(each.name, 100), "format": each.format, "shape": each.shape, "nbytes": each.nbytes}
            for each in tensors
        ]
    return told


def _opened(path: Path) -> tuple[str, TensorFile, Mapping[str, Any]]:
    if path.is_file():
        with path.open("rb") as opened:
            if opened.read(4) == b"GGUF" or path.suffix == ".gguf":
                file: TensorFile = open_gguf(path)
                return "GGUF", file, file.metadata
    file = open_safetensors(path)
    beside = (path if path.is_dir() else path.parent) / "config.json"
    config = read_table(beside) if beside.is_file() else {}
    return "safetensors", file, {**file.metadata, **config}


def _architecture(metadata: Mapping[str, Any]) -> object:
    return metadata.get("general.architecture") or metadata.get("model_type") or "not said"


def _by_format(file: TensorFile) -> list[tuple[str, str, str, str, str]]:
    groups: dict[str, list[Tensor]] = {}
    for tensor in file.values():
        groups.setdefault(tensor.format, []).append(tensor)
    return [
        (
            name,
            f"{len(group):,}",
            f"{sum(tensor.size for tensor in group):,}",
            _size(sum(tensor.nbytes for tensor in group)),
            "not readable" if group[0].problem else "",
        )
        for name, group in groups.items()
    ]


def _row(tensor: Tensor) -> tuple[str, str, str, str]:
    return plain(tensor.name, 100), tensor.format, " x ".join(map(str, tensor.shape)), _size(tensor.nbytes)


def _flat(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Nested tables with dotted keys, one level deep."""
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        pairs += (
            [(f"{key}.{each}", inner) for each, inner in value.items()] if isinstance(value, dict) else [(key, value)]
        )
    return pairs


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:,.1f} MB" if nbytes >= 100_000 else f"{nbytes:,} bytes"

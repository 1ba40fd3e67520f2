"""GGUF files, versions 2 and 3, including split ones; sizes are checked against the file before use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dtypes import DType
from ..errors import ModelFileError
from .ggml_types import GGML_TYPES
from .gguf_cursor import Cursor
from .recognise import what_it_is
from .tensors import MappedFile, Tensor, TensorFile, check_layout, path_of

__all__ = ["GgufFile", "open_gguf"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_AXES = 8
# Minimum bytes of an entry: key or name, types, counts.
_LEAST_PAIR, _LEAST_TENSOR = 8 + 4 + 1, 8 + 4 + 8 + 4 + 8
_PLAIN = {0: DType.F32, 1: DType.F16, 24: DType.I8, 25: DType.I16, 26: DType.I32, 27: DType.I64, 30: DType.BF16}
_BLOCKS = {kind.code: kind for kind in GGML_TYPES.values()}
_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


class GgufFile(TensorFile):
    """A GGUF model: tensors by name, and metadata."""


def open_gguf(path: Path | str) -> GgufFile:
    """Opens a GGUF file; for a split one, give the first part."""
    first = path_of(path)
    tensors, metadata = _read(first)
    for other in _other_parts(first, metadata):
        more, _ = _read(other)
        for name, tensor in more.items():
            if name in tensors:
                raise ModelFileError(other, name, tensor.offset, "is in an earlier part, too")
            tensors[name] = tensor
    return GgufFile(first, tensors, metadata)


def _other_parts(first: Path, metadata: Mapping[str, Any]) -> list[Path]:
    count = metadata.get("split.count", 1)
    if count in (0, 1) or not isinstance(count, int):
        return []
    match = _SPLIT.match(first.name)
    if match is None or int(match["count"]) != count:
        raise ModelFileError(first, "split.count", 0, f"{count}, but the file's name does not say so")
    if int(match["number"]) != 1 or metadata.get("split.no", 0) != 0:
        raise ModelFileError(first, "split.no", 0, f"this is part {match['number']}; open the first one")
    return [first.with_name(f"{match['stem']}-{n:05}-of-{count:05}.gguf") for n in range(2, count + 1)]


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    file = MappedFile(path)
    cursor = Cursor(path, file.data)
    if (magic := cursor.raw(4, "magic")) != MAGIC:
        raise ModelFileError(path, "magic", 0, f"expected {MAGIC!r}, got {magic!r}; the file is {what_it_is(path)}")
    if (version := cursor.number("I", "version")) not in VERSIONS:
        raise ModelFileError(path, "version", 4, f"{version}, expected 2 or 3 (in little-endian order)")
    tensor_count = cursor.count(_LEAST_TENSOR, "tensor count")
    pair_count = cursor.count(_LEAST_PAIR, "metadata count")
    metadata: dict[str, Any] = {}
    for _ in range(pair_count):
        at = cursor.at
        key = cursor.text("metadata key")
        if key in metadata:
            raise ModelFileError(path, key, at, "occurs twice")
        metadata[key] = cursor.value(key)
    tensors = _tensors(file, cursor, tensor_count, metadata)
    return tensors, metadata


def _tensors(file: MappedFile, cursor: Cursor, count: int, metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20 or alignment & (alignment - 1):
        raise ModelFileError(file.path, "general.alignment", 0, f"{alignment!r}, expected a power of two")
    described = [_describe(file, cursor) for _ in range(count)]
    first = -(-cursor.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, code, offset, at in described:
        if name in tensors:
            raise ModelFileError(file.path, name, at, "occurs twice")
        if offset % alignment:
            raise ModelFileError(file.path, name, at, f"offset {offset} is not a multiple of {alignment}")
        tensors[name] = _tensor(file, name, shape, code, first + offset, at)
    check_layout(file, tensors, first)
    return tensors


def _describe(file: MappedFile, cursor: Cursor) -> tuple[str, tuple[int, ...], int, int, int]:
    at = cursor.at
    name = cursor.text("tensor name")
    axes = cursor.number("I", f"{name}: number of axes")
    if axes > MOST_AXES:
        raise ModelFileError(file.path, name, at, f"{axes} axes, expected at most {MOST_AXES}")
    shape = tuple(reversed([cursor.number("Q", f"{name}: axis {axis}") for axis in range(axes)]))
    return name, shape, cursor.number("I", f"{name}: type"), cursor.number("Q", f"{name}: offset"), at


def _tensor(file: MappedFile, name: str, shape: tuple[int, ...], code: int, offset: int, at: int) -> Tensor:
    size = 1
    for axis in shape:
        size *= axis
        if not 0 < size <= file.size * 8:
            raise ModelFileError(file.path, name, at, f"shape {list(shape)} does not fit in {file.size} bytes")
    if code in _PLAIN:
        dtype = _PLAIN[code]
        return Tensor(name, shape, str(dtype), file, offset, size * dtype.size, packed=False)
    block = _BLOCKS.get(code)
    if block is None:
        problem = f"GGML type {code} is not supported; there are: {', '.join(GGML_TYPES)} and plain numbers"
        return Tensor(name, shape, f"type {code}", file, offset, 0, packed=True, problem=problem)
    if not shape or shape[-1] % block.values:
        raise ModelFileError(file.path, name, at, f"rows of {shape[-1:]} are not whole blocks of {block.values}")
    return Tensor(name, shape, block.name, file, offset, size // block.values * block.bytes, packed=True)

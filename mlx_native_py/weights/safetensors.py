"""Safetensors files, single and sharded; the header is checked before anything is allocated."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dtypes import DType
from ..errors import MissingFileError, ModelFileError
from .tensors import MappedFile, Tensor, TensorFile, check_layout, path_of

__all__ = ["SafetensorsFile", "open_safetensors"]

MOST_HEADER = 100 << 20
MOST_AXES = 8
_LONGEST_FILE_NAME = 255  # bytes
_DTYPES = {str(dtype).upper(): dtype for dtype in DType}


class SafetensorsFile(TensorFile):
    """A safetensors model: tensors by name, and metadata.

    >>> from safetensors.numpy import save_file
    >>> save_file({"w": np.ones((2, 3), np.float16)}, folder / "w.safetensors", {"format": "mlx"})
    >>> file = open_safetensors(folder / "w.safetensors")
    >>> file["w"], file.metadata["format"], file["w"].buffer(device)
    (<Tensor 'w', f16[2, 3], 12 bytes>, 'mlx', MlxBuffer('w.safetensors', f16[2, 3], 12 bytes at 104 of ...))
    """


def open_safetensors(path: Path | str) -> SafetensorsFile:
    """Opens a file, or all shards of a model: give the folder, its `model.safetensors.index.json`, or one file."""
    given = path_of(path)
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, Any] = {}
    for each in _files(given):
        more, about = _read(each)
        for name, tensor in more.items():
            if name in tensors:
                raise ModelFileError(each, name, tensor.offset, f"is in {tensors[name].file.path.name}, too")
            tensors[name] = tensor
        metadata.update(about)
    return SafetensorsFile(given, tensors, metadata)


def _files(given: Path) -> list[Path]:
    if given.is_dir():
        index = given / "model.safetensors.index.json"
        if index.is_file():
            return _files(index)
        files = sorted(given.glob("*.safetensors"))
        if not files:
            raise MissingFileError(f"there is no .safetensors file in {given}")
        return files
    if given.suffix != ".json":
        return [given]
    whole = _table(given, _parsed(given, given.read_bytes(), 0), "index", 0)
    places = _table(given, whole.get("weight_map"), "weight_map", 0)
    if bad := [name for name in places.values() if not _is_file_name(name)]:
        raise ModelFileError(given, "weight_map", 0, f"{bad[0]!r:.80} is not the name of a file in the same folder")
    files = [given.with_name(name) for name in dict.fromkeys(places.values())]
    if missing := [file.name for file in files if not file.is_file()]:
        raise ModelFileError(
            given, "weight_map", 0, f"{missing[0]} is not in the folder; {len(missing)} of {len(files)} are missing"
        )
    return files


def _is_file_name(name: Any) -> bool:
    if not isinstance(name, str) or not _is_text(name):
        return False
    return Path(name).name == name != "" and "\0" not in name and len(name.encode()) <= _LONGEST_FILE_NAME


def _is_text(text: str) -> bool:
    """Whether a JSON string has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    file = MappedFile(path)
    if file.size < 8:
        raise ModelFileError(path, "header length", 0, f"takes 8 bytes, and the file has {file.size}")
    (length,) = struct.unpack_from("<Q", file.data)
    if length > min(file.size - 8, MOST_HEADER):
        raise ModelFileError(path, "header length", 0, f"{length} bytes, and the file has {file.size}")
    header = _table(path, _parsed(path, file.data[8 : 8 + length], 8), "header", 8)
    about = _table(path, header.pop("__metadata__", {}), "__metadata__", 8)
    texts = {key: str(value) for key, value in about.items()}
    if bad := [key for key, value in texts.items() if not _is_text(value)]:
        raise ModelFileError(path, "__metadata__", 8, f"the value of {bad[0]!r} is no text")
    first = 8 + length
    tensors = {name: _tensor(file, name, fields, first) for name, fields in header.items()}
    check_layout(file, tensors, first)
    return tensors, texts


def _parsed(path: Path, text: bytes, at: int) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            raise ValueError("a name occurs twice")
        if bad := [name for name in table if not _is_text(name)]:
            raise ValueError(f"{bad[0]!r} is no text")
        return table

    try:
        return json.loads(bytes(text).decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as reason:
        raise ModelFileError(path, "header", at, f"not JSON: {reason}") from None


def _table(path: Path, value: Any, field: str, at: int) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelFileError(path, field, at, f"{value!r:.60}, expected a table")
    return value


def _tensor(file: MappedFile, name: str, fields: Any, first: int) -> Tensor:
    table = _table(file.path, fields, name, 8)
    shape, offsets = (_numbers(file.path, name, table, key) for key in ("shape", "data_offsets"))
    kind = table.get("dtype")
    if len(offsets) != 2 or len(shape) > MOST_AXES or not offsets[0] <= offsets[1] <= file.size - first:
        message = f"shape {list(shape)} at {list(offsets)}, expected an end in the {file.size - first} bytes of data"
        raise ModelFileError(file.path, name, 8, message)
    offset, nbytes = first + offsets[0], offsets[1] - offsets[0]
    if not isinstance(kind, str):
        raise ModelFileError(file.path, f"{name}.dtype", 8, f"{kind!r:.60}, expected the name of a type")
    if kind not in _DTYPES:
        problem = f"type {kind!r} is not supported; there are: {', '.join(_DTYPES)}"
        return Tensor(name, shape, str(kind), file, offset, nbytes, packed=True, problem=problem)
    dtype = _DTYPES[kind]
    size = dtype.size
    for axis in shape:
        size *= axis
        if size > file.size:
            break
    if size != nbytes:
        raise ModelFileError(file.path, name, 8, f"{kind}{list(shape)} does not take {nbytes} bytes")
    problem = "" if nbytes else "it has no elements"
    return Tensor(name, shape, str(dtype), file, offset, nbytes, packed=False, problem=problem)


def _numbers(path: Path, name: str, table: Mapping[str, Any], key: str) -> tuple[int, ...]:
    values = table.get(key)
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < 1 << 63 for value in values):
        raise ModelFileError(path, f"{name}.{key}", 8, f"{values!r:.60}, expected a list of whole numbers")
    return tuple(values)

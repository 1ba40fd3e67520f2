"""Kernel arguments on the command line, such as `x=ones:1024:f32`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import Out
from ..errors import InvalidArgument, MlxError
from ..memory.buffer import MlxBuffer
from ..memory.texture import MlxTexture
from ..pipelines.pipeline import Binding, Pipeline
from ..pipelines.structs import Struct, struct_of_argument

__all__ = ["Argument", "LANGUAGE", "arguments_for", "parse_argument", "parse_sizes"]

LANGUAGE = """\
An argument is NAME=VALUE:
  x=zeros:1024        zeros, in the type that the kernel declares      x=ones:4x8:f16   a shape and a type
  x=arange:1024       0, 1, 2, ...                                     x=random:1024    the same numbers each time
  x=random:64:f32:7   with the seed 7                                  x=const:2.5:64   64 times 2.5
  x=out:1024          only written; its values are not set             a=2.5            a value; a=1,2,3 is a vector
  x=weights.npy       an array from a file                             p={"n":3}        a struct, as JSON
  t=random:64x48      a texture of 64 rows and 48 columns of RGBA      t=zeros:4x8x1:u8 one channel, normalised
Types: f32 f16 bf16 u8 u16 u32 u64 i8 i16 i32 i64 bool."""


@dataclass(frozen=True)
class Argument:
    """One `--arg`: its name, and its value split at colons."""

    name: str
    words: tuple[str, ...]
    option: str = "--arg"

    def __str__(self) -> str:
        return f"{self.option} {self.name}={':'.join(self.words)}"

    def value(self, binding: Binding, empty: Callable[..., MlxBuffer]) -> Any:
        """The value for the kernel; `empty` creates buffers that it only writes."""
        try:
            return self._value(binding, empty)
        except MlxError:
            raise
        except (MemoryError, ValueError) as problem:  # numpy's, of sizes
            raise InvalidArgument(f"{self}: {problem}") from None

    def texture(self, binding: Binding, device: MlxDevice) -> MlxTexture:
        """The value for a texture of the kernel: images of four channels, unless the shape says otherwise."""
        declared = next((dtype for dtype in DType if dtype.code == binding.data_type), DType.F32)
        kind, *words = self.words
        if kind.endswith(".npy"):
            return device.texture(self.value(binding, device.empty))
        shape, dtype, _ = self._array(words, binding, 3)
        image = (*shape, 4) if len(shape) == 2 else shape
        dtype = dtype if len(words) > 1 else declared
        if kind == "out":
            return device.empty_texture(image, dtype)
        whole = Argument(self.name, (kind, "x".join(map(str, image)), str(dtype), *words[2:]), self.option)
        return device.texture(whole.value(binding, device.empty))

    def _value(self, binding: Binding, empty: Callable[..., MlxBuffer]) -> Any:
        kind, *rest = self.words
        if kind.startswith("{"):
            return _struct(self)
        if kind.endswith(".npy"):
            return _loaded(Path(":".join(self.words)))
        if kind == "const" and len(rest) > 1:
            value, *rest = rest
            shape, dtype, _ = self._array(rest, binding, 2)
            return np.full(shape, _number(value, dtype), dtype.numpy)
        if kind in ("zeros", "ones", "arange", "random", "out"):
            shape, dtype, seed = self._array(rest, binding, 3 if kind == "random" else 2)
            return Out(empty(shape, dtype, label=self.name)) if kind == "out" else _made(kind, shape, dtype, seed)
        if kind == "const" and rest or len(self.words) == 1:
            return _value(rest[0] if rest else kind, self)
        raise InvalidArgument(f"{self}: {kind!r} is not a kind of value.\n{LANGUAGE}")

    def _array(self, words: list[str], binding: Binding, most: int) -> tuple[tuple[int, ...], DType, int]:
        """Shape, type and seed; the default type is the kernel's own."""
        if not 1 <= len(words) <= most:
            raise InvalidArgument(f"{self}: expected a shape such as 1024 or 4x8, then perhaps a type.\n{LANGUAGE}")
        shape = parse_sizes(words[0], str(self))
        declared = binding.scalar.dtype if binding.scalar else DType.U8
        dtype = DType.of(words[1]) if len(words) > 1 else declared
        if len(words) == 1 and binding.scalar and binding.scalar.lanes > 1:
            shape = (*shape, binding.size // dtype.size)
        if len(words) == 1 and binding.scalar is None and binding.kind == "buffer":
            shape = (*shape, max(1, binding.size))
        return shape, dtype, int(_number(words[2], DType.U32)) if len(words) > 2 else 0


def parse_argument(text: str, option: str = "--arg") -> Argument:
    """Parses `NAME=VALUE`.

    >>> parse_argument("x=ones:4x8:f16")
    Argument(name='x', words=('ones', '4x8', 'f16'), option='--arg')
    """
    name, equals, value = text.partition("=")
    if not (equals and name.isidentifier() and value):
        raise InvalidArgument(f"{option} {text}: expected NAME=VALUE.\n{LANGUAGE}")
    return Argument(name, tuple(value.split(":")), option)


def parse_sizes(text: str, where: str) -> tuple[int, ...]:
    """Parses sizes such as 1024 or 4x8.

    >>> parse_sizes("4x8", "--threads")
    (4, 8)
    """
    parts = text.lower().split("x")
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InvalidArgument(f"{where}: {text!r} is not a size; expected whole numbers such as 1024 or 4x8")
    return tuple(map(int, parts))


def arguments_for(pipeline: Pipeline, given: list[Argument], device: MlxDevice, source: str) -> list[Any]:
    """The kernel's arguments by slot, then textures and samplers, which may be left out.

    Raises on unknown ones, and suggests values for missing ones.
    """
    by_name = {argument.name: argument for argument in given}
    if len(by_name) < len(given):
        twice = next(name for name, count in Counter(each.name for each in given).items() if count > 1)
        raise InvalidArgument(f"--arg {twice}=... is given twice")
    textures = [binding for binding in pipeline.textures if binding.kind == "texture"]
    needed = [binding for binding in (*pipeline.buffers, *textures) if binding is not None]
    wanted = {binding.name for binding in needed}
    unknown = [name for name in by_name if name not in wanted]
    missing = [binding for binding in needed if binding.name not in by_name]
    if unknown:
        known = ", ".join(sorted(wanted)) or "none"
        raise InvalidArgument(f"kernel {pipeline.label!r} has no argument {unknown[0]!r}; it has: {known}")
    if missing:
        lines = " ".join(f"--arg {binding.name}={_suggestion(binding, pipeline, source)}" for binding in missing)
        raise InvalidArgument(f"kernel {pipeline.label!r} needs more arguments, for example {lines}")
    values = [None if each is None else by_name[each.name].value(each, device.empty) for each in pipeline.buffers]
    samplers = [device.sampler() for binding in pipeline.textures if binding.kind == "sampler"]
    return [*values, *(by_name[each.name].texture(each, device) for each in textures), *samplers]


def _suggestion(binding: Binding, pipeline: Pipeline, source: str) -> str:
    struct = struct_of_argument(source, pipeline.name, binding.name, binding.size) if binding.scalar is None else None
    if struct is not None:
        return f"'{json.dumps(_ones(struct), separators=(',', ':'))}'"
    if binding.kind == "texture":
        return "out:64x64" if not binding.reads else "random:64x64"
    if re.search(rf"&\s*{re.escape(binding.name)}\b", source) and binding.scalar is not None:
        return ",".join("1" * binding.scalar.lanes)
    return "zeros:1024" if binding.writes else "random:1024"


def _ones(struct: Struct) -> dict[str, Any]:
    """A value of a struct, as an example."""
    return {
        field.name: _ones(field.kind) if isinstance(field.kind, Struct) else np.ones(field.shape, int).tolist()
        for field in struct.fields
    }


def _struct(argument: Argument) -> dict[str, Any]:
    try:
        value = json.loads(":".join(argument.words))
    except ValueError as problem:
        raise InvalidArgument(f"{argument}: a struct is a JSON object of its members: {problem}") from None
    return dict(value)


def _loaded(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except ValueError as problem:
        raise InvalidArgument(f"{path} is not an array that numpy can load: {problem}") from None


def _made(kind: str, shape: tuple[int, ...], dtype: DType, seed: int) -> Any:
    if kind == "random":
        generator = np.random.default_rng(seed)
        if dtype.is_float:
            return generator.random(shape, np.float32).astype(dtype.numpy)
        return generator.integers(0, 2 if dtype is DType.BOOL else 100, shape).astype(dtype.numpy)
    if kind == "arange":
        return np.arange(int(np.prod(shape))).reshape(shape).astype(dtype.numpy)
    return np.full(shape, int(kind == "ones"), dtype.numpy)


def _number(text: str, dtype: DType) -> float | int:
    try:
        return float(text) if dtype.is_float else int(text, 0)
    except ValueError:
        raise InvalidArgument(f"{text!r} is not a value of type {dtype}") from None


def _value(text: str, argument: Argument) -> Any:
    """A number, a bool, or a vector of numbers."""
    words = {"true": True, "false": False}
    if text in words:
        return words[text]
    values: list[int | float] = []
    for part in text.split(","):
        try:
            values.append(int(part, 0))
        except ValueError:
            try:
                values.append(float(part))
            except ValueError:
                raise InvalidArgument(f"{argument}: {part!r} is not a value.\n{LANGUAGE}") from None
    return values[0] if len(values) == 1 else tuple(values)

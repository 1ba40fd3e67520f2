"""Struct arguments: their layout as declared in the source, and packing of dicts and numpy records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import DType
from ..errors import InvalidArgument
from ..memory.buffer import exactly

__all__ = ["Field", "Struct", "parameters_of", "struct_of_argument"]

_ALIASES = {
    "unsigned int": "uint",
    "unsigned": "uint",
    "unsigned short": "ushort",
    "unsigned char": "uchar",
    "unsigned long": "ulong",
    "size_t": "ulong",
    **{f"uint{bits}_t": name for bits, name in ((8, "uchar"), (16, "ushort"), (32, "uint"), (64, "ulong"))},
    **{f"int{bits}_t": name for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))},
}
_SCALARS = {dtype.mtl: dtype for dtype in DType}
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_VECTOR = re.compile(r"(packed_)?([a-z]+?)([234])")
_MEMBER = re.compile(r"\s*(?:const\s+)?([\w ]+?)\s+(\w+)\s*((?:\[\s*\d+\s*\]\s*)*)")


@dataclass(frozen=True, slots=True)
class Field:
    """A member of a struct: numbers of one type, or another struct."""

    name: str
    kind: DType | Struct
    shape: tuple[int, ...]
    offset: int

    def pack(self, value: Any, into: bytearray, at: int) -> None:
        """Writes the member's bytes."""
        start = at + self.offset
        if isinstance(self.kind, Struct):
            if self.shape:
                raise InvalidArgument(f"member {self.name!r} is an array of structs; pass bytes")
            self.kind.pack_into(value, into, start)
            return
        try:
            values = exactly(value, self.kind)
        except InvalidArgument:
            values = None
        if values is None or values.shape != self.shape:
            wanted = f"{self.kind}{list(self.shape) if self.shape else ''}"
            raise InvalidArgument(f"member {self.name!r} is {value!r}, expected {wanted}")
        into[start : start + values.nbytes] = values.tobytes()


@dataclass(frozen=True, slots=True)
class Struct:
    """The members and size of a struct."""

    name: str
    fields: tuple[Field, ...]
    size: int
    alignment: int

    def pack(self, value: Any) -> bytes:
        """The bytes of a dict or numpy record, packed by member name."""
        data = bytearray(self.size)
        self.pack_into(value, data, 0)
        return bytes(data)

    def pack_into(self, value: Any, data: bytearray, at: int) -> None:
        """Packs at an offset inside another struct."""
        given = {name: value[name] for name in value.dtype.names or ()} if isinstance(value, np.void) else value
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"{value!r} is not a dict with the members of struct {self.name}")
        names = [field.name for field in self.fields]
        if set(given) != set(names):
            missing, unknown = [n for n in names if n not in given], [n for n in given if n not in names]
            problem = f"lacks {', '.join(missing)}" if missing else f"has no {', '.join(map(str, unknown))}"
            raise InvalidArgument(f"struct {self.name} has {', '.join(names)}; what was given {problem}")
        for field in self.fields:
            field.pack(given[field.name], data, at)


def parameters_of(source: str, kernel: str) -> str:
    """The parameter list of a kernel in its source; the whole source if the name is not found.

    >>> source = 'template [[host_name("k_half")]] kernel void k<half>(device half *); kernel void k(device T *x) {}'
    >>> parameters_of(source, "k_half")
    'device T *x)'
    """
    instance = re.search(rf'host_name\(\s*"{re.escape(kernel)}"\s*\)\s*\]\][^;{{(]*?(\w+)\s*<', source)
    opening = re.search(rf"\b{re.escape(instance[1] if instance else kernel)}\s*\(", source)
    return source if opening is None else source[opening.end() : _closing(source, opening.end(), "()")]


def _closing(source: str, start: int, brackets: str) -> int:
    """The position after the bracket that closes the one open at `start`."""
    depth, end = 1, start
    while depth and end < len(source):
        depth += {brackets[0]: 1, brackets[1]: -1}.get(source[end], 0)
        end += 1
    return end


@lru_cache(maxsize=256)
def struct_of_argument(source: str, kernel: str, argument: str, size: int) -> Struct | None:
    """The struct that an argument is declared with; None if it is not found or not of `size` bytes.

    >>> source = "struct P { uint n; float3 c; half w[2]; }; kernel void k(constant P &p) {}"
    >>> p = struct_of_argument(source, "k", "p", 48)
    >>> [(field.name, field.offset) for field in p.fields], p.size
    ([('n', 0), ('c', 16), ('w', 32)], 48)
    """
    plain = _COMMENT.sub(" ", source)
    declared = re.search(rf"(\w+)\s*[&*]\s*{re.escape(argument)}\b", parameters_of(plain, kernel))
    struct = None if declared is None else _struct(plain, declared[1])
    return struct if struct is not None and struct.size == size else None


def _struct(source: str, name: str) -> Struct | None:
    opening = re.search(rf"\bstruct\s+{re.escape(name)}\s*\{{", source)
    if opening is None:
        return None
    fields: list[Field] = []
    end, widest = 0, 1
    for text in source[opening.end() : _closing(source, opening.end(), "{}") - 1].split(";"):
        if not text.strip():
            continue
        member = _MEMBER.fullmatch(text)
        kind = None if member is None else _kind(source, member[1])
        if member is None or kind is None:
            return None
        of, lanes, size, alignment = kind
        extents = tuple(int(each) for each in re.findall(r"\d+", member[3]))
        count = int(np.prod(extents, dtype=int))
        if extents and lanes and size != lanes * of.size:
            return None  # rows with gaps between them
        start = -(-end // alignment) * alignment
        fields.append(Field(member[2], of, (*extents, *((lanes,) if lanes else ())), start))
        end, widest = start + size * count, max(widest, alignment)
    return Struct(name, tuple(fields), -(-end // widest) * widest, widest)


def _kind(source: str, name: str) -> tuple[Any, int, int, int] | None:
    """Element type, lanes (0 for a scalar), size and alignment of a member's type."""
    spelled = " ".join(name.split())
    spelled = _ALIASES.get(spelled, spelled)
    if spelled in _SCALARS:
        return _SCALARS[spelled], 0, _SCALARS[spelled].size, _SCALARS[spelled].size
    vector = _VECTOR.fullmatch(spelled)
    if vector and vector[2] in _SCALARS:
        of, lanes = _SCALARS[vector[2]], int(vector[3])
        if vector[1]:
            return of, lanes, of.size * lanes, of.size
        room = of.size * (4 if lanes == 3 else lanes)
        return of, lanes, room, room
    other = _struct(source, spelled)
    return None if other is None else (other, 0, other.size, other.alignment)

"""Zeros for the padding of private variables, temporaries above all, so that it is zero wherever they are stored.

clang gives a value to variables that have a name. The rest is done here, in its IR before any optimisation: every
struct begins as zeros, and optimisers keep of them what no member covers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ..engines.lanes.ir.layout import offset_of, size_of
from ..engines.lanes.ir.model import ArrayType, Declined, IntType, StructType, Type
from ..engines.lanes.ir.parse import parse_module
from ..engines.lanes.ir.reader import Reader
from ..toolchain import Toolchain

_CLASS = re.compile(r"\b(?:struct|class|union)\b")
_NAMED = r'%(?:"[^"]*"|[-\w$.]+)'
_NAMES = re.compile(_NAMED)
_ALLOCA = re.compile(rf"  ({_NAMED}) = alloca (.+), align (\d+)$")
_BEGIN = re.compile(rf"  call void @llvm\.lifetime\.start\.p0\((?:i64 [-\d]+, )?ptr (?:nonnull )?({_NAMED})\)")
# Those of our headers have no padding, or fill it; arrays have elements of the source.
_OWN = re.compile(r'%"?(?:struct|class|union)\.(?:soft_|(?:metal|soft|mpp)::(?!array\b))')
_UNION = re.compile(r'%"?union\.')
_INTEGERS = tuple(IntType(bits) for bits in (8, 16, 32, 64))
_MEMSET = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
WHOLE = 256  # bytes up to which a variable is cleared as a whole; of larger ones only the gaps are
MOST_GAPS = 64
LARGEST_ALIGNMENT = 64

Span = tuple[int, int]  # the first byte and the one behind the last


def may_have_padding(source: str) -> bool:
    """Whether a kernel's text has types of its own."""
    return _CLASS.search(source) is not None


def compile_cleared(toolchain: Toolchain, source: Path, output: Path, options: Sequence[str]) -> str:
    """Makes the object file by way of IR before any optimisation, with zeros; answers what the compiler said."""
    plain = source.with_suffix(".plain.ll")
    said = toolchain.run(toolchain.to_plain_ir(source, plain, options)).stderr
    plain.write_text(with_zeros(plain.read_text()))
    return said + toolchain.run(toolchain.compile(plain, output, options)).stderr


def with_zeros(text: str) -> str:
    """The module with zeros in private structs, before anything else is stored there."""
    lines = text.splitlines()
    try:
        types = parse_module("\n".join(line for line in lines if line.startswith("%"))).types
    except Declined:
        return text
    padded = [name for name in types if not _OWN.match(name) and next(_gaps(types[name]), None)]
    if not padded:
        return text
    zeros = _Zeros(types, padded)
    result = [line for each in lines for line in zeros.line(each)]
    if len(result) > len(lines) and _MEMSET.partition("(")[0] not in text:
        result.append(_MEMSET)
    return "\n".join([*result, ""])


class _Zeros:
    """Adds stores of zeros to the lines of a module: where a function begins, and where a variable's life does."""

    def __init__(self, types: Mapping[str, Type], padded: list[str]) -> None:
        self._types = types
        self._padded = set(padded)
        self._variables: dict[str, tuple[Type, str]] = {}  # of the function: type and alignment
        self._allocating = False
        self._count = 0

    def line(self, line: str) -> Iterator[str]:
        if line.startswith("define "):
            self._variables, self._allocating = {}, True
        elif self._allocating and line.startswith("  "):
            self._allocating = self._allocate(line)
            if not self._allocating:
                for name in self._variables:
                    yield from self._stores(name)
        yield line
        begun = _BEGIN.match(line)
        if begun and begun[1] in self._variables:
            yield from self._stores(begun[1])

    def _allocate(self, line: str) -> bool:
        alloca = _ALLOCA.match(line)
        if alloca and not self._padded.isdisjoint(_NAMES.findall(alloca[2])):
            self._variables[alloca[1]] = Reader(self._types, {}, {}, alloca[2]).type(), alloca[3]
        return alloca is not None

    def _stores(self, name: str) -> Iterator[str]:
        kind, align = self._variables[name]
        size = size_of(kind)
        gaps = list(islice(_gaps(kind), MOST_GAPS + 1))
        if size <= WHOLE or len(gaps) > MOST_GAPS:
            yield f"  call void @llvm.memset.p0.i64(ptr align {align} {name}, i8 0, i64 {size}, i1 false)"
            return
        for start, end in gaps:
            self._count += 1
            place = f"%soft.gap.{self._count}"
            yield f"  {place} = getelementptr inbounds i8, ptr {name}, i64 {start}"
            yield f"  call void @llvm.memset.p0.i64(ptr {place}, i8 0, i64 {end - start}, i1 false)"


def _gaps(kind: Type, start: int = 0) -> Iterator[Span]:
    """Bytes that may be no member's: unions, what lies between members, and integers at the end of a struct."""
    if isinstance(kind, ArrayType):
        size = size_of(kind.element)
        if next(_gaps(kind.element), None):
            for number in range(kind.count):
                yield from _gaps(kind.element, start + number * size)
    elif isinstance(kind, StructType) and not _OWN.match(kind.name):
        if _UNION.match(kind.name):
            yield start, start + size_of(kind)
        else:
            yield from _of_struct(kind, start)


def _of_struct(kind: StructType, start: int) -> Iterator[Span]:
    end, tail = 0, _tail(kind)
    for index, field in enumerate(kind.fields[:tail]):
        offset = offset_of(kind, index)
        if _is_filling(field):
            continue
        if offset > end:
            yield start + end, start + offset
        yield from _gaps(field, start + offset)
        end = offset + size_of(field)
    if size_of(kind) > end:
        yield start + end, start + size_of(kind)


def _tail(kind: StructType) -> int:
    """The first of the fields at the end that may be bit-fields without a name, or what clang fills up with."""
    index = len(kind.fields)
    while index and (kind.fields[index - 1] in _INTEGERS or _is_filling(kind.fields[index - 1])):
        index -= 1
    return index


def _is_filling(kind: Type) -> bool:
    return isinstance(kind, ArrayType) and kind.element == _INTEGERS[0] and kind.count < LARGEST_ALIGNMENT

"""Pointers to members of structs: which member one was made from is kept until bounds are checked.

The mark is a call that seems to allocate the member, so that the optimiser takes the member for all there is. Only what
is in private variables and in constants of the program keeps it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..engines.lanes.ir.layout import size_of
from ..engines.lanes.ir.model import ArrayType, StructType
from ..engines.lanes.ir.parse import parse_module
from .names import FUNCTION, LOCAL, OBJECT_SIZE
from .pointers import Keepers, users_of

_MARK = "soft_member"
_SMALLER = "declare i64 @llvm.umin.i64(i64, i64)\n"
_DECLARED = f"declare ptr @{_MARK}(ptr, i64) allocsize(1) memory(none) nounwind willreturn\n{OBJECT_SIZE}\n"
_NAME = re.compile(r'define [^@]*@("[^"]*"|[-\w$.]+)\(')
_STRUCT = r'%(?:struct|class)\.[-\w$.]+|%"(?:struct|class)\.(?!metal::|soft::|mpp::)[^"]*"'
_MEMBER = re.compile(rf"  ({LOCAL}) = getelementptr [a-z ]*({_STRUCT}), ptr {LOCAL}, i32 0, i32 (\d+)")
# An element of an array or a union of arrays, or what our headers' operator[] gets: the element, the array, the place.
_ELEMENT = re.compile(rf"  ({LOCAL}) = getelementptr [a-z ]*\[.*\], ptr ({LOCAL}), i64 0, i64 \S+(, !dbg !\d+)")
_INDEXED = re.compile(rf"  ({LOCAL}) = call [^@\n]*@_ZN\w*5metal\w*ixE[im]\(ptr [^,%]*({LOCAL}), .*(, !dbg !\d+)")
_STEPPED = re.compile(rf"  {LOCAL} = getelementptr .*, ptr ({LOCAL}), i64 [^,]+(?:, !.*)?$")
_MARKED = re.compile(rf"  ({LOCAL} = )(?:tail )?call [^@\n]*@{_MARK}\(ptr (?:[^%\n]* )?({LOCAL}), i64 [^)]*\).*")


def mark_members(text: str) -> str:
    """The module, before optimisation, with marks; mostly it needs none."""
    marks = _Marks(text)
    result = FUNCTION.sub(lambda found: "\n".join(marks.function(found[0].split("\n"))), text)
    return "\n".join([result, _DECLARED + _SMALLER * (_SMALLER not in text)]) if result != text else text


def without_marks(text: str) -> str:
    """The module with the pointers themselves."""
    text = _MARKED.sub(r"  \1getelementptr i8, ptr \2, i64 0", text)
    return re.sub(rf"^declare [^\n]*@{_MARK}\(.*\n", "", text, flags=re.MULTILINE)


def is_marked(text: str) -> bool:
    return f"@{_MARK}(" in text


class _Marks:
    def __init__(self, text: str) -> None:
        self._types = parse_module("\n".join(line for line in text.splitlines() if line.startswith("%"))).types
        self._users = users_of(text)
        self._keepers = Keepers(text)

    def function(self, lines: list[str]) -> Iterator[str]:
        head = _NAME.match(lines[0])
        followed = set(self._followed(lines)) if head and head[1] in self._users else set()
        members: dict[str, int] = {}  # and their bytes
        for number, line in enumerate(lines):
            if (member := _MEMBER.match(line)) and (size := self._bytes(member[2], int(member[3]))):
                members[member[1]] = size
            element = _ELEMENT.match(line)
            used = element if element and element[1] in followed else _INDEXED.match(line)
            if used and used[2] in members:
                mark = f"%soft.member.{number}"
                yield from _mark(mark, used[2], members[used[2]], used[3])
                line = f"{line[: used.start(2)]}{mark}{line[used.end(2) :]}"
            yield line

    def _followed(self, lines: list[str]) -> Iterator[str]:
        """The pointers that may lead beyond what they were made from."""
        arrays = {found[1]: found[2] for line in lines if (found := _ELEMENT.match(line))}
        for line in lines:
            step = _STEPPED.match(line)
            for name in [*self._keepers.kept(line, {}), *([step[1]] if step else [])]:
                while name in arrays:
                    yield name
                    name = arrays[name]

    def _bytes(self, name: str, index: int) -> int:
        """Of an array, a vector, a matrix or a union; the last member of a struct may be a longer one."""
        fields = self._types[name].fields if name in self._types else ()
        known = index < len(fields) - 1 and isinstance(fields[index], (ArrayType, StructType))
        return size_of(fields[index]) if known else 0


def _mark(name: str, member: str, size: int, place: str) -> Iterator[str]:
    """What is marked, or the pointer itself where nobody knows what it leads to."""
    yield f"  {name}.left = call i64 @llvm.objectsize.i64.p0(ptr {member}, i1 false, i1 true, i1 true){place}"
    yield f"  {name}.unknown = icmp eq i64 {name}.left, -1{place}"
    yield f"  {name}.bytes = call i64 @llvm.umin.i64(i64 {name}.left, i64 {size}){place}"
    yield f"  {name}.known = call ptr @{_MARK}(ptr {member}, i64 {name}.bytes){place}"
    yield f"  {name} = select i1 {name}.unknown, ptr {member}, ptr {name}.known{place}"

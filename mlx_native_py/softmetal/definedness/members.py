"""Pointers to arrays that are members of structs: which array one was made from is kept until bounds are checked.

The mark is a call that seems to allocate the array, so that the optimiser takes the array for all there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..engines.lanes.ir.layout import size_of
from ..engines.lanes.ir.model import ArrayType, StructType
from ..engines.lanes.ir.parse import parse_module
from .names import FUNCTION, LOCAL
from .pointers import users_of

_MARK = "soft_member"
_DECLARED = f"declare ptr @{_MARK}(ptr, i64) allocsize(1) memory(none) nounwind willreturn\n"
_NAME = re.compile(r'define [^@]*@("[^"]*"|[-\w$.]+)\(')
_STRUCT = r'%(?:struct|class)\.[-\w$.]+|%"(?:struct|class)\.(?!metal::|soft::|mpp::)[^"]*"'
_MEMBER = re.compile(rf"  ({LOCAL}) = getelementptr [a-z ]*({_STRUCT}), ptr {LOCAL}, i32 0, i32 (\d+)")
_FIRST = re.compile(rf"  ({LOCAL}) = getelementptr [a-z ]*\[.*\], ptr ({LOCAL}), i64 0, i64 0(, !dbg !\d+)")
_MARKED = re.compile(rf"  ({LOCAL} = )(?:tail )?call [^@\n]*@{_MARK}\(ptr (?:[^%\n]* )?({LOCAL}), i64 [^)]*\).*")


def mark_members(text: str) -> str:
    """The module, before optimisation, with marks; mostly it needs none."""
    types = parse_module("\n".join(line for line in text.splitlines() if line.startswith("%"))).types
    users = users_of(text)

    def marked(found: re.Match[str]) -> str:
        head = _NAME.match(found[0])
        return "\n".join(_function(found[0].split("\n"), types)) if head and head[1] in users else found[0]

    result = FUNCTION.sub(marked, text)
    return f"{result}\n{_DECLARED}" if result != text else text


def without_marks(text: str) -> str:
    """The module with the pointers themselves."""
    text = _MARKED.sub(r"  \1getelementptr i8, ptr \2, i64 0", text)
    return re.sub(rf"^declare [^\n]*@{_MARK}\(.*\n", "", text, flags=re.MULTILINE)


def is_marked(text: str) -> bool:
    return f"@{_MARK}(" in text


def _function(lines: list[str], types: dict[str, StructType]) -> Iterator[str]:
    arrays: dict[str, int] = {}  # and their bytes
    for line in lines:
        first = _FIRST.match(line)
        if (member := _MEMBER.match(line)) and (size := _bytes(types, member[2], int(member[3]))):
            arrays[member[1]] = size
        if first and first[2] in arrays:
            yield f"  {first[1]} = call ptr @{_MARK}(ptr {first[2]}, i64 {arrays[first[2]]}){first[3]}"
        else:
            yield line


def _bytes(types: dict[str, StructType], name: str, index: int) -> int:
    """Of an array; the last member of a struct may be a longer one."""
    fields = types[name].fields if name in types else ()
    return size_of(fields[index]) if index < len(fields) - 1 and isinstance(fields[index], ArrayType) else 0

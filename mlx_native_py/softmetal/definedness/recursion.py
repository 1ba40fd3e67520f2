"""Private variables that functions which call themselves reach by pointers: these cannot be inlined, so the runtime
watches the variables by their addresses, each with room around it that is nobody's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .inlining import Calls, calls_of, reached
from .names import FUNCTION, LOCAL
from .types import Types

ROOM = 64  # bytes on both sides; runtime/check_private.cpp
_ALLOCA = re.compile(rf"  ({LOCAL}) = alloca (.+), align (\d+)")
_DECLARED = re.compile(rf"    #dbg_declare\(ptr ({LOCAL}), (!\d+),")
_ELEMENT = re.compile(rf"  ({LOCAL}) = getelementptr [^%]*ptr ({LOCAL})")
_CALL = re.compile(r'call [^@]*@("[^"]*"|[-\w$.]+)\((.*)\)')
_STORED = re.compile(rf"  store ptr ({LOCAL}), ptr ")
_LIFETIME = re.compile(rf"  call void @llvm\.lifetime\.\w+\.p0\(ptr ({LOCAL})\)")
_NAMES = re.compile(LOCAL)
_ANNOTATION = re.compile(rf"ptr[^%]* ({LOCAL}), .*!annotation ")
_DECLARATIONS = "declare void @soft_private_begin(ptr, i64, ptr)\ndeclare void @soft_private_end(ptr)\n"


def watch_recursion(text: str) -> str:
    """The module, before optimisation, with calls that tell of such variables; mostly it has none."""
    calls = calls_of(text)
    again = {name for name in calls if name in reached(calls, name)}
    leading = again | {name for name in calls if reached(calls, name) & again}
    if not again:
        return text
    watched = _Watched(calls, leading, Types(text))
    text = FUNCTION.sub(lambda function: "\n".join(watched.function(function[0].split("\n"))), text)
    return "\n".join([text, *watched.names, _DECLARATIONS])


class _Watched:
    def __init__(self, calls: Calls, leading: set[str], types: Types) -> None:
        self.names: list[str] = []
        self._leading = leading
        self._types = types

    def function(self, lines: list[str]) -> Iterator[str]:
        declared = {found[1]: found[2] for line in lines if (found := _DECLARED.match(line))}
        given = declared.keys() & set(self._given(lines)) if declared else set()
        kept = [name for line in lines if (found := _ALLOCA.match(line)) and (name := found[1]) in given]
        for line in lines:
            variable, lifetime, begun = _ALLOCA.match(line), _LIFETIME.match(line), _ANNOTATION.search(line)
            if variable and variable[1] in given:
                yield from self._variable(variable, self._types.name(declared[variable[1]]))
            elif (lifetime and lifetime[1] in given) or (begun and begun[1] in given):
                continue  # it has no value yet, and keeps its place
            else:
                if line.startswith("  ret "):
                    yield from (f"  call void @soft_private_end(ptr {name})" for name in reversed(kept))
                yield line

    def _variable(self, found: re.Match[str], spelled: str) -> Iterator[str]:
        name, kind, align = found.groups()
        size, room = f"i64 ptrtoint (ptr getelementptr ({kind}, ptr null, i64 1) to i64)", f"[{ROOM} x i8]"
        text = spelled.encode("ascii", "replace").decode()
        whole, known = f"%soft.whole.{len(self.names)}", f"@soft.watched.{len(self.names)}"
        self.names.append(f'{known} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"')
        yield f"  {whole} = alloca {{ {room}, {kind}, {room} }}, align {max(int(align), 16)}"
        yield f"  {name} = getelementptr inbounds i8, ptr {whole}, i64 {ROOM}"
        yield f"  call void @soft_private_begin(ptr {name}, {size}, ptr {known})"

    def _given(self, lines: list[str]) -> Iterator[str]:
        """What calls of these functions get, itself or its first element, and what other pointers lead to."""
        elements = {found[1]: found[2] for line in lines if (found := _ELEMENT.match(line))}
        calls = [call[2] for line in lines if (call := _CALL.search(line)) and call[1] in self._leading]
        stored = [found[1] for line in lines if (found := _STORED.match(line))] if calls else []
        for name in _NAMES.findall(" ".join([*calls, *stored])):
            yield name
            yield elements.get(name, name)

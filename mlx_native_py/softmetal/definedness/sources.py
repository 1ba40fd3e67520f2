"""Replaces the zeros that clang stores to uninitialised variables by opaque values.

Each becomes the result of a function without a body, so that the calls left after optimisation are those that may reach
a use. Most kernels have none left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .lifetimes import ENDED
from .own import OwnLoads
from .received import movable
from .types import Types

UNDEFINED = "soft_undefined."
MOST_GAPS = 1024  # of a variable; one with more is taken to have a value
GONE = " after its block"  # of a variable whose block has ended; checked/reports.py
LARGE = 256  # bytes of a variable of our own headers, which nobody needs to be zero
_LOCAL = r'(%(?:"[^"]*"|[-\w$.]+))'
_MARK = re.compile(r'^(!\d+) = !\{!"auto-init"\}$', re.MULTILINE)
_DECLARED = re.compile(rf"    #dbg_declare\(ptr {_LOCAL}, (!\d+),")
_STORE = re.compile(rf"  store (.+) (\S+), ptr {_LOCAL}, align")
_MEMSET = re.compile(rf"  call void @llvm\.memset[.\w]*\(ptr[^%]* {_LOCAL}, (i8 0), i64 (\d+), i1 false\)")


class Sources:
    """The text of a module with opaque values, and the names of the variables that have them."""

    def __init__(self, text: str) -> None:
        self.variables: list[str] = []
        self._kinds: set[str] = set()
        self._types = Types(text)
        mark = _MARK.search(text)
        self._mark = f"!annotation {mark[1]}" if mark else ""
        self._declared: dict[str, str] = {}  # for a variable of the function, what debuggers know of it
        self._own = OwnLoads()
        lines = [line for each in text.splitlines() for line in self._line(each)]
        self.text = movable("\n".join([*lines, *map(_declaration, sorted(self._kinds)), ""]))

    def _line(self, line: str) -> Iterator[str]:
        if self._mark and self._mark in line:
            yield from self._variable(line)
            return
        if line.startswith("define "):
            self._declared = {}
        elif declared := _DECLARED.match(line):
            self._declared[declared[1]] = declared[2]
        yield self._own.line(line)

    def _variable(self, line: str) -> Iterator[str]:
        """What stands for the zeros of a variable; our own, of headers and of loops that are watched, keep them."""
        stored, filled = _STORE.match(line), _MEMSET.match(line)
        declared = self._declared.get(stored[3] if stored else filled[1] if filled else "")
        if declared is None or "!dbg" not in line or self._types.name(declared).startswith("soft_"):
            if not (filled and int(filled[3]) > LARGE):
                yield line
        elif stored:
            value = self._value(declared, stored[1])
            yield self._call(value, stored[1])
            yield f"{line[: stored.start(2)]}{value}{line[stored.end(2) :]}"
        elif filled:
            yield from self._filled(line, filled, declared)

    def _filled(self, line: str, filled: re.Match[str], declared: str) -> Iterator[str]:
        gaps = self._types.padding(declared, int(filled[3]))
        if len(gaps) > MOST_GAPS:
            yield line
            return
        value = self._value(declared, "i8", GONE if line.endswith(ENDED) else "")
        yield self._call(value, "i8")
        yield f"{line[: filled.start(2)]}i8 {value}{line[filled.end(2) :]}"
        for number, (start, end) in enumerate(gaps):
            yield f"  {value}.{number} = getelementptr i8, ptr {filled[1]}, i64 {start}"
            yield f"  call void @llvm.memset.p0.i64(ptr {value}.{number}, i8 0, i64 {end - start}, i1 false)"

    def _value(self, declared: str, kind: str, gone: str = "") -> str:
        self._kinds.add(kind)
        self.variables.append(self._types.name(declared) + gone)
        return f"%soft.undefined.{len(self.variables) - 1}"

    def _call(self, value: str, kind: str) -> str:
        return f'  {value} = call {kind} @"{UNDEFINED}{kind}"(i32 {len(self.variables) - 1})'


def _declaration(kind: str) -> str:
    return f'declare {kind} @"{UNDEFINED}{kind}"(i32) memory(none) nounwind willreturn'

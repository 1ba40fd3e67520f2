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
from .types import Padding, Repeat, Types

UNDEFINED = "soft_undefined."
GONE = " after its block"  # of a variable whose block has ended; checked/reports.py
LARGE = 256  # bytes of a variable of our own headers, which nobody needs to be zero
_LOCAL = r'(%(?:"[^"]*"|[-\w$.]+))'
_LOOP = """
define internal void {name}(ptr %base, i8 %value) alwaysinline nounwind {{
begin:
  br label %round
round:
  %number = phi i64 [ 0, %begin ], [ %next, %round ]
  %from = mul i64 %number, {stride}
  %place = add i64 %from, {start}
  %element = getelementptr i8, ptr %base, i64 %place
{cleared}
  %next = add i64 %number, 1
  %more = icmp ult i64 %next, {count}
  br i1 %more, label %round, label %done
done:
  ret void
}}
"""
_PLACE = re.compile(r", !dbg !\d+")
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
        self._count = 0
        self._loops: list[str] = []
        lines = [line for each in text.splitlines() for line in self._line(each)]
        self.text = movable("\n".join([*lines, *self._loops, *map(_declaration, sorted(self._kinds)), ""]))

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
        value = self._value(declared, "i8", GONE if line.endswith(ENDED) else "")
        yield self._call(value, "i8")
        yield f"{line[: filled.start(2)]}i8 {value}{line[filled.end(2) :]}"
        place = _PLACE.search(line)
        padding = self._types.padding(declared, int(filled[3]))
        yield from self._cleared(padding, value, filled[1], place[0] if place else "")

    def _cleared(self, padding: Padding, value: str, base: str, place: str) -> Iterator[str]:
        """Zeros for what is no member's."""
        for start, end in padding.gaps:
            gap = self._name()
            yield f"  {gap} = getelementptr i8, ptr {base}, i64 {start}"
            yield f"  call void @llvm.memset.p0.i64(ptr {gap}, i8 0, i64 {end - start}, i1 false)"
        for start, bits in padding.bits:
            gap = self._name()
            yield f"  {gap} = getelementptr i8, ptr {base}, i64 {start}"
            yield f"  {gap}.bits = and i8 {value}, {bits}"
            yield f"  store i8 {gap}.bits, ptr {gap}, align 1"
        for repeat in padding.repeats:
            yield f"  call void {self._loop(repeat)}(ptr {base}, i8 {value}){place}"

    def _loop(self, repeat: Repeat) -> str:
        """A function that does so for each element of an array."""
        name = f"@soft.padding.{self._name().rpartition('.')[2]}"
        cleared = "\n".join(self._cleared(repeat.padding, "%value", "%element", ""))
        self._loops.append(_LOOP.format(name=name, cleared=cleared, **{**vars(repeat), "padding": ""}))
        return name

    def _name(self) -> str:
        self._count += 1
        return f"%soft.hole.{self._count}"

    def _value(self, declared: str, kind: str, gone: str = "") -> str:
        self._kinds.add(kind)
        self.variables.append(self._types.name(declared) + gone)
        return f"%soft.undefined.{len(self.variables) - 1}"

    def _call(self, value: str, kind: str) -> str:
        return f'  {value} = call {kind} @"{UNDEFINED}{kind}"(i32 {len(self.variables) - 1})'


def _declaration(kind: str) -> str:
    return f'declare {kind} @"{UNDEFINED}{kind}"(i32) memory(none) nounwind willreturn'

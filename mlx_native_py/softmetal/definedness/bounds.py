"""Checks of the accesses that may leave a private variable or a constant, in modules before optimisation.

The optimiser works out how large the object behind a pointer is, and drops the checks that always hold. It does so
before anything that takes an access outside of an object for one that never happens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..engines.lanes.ir.layout import stored_bytes
from ..engines.lanes.ir.parse import parse_module
from ..engines.lanes.ir.reader import Reader
from .names import FUNCTION, LOCAL, OBJECT_SIZE
from .pointers import users_of

_ALLOCA = re.compile(rf"  ({LOCAL}) = alloca ")
_PLACE = re.compile(r", !dbg !\d+")
_NAME = re.compile(r'define [^@]*@("[^"]*"|[-\w$.]+)\(')
# Accesses: the type or the bytes, and the pointers.
_LOAD = re.compile(rf"  {LOCAL} = load (?:volatile )?(.+), ptr ({LOCAL}), align")
_STORE = re.compile(rf"  store (?:volatile )?(.+) \S+, ptr ({LOCAL}), align")
_COPY = re.compile(r"  call void @llvm\.mem(?:cpy|move)[.\w]*\(ptr[^%,]* (\S+), ptr[^%,]* (\S+), i64 ([^,]+), i1")
_FILL = re.compile(r"  call void @llvm\.memset[.\w]*\(ptr[^%,]* (\S+), i8 [^,]+, i64 ([^,]+), i1")
_CALL = re.compile(r'  (?:%\S+ = )?call [^@\n]*@("[^"]*"|[-\w$.]+)\((.*)\)')
_REFERENCE = re.compile(rf"ptr [^,]*?\bdereferenceable\((\d+)\) ({LOCAL})")
# Where pointers come from: a struct's member, an index, any step, a variable.
_MEMBER = re.compile(rf'  ({LOCAL}) = getelementptr [a-z ]*%["\w][^,]*, ptr ({LOCAL})(?:, i\d+ \d+)+(?:, !.*)?$')
_INDEX = re.compile(rf"  ({LOCAL}) = getelementptr [a-z ]*[^\[ ,]+, ptr {LOCAL}, i64 %")
_STEP = re.compile(rf"  ({LOCAL}) = (?:getelementptr .*?|load ptr), ptr ({LOCAL}),")
_PARAMETER = re.compile(r"  store ptr (%[-\w$.]+), ptr (\1\.addr),")
# Kernels, by those who call them (include/soft_entry.h).
_CALLER = re.compile(r"^define [^@\n]*@[^(\n]*4soft9signature.*?^}", re.MULTILINE | re.DOTALL)
_CALLED = re.compile(r'  call void @("[^"]*"|[-\w$.]+)\(')
_CHECK = """
define internal void @soft_inside(i1 %inside) alwaysinline nounwind {
  br i1 %inside, label %done, label %outside
outside:
  notail call void @soft_outside_variable() nomerge nounwind
  br label %done
done:
  ret void
}
declare void @soft_outside_variable()
"""


def check_bounds(text: str) -> str:
    """The module with such checks."""
    checks = _Checks(text)
    checked = FUNCTION.sub(lambda found: "\n".join(checks.function(found[0].split("\n"))), text)
    return "\n".join([checked, _CHECK, *[OBJECT_SIZE] * (OBJECT_SIZE not in text), ""]) if checks.count else text


class _Checks:
    def __init__(self, text: str) -> None:
        self.count = 0
        self._users = users_of(text)
        self._kernels = {name for caller in _CALLER.findall(text) for name in _CALLED.findall(caller)}
        self._types = parse_module("\n".join(line for line in text.splitlines() if line.startswith("%"))).types

    def function(self, lines: list[str]) -> Iterator[str]:
        head = _NAME.match(lines[0])
        name = head[1] if head else ""
        known = {found[1] for line in lines if (found := _ALLOCA.match(line))}
        # Of our own functions those that index are checked; what else they are given, their callers are.
        indexed = {found[1] for line in lines if (found := _INDEX.match(line))} if name not in self._users else None
        shared = {found[2] for line in lines if (found := _PARAMETER.match(line))} if name in self._kernels else set()
        for line in lines:
            if (member := _MEMBER.match(line)) and member[2] in known:
                known.add(member[1])
            if (step := _STEP.match(line)) and step[2] in shared:
                shared.add(step[1])
            for pointer, size in self._accesses(line):
                if pointer not in known and pointer not in shared and (indexed is None or pointer in indexed):
                    yield from self._check(pointer, size, line)
            yield line

    def _accesses(self, line: str) -> Iterator[tuple[str, str]]:
        if "!nosanitize" in line:
            return
        if found := _LOAD.match(line) or _STORE.match(line):
            yield found[2], str(stored_bytes(Reader(self._types, {}, {}, found[1]).type()))
        elif found := _COPY.match(line):
            yield from ((pointer, found[3]) for pointer in found.groups()[:2] if pointer.startswith("%"))
        elif found := _FILL.match(line):
            yield found[1], found[2]
        elif (found := _CALL.match(line)) and found[1] not in self._users:
            yield from ((pointer, size) for size, pointer in _REFERENCE.findall(found[2]))

    def _check(self, pointer: str, size: str, line: str) -> Iterator[str]:
        place = _PLACE.search(line)
        where = place[0] if place else ""
        name, self.count = f"%soft.inside.{self.count}", self.count + 1
        yield f"  {name}.bytes = call i64 @llvm.objectsize.i64.p0(ptr {pointer}, i1 false, i1 true, i1 true){where}"
        yield f"  {name} = icmp uge i64 {name}.bytes, {size}{where}"
        yield f"  call void @soft_inside(i1 {name}){where}"

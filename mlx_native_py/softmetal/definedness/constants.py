"""Private variables that are `const`: the runtime watches those whose address may have lost it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .declarations import DeclaredVariables, mutable_names
from .names import FUNCTION, LOCAL
from .pointers import DECLARED, LIFETIME, Keepers, bases_of, made_by
from .types import Types

CASTS = "-Wcast-qual"  # has the compiler tell of casts that drop it
_TOLD = re.compile(r"^\S+:(\d+):\d+: warning: cast .* drops const qualifier", re.MULTILINE)
_WITHOUT = "@_ZN4soft13without_const"  # const_cast
_PHI = re.compile(rf"  ({LOCAL}) = phi ")
_PLACE = re.compile(r", !dbg (!\d+)")
_NAMES = re.compile(LOCAL)
_DECLARATIONS = ("declare void @soft_private_constant(ptr, i64, ptr)", "declare void @soft_private_end(ptr)")


def watch_constants(text: str, source: str, said: str) -> str:
    """The module, before optimisation, with calls that tell of such variables where a cast drops `const`."""
    if not _TOLD.search(said) and _WITHOUT not in text:
        return text
    watch = _Watch(text, source, said)
    text = FUNCTION.sub(lambda function: "\n".join(watch.function(function[0].split("\n"))), text)
    needed = [line for line in _DECLARATIONS if line not in text]
    return "\n".join([text, *watch.names, *needed, ""]) if watch.names else text


class _Watch:
    def __init__(self, text: str, source: str, said: str) -> None:
        self.names: list[str] = []
        self._spans = 0
        self._types = Types(text)
        self._keepers = Keepers(text)
        self._places = DeclaredVariables(text, source)
        self._mutable = mutable_names(source)
        self._casts = {int(line) for line in _TOLD.findall(said)}

    def function(self, lines: list[str]) -> list[str]:
        found = [each for line in lines if (each := DECLARED.match(line)) and self._types.is_constant(each[2])]
        if not found:
            return lines
        marked = {each[2] for line in lines if (each := LIFETIME.match(line))}
        # Of others it is not known when they are made anew.
        constants = {each[1]: each for each in found if each[1] in marked or self._types.is_parameter(each[2])}
        bases = bases_of(lines)
        made = {name for line in lines if (name := made_by(line))}
        watched = [sorted(constants.keys() & set(self._watched(line, bases, constants, made))) for line in lines]
        return list(self._lines(lines, watched, constants))

    def _lines(
        self, lines: list[str], watched: list[list[str]], constants: Mapping[str, re.Match[str]]
    ) -> Iterator[str]:
        ending = sorted({name for names in watched for name in names})
        waiting: list[str] = []
        for line, names in zip(lines, watched, strict=True):
            waiting += names
            if not _PHI.match(line):  # nothing stands before these
                for name in waiting:
                    yield from self._begin(name, constants[name][2])
                waiting.clear()
            for name in _ended(line, ending):
                yield from self._each_span(name, constants[name][2], "call void @soft_private_end(ptr {place})")
            yield line

    def _watched(
        self, line: str, bases: Mapping[str, str], constants: Mapping[str, re.Match[str]], made: set[str]
    ) -> Iterator[str]:
        phi = _PHI.match(line)
        if not (made_by(line) or phi and phi[1] in made):  # elements of an array are made one after the other
            yield from self._keepers.kept(line, bases)
        place = None if LIFETIME.match(line) else _PLACE.search(line)
        if place and (_WITHOUT in line or self._places.line(place[1]) in self._casts):
            for name in _NAMES.findall(line):
                while name in bases:
                    name = bases[name]
                if name in constants and not self._places.declares(constants[name][3], place[1]):
                    yield name

    def _begin(self, name: str, node: str) -> Iterator[str]:
        text = self._types.name(node).encode("ascii", "replace").decode()
        known = f"@soft.constant.{len(self.names)}"
        self.names.append(f'{known} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"')
        call = f"call void @soft_private_constant(ptr {{place}}, i64 {{size}}, ptr {known})"
        yield from self._each_span(name, node, call)

    def _each_span(self, name: str, node: str, call: str) -> Iterator[str]:
        """The call for all of a variable but its mutable members."""
        for start, end in self._types.without(node, self._mutable):
            place = name
            if start:
                self._spans += 1
                place = f"%soft.constant.{self._spans}"
                yield f"  {place} = getelementptr i8, ptr {name}, i64 {start}"
            yield f"  {call.format(place=place, size=end - start)}"


def _ended(line: str, watched: Sequence[str]) -> Iterator[str]:
    lifetime = LIFETIME.match(line)
    for name in watched:
        if line.startswith("  ret ") or (lifetime and lifetime[1] == "end" and lifetime[2] == name):
            yield name

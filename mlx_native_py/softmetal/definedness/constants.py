"""Private variables that are `const`: the runtime watches those whose address may have lost it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .names import FUNCTION, LOCAL
from .pointers import DECLARED, LIFETIME, Keepers, bases_of, made_by
from .types import Types

CASTS = "-Wcast-qual"  # has the compiler tell of casts that drop it
_TOLD = "drops const qualifier"
_WITHOUT = "@_ZN4soft13without_const"  # const_cast
_STORE = re.compile(rf"  store (?:float|half|bfloat|i\d+) \S+, ptr ({LOCAL}), [^\n]*?!dbg (!\d+)")
_PHI = re.compile(rf"  ({LOCAL}) = phi ")
_DECLARATIONS = ("declare void @soft_private_constant(ptr, i64, ptr)", "declare void @soft_private_end(ptr)")


def watch_constants(text: str, said: str) -> str:
    """The module, before optimisation, with calls that tell of such variables where a cast drops `const`."""
    if _TOLD not in said and _WITHOUT not in text:
        return text
    watch = _Watch(text)
    text = FUNCTION.sub(lambda function: "\n".join(watch.function(function[0].split("\n"))), text)
    needed = [line for line in _DECLARATIONS if line not in text]
    return "\n".join([text, *watch.names, *needed, ""]) if watch.names else text


class _Watch:
    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        self._types = Types(text)
        self._keepers = Keepers(text)

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
                yield from (self._begin(name, constants[name][2]) for name in waiting)
                waiting.clear()
            yield from _ends(line, ending)
            yield line

    def _watched(
        self, line: str, bases: Mapping[str, str], constants: Mapping[str, re.Match[str]], made: set[str]
    ) -> Iterator[str]:
        phi = _PHI.match(line)
        if not (made_by(line) or phi and phi[1] in made):  # elements of an array are made one after the other
            yield from self._keepers.kept(line, bases)
        written = _STORE.match(line)
        declared = constants.get(written[1]) if written else None
        # The one store that is right comes from where the number is declared, or from the caller.
        if written and declared and self._types.is_number(declared[2]) and declared[3] != written[2]:
            yield written[1]

    def _begin(self, name: str, node: str) -> str:
        text = self._types.name(node).encode("ascii", "replace").decode()
        known = f"@soft.constant.{len(self.names)}"
        self.names.append(f'{known} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"')
        return f"  call void @soft_private_constant(ptr {name}, i64 {self._types.size(node)}, ptr {known})"


def _ends(line: str, watched: Sequence[str]) -> Iterator[str]:
    lifetime = LIFETIME.match(line)
    for name in watched:
        if line.startswith("  ret ") or (lifetime and lifetime[1] == "end" and lifetime[2] == name):
            yield f"  call void @soft_private_end(ptr {name})"

"""Private variables whose address somebody keeps: when their block has ended they have no value any more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .names import FUNCTION, LOCAL
from .pointers import DECLARED, LIFETIME, Keepers, bases_of
from .types import Types

ENDED = "; ended"  # ends a line that takes a variable's value away
_MARK = re.compile(r'^(!\d+) = !\{!"auto-init"\}$', re.MULTILINE)
_NODE = re.compile(r"^!(\d+) = ", re.MULTILINE)
_START = "declare void @llvm.lifetime.start.p0("
_ALLOCA = re.compile(rf"  ({LOCAL}) = alloca ")
_PLACE = re.compile(r", !dbg !\d+")


def end_lifetimes(text: str) -> str:
    """The module, before optimisation, with such variables set to zeros where their blocks end; see sources.py."""
    ends = _Ends(text)
    text = FUNCTION.sub(lambda function: "\n".join(ends.function(function[0].split("\n"))), text)
    return "\n".join([text, *ends.needed]) if ends.any else text


class _Ends:
    def __init__(self, text: str) -> None:
        self.any = False
        self._types = Types(text)
        self._keepers = Keepers(text)
        mark = _MARK.search(text)
        self._mark = mark[1] if mark else f"!{max(map(int, _NODE.findall(text)), default=0) + 1}"
        self.needed = [] if mark else [f'{self._mark} = !{{!"auto-init"}}']
        if _START not in text:
            self.needed.append(f"{_START}ptr captures(none))")

    def function(self, lines: list[str]) -> Iterator[str]:
        declared = {found[1]: found[2] for line in lines if (found := DECLARED.match(line))}
        kept = declared.keys() & set(self._kept(lines)) if declared else set()
        marked = {found[2] for line in lines if kept and (found := LIFETIME.match(line))}
        whole = sorted(kept - marked)  # parameters, which last as long as their function
        self.any |= bool(kept)
        for line in lines:
            variable, lifetime = _ALLOCA.match(line), LIFETIME.match(line)
            if lifetime and lifetime[1] == "end" and lifetime[2] in kept:
                yield self._ended(line, lifetime[2], declared[lifetime[2]])
                continue
            if line.startswith("  ret "):
                yield from (self._ended(line, name, declared[name]) for name in whole)
            yield line
            if variable and variable[1] in whole:
                yield f"  call void @llvm.lifetime.start.p0(ptr {variable[1]})"

    def _ended(self, line: str, name: str, node: str) -> str:
        place = _PLACE.search(line)
        fill = f"  call void @llvm.memset.p0.i64(ptr {name}, i8 0, i64 {self._types.size(node)}, i1 false)"
        return f"{fill}{place[0] if place else ''}, !annotation {self._mark} {ENDED}"

    def _kept(self, lines: list[str]) -> Iterator[str]:
        bases = bases_of(lines)
        for line in lines:
            yield from self._keepers.kept(line, bases, outlives=True)

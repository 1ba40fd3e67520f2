"""What clang remarks on in a source that it takes and Metal would not: recursion, vectors of too few values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from ..toolchain import CompilerFailed
from .closure import reaches

_CALL = re.compile(r"^(\S+:\d+:\d+): remark: '(\S+)' not inlined into '(\S+)'", re.MULTILINE)
_LOOP = re.compile(r"^(\S+:\d+:\d+): remark: transforming tail recursion into loop", re.MULTILINE)
_LAST = re.compile(r"(?:\breturn|\belse|[;{})])\s*(?:(?:soft_)?this\s*->\s*)?$")
_SHORT = re.compile(r"^(\S+:(\d+):(\d+)): warning: fewer values than components", re.MULTILINE)


def refuse_remarked(output: str, source: Path) -> None:
    """Raises CompilerFailed for what the compiler's `output` tells about `source`, in the compiler's own form."""
    errors = [*_recursive_calls(output, source), *_short_vectors(output, source)]
    if errors:
        raise CompilerFailed(("software Metal",), "\n".join(errors))


def _recursive_calls(output: str, source: Path) -> Iterator[str]:
    """The calls that lead back to where they are made; one that is a function's last act is a loop, as Metal has it."""
    loops = {place for place in _LOOP.findall(output) if _is_whole(place, source)}
    calls = [call for call in _CALL.findall(output) if call[0] not in loops]
    callees: dict[str, set[str]] = {}
    for _, callee, caller in calls:
        callees.setdefault(caller, set()).add(callee)
    for place, callee, caller in calls:
        if reaches(callees, callee, caller):
            yield f"{place}: error: recursive calls are not supported in Metal"


def _is_whole(place: str, source: Path) -> bool:
    """Whether a call is a statement, or all that is returned: the compiler makes loops of some other recursion too."""
    file, line, column = place.rsplit(":", 2)
    if file != str(source):
        return False
    lines = source.read_text().splitlines()
    before = " ".join(lines[max(int(line) - 3, 0) : int(line) - 1] + [lines[int(line) - 1][: int(column) - 1]])
    behind = chain(lines[int(line) - 1][int(column) - 1 :], *lines[int(line) :])
    return bool(_LAST.search(before)) and _follows(behind) == ";"


def _follows(text: Iterable[str]) -> str:
    """What stands behind the first pair of parentheses."""
    depth, closed = 0, False
    for character in text:
        if closed and not character.isspace():
            return character
        depth += (character == "(") - (character == ")")
        closed = closed or (character == ")" and depth == 0)
    return ""


def _short_vectors(output: str, source: Path) -> Iterator[str]:
    """Vectors made from fewer values than they have components, but for lists in braces."""
    places = [each for each in dict.fromkeys(_SHORT.findall(output)) if each[0].startswith(f"{source}:")]
    lines = source.read_text().splitlines() if places else []
    for place, line, column in places:
        first = int(line) - 1
        if _is_call(chain(lines[first][int(column) - 1 :], *lines[first + 1 :])):
            yield f"{place}: error: no matching constructor: fewer values than the vector has components"


def _is_call(text: Iterable[str]) -> bool:
    """Whether the values after a type's or variable's name stand in parentheses."""
    depth = 0
    for character in text:
        depth += (character == "<") - (character == ">")
        if depth == 0 and character in "({":
            return character == "("
    return False

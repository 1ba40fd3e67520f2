"""Clang remarks about code that Metal rejects: vectors with too few values, functions without a body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from ..toolchain import CompilerFailed

_SHORT = re.compile(r"^(\S+:(\d+):(\d+)): warning: fewer values than components", re.MULTILINE)
_UNDEFINED = re.compile(r"^(\S+): warning: (inline function '(?:[^'\n]*::)?([^':\n]+)' is not defined)", re.MULTILINE)


def refuse_remarked(output: str, source: Path, is_called: Callable[[str], bool] | None = None) -> None:
    """Raises CompilerFailed for what the compiler's `output` tells about `source`, in the compiler's own form.

    Functions without a body matter if `is_called` says that a kernel comes by one of this name.
    """
    errors = list(_short_vectors(output, source))
    if is_called:
        errors += [f"{place}: error: {text}" for place, text, name in _UNDEFINED.findall(output) if is_called(name)]
    if errors:
        raise CompilerFailed(("software Metal",), "\n".join(errors))


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

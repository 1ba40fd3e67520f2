"""Where the compiled source declares variables, and what it says of them that the compiler does not hand on."""

from __future__ import annotations

import re
from collections.abc import Iterator

Place = tuple[int, int]  # line and column, from 1
_LOCATION = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+), column: (\d+),", re.MULTILINE)
_MUTABLE = re.compile(r"\bmutable\b([^;(){}]*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OPENING, _CLOSING = "([{", ")]}"


def mutable_names(source: str) -> frozenset[str]:
    """The members that methods of `const` objects may write, and some words beside them."""
    return frozenset(word for found in _MUTABLE.findall(source) for word in _WORD.findall(found))


class DeclaredVariables:
    """The places of a module's debug information in the text that the compiler read."""

    def __init__(self, text: str, source: str) -> None:
        self._places: dict[str, Place] = {found[0]: (int(found[1]), int(found[2])) for found in _LOCATION.findall(text)}
        self._lines = source.split("\n")

    def line(self, node: str) -> int:
        return self._places.get(node, (0, 0))[0]

    def declares(self, variable: str, node: str) -> bool:
        """Whether the second place belongs to the declaration that begins at the first."""
        first, place = self._places.get(variable), self._places.get(node)
        return first is None or place is None or first <= place <= self._end(first)

    def _end(self, first: Place) -> Place:
        """Of a declaration: its semicolon, or the end of the parentheses that it stands in."""
        depth = 0
        for place, character in self._characters(first):
            depth += (character in _OPENING) - (character in _CLOSING)
            if depth < 0 or (not depth and character == ";"):
                return place
        return len(self._lines) + 1, 0

    def _characters(self, first: Place) -> Iterator[tuple[Place, str]]:
        column = first[1] - 1
        for number, line in enumerate(self._lines[first[0] - 1 :], first[0]):
            yield from (((number, at + 1), line[at]) for at in range(column, len(line)))
            column = 0

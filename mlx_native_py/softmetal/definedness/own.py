"""Loads of the runtime's own structures, which need no callback in checked mode."""

from __future__ import annotations

import re

UNSEEN = "!nosanitize !{}"  # by the callbacks for races
_LOCAL = r'(%(?:"[^"]*"|[-\w$.]+))'
_MEMBER = re.compile(rf"  {_LOCAL} = getelementptr [a-z ]*%struct\.soft_(?:lane|group|launch)[,.]")
_ELEMENT = re.compile(rf"  {_LOCAL} = getelementptr .*?, ptr {_LOCAL},")
_LOAD = re.compile(rf"  %\S+ = load [^,]+, ptr {_LOCAL},")


class OwnLoads:
    """Scans a module line by line before optimisation."""

    def __init__(self) -> None:
        self._places: set[str] = set()  # members, and elements of them, in the present function

    def line(self, line: str) -> str:
        """The line, marked if it loads from such a place."""
        if line.startswith("define "):
            self._places.clear()
        elif member := _MEMBER.match(line):
            self._places.add(member[1])
        elif (element := _ELEMENT.match(line)) and element[2] in self._places:
            self._places.add(element[1])
        elif (load := _LOAD.match(line)) and load[1] in self._places:
            return f"{line}, {UNSEEN}"
        return line

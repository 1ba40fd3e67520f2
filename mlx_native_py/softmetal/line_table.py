"""The line table in clang's LLVM text: the source line of each instruction."""

from __future__ import annotations

import re

from .msl.build import SOURCE_NAME

Place = tuple[int, int]
"""A line and a column of the text that the compiler saw."""

_NODE = re.compile(r"^!(\d+) = (?:distinct )?!DI(?:Location|Subprogram|LexicalBlock|File)\w*\((.*)\)$", re.MULTILINE)
_DEBUG = re.compile(r", !dbg !(\d+)")


class LineTable:
    """Locations by metadata node number."""

    def __init__(self, text: str) -> None:
        self._nodes = dict(_NODE.findall(text))

    def of(self, line: str) -> Place | None:
        """The place of an instruction, from its line of text."""
        debug = _DEBUG.search(line)
        return self.place(debug[1]) if debug else None

    def place(self, number: str) -> Place | None:
        """The innermost place in the kernel's own source: what our headers do counts for the line that asked for it."""
        while number in self._nodes:
            fields = dict(re.findall(r"(\w+): !?([^,]+)", self._nodes[number]))
            if self._file(fields.get("scope", "")).endswith(SOURCE_NAME):
                return int(fields["line"]), int(fields.get("column", 1))
            number = fields.get("inlinedAt", "")
        return None

    def _file(self, scope: str) -> str:
        fields: dict[str, str] = dict(re.findall(r'(\w+): !?"?([^,"]+)', self._nodes.get(scope, "")))
        if "filename" in fields:
            return fields["filename"]
        return self._file(fields.get("file") or fields.get("scope", "")) if fields else ""

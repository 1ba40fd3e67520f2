"""Compiler messages, mapped back to the user's source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from ..program import Diagnostic
from .positions import Positions
from .spaces import restore
from .unit import Unit

_LINE = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<severity>fatal error|error|warning|note): (?P<text>.*)$"
)
_FLAG = re.compile(r" \[-W[\w#+,=-]+\]$")


@dataclass(frozen=True)
class Message:
    """One message as printed by clang."""

    severity: Literal["error", "warning", "note"]
    file: str
    line: int
    column: int
    text: str


def parse(output: str) -> list[Message]:
    """The messages in clang's output."""
    messages = []
    for line in output.splitlines():
        if match := _LINE.match(line):
            severity: Literal["error", "warning", "note"] = "error"
            if match["severity"] in ("warning", "note"):
                severity = "warning" if match["severity"] == "warning" else "note"
            text = _FLAG.sub("", match["text"])
            messages.append(Message(severity, match["file"], int(match["line"]), int(match["column"]), text))
    return messages


def explain(output: str, file: str, unit: Unit, locate: Callable[[int, int], int]) -> tuple[Diagnostic, ...]:
    """Errors and warnings of a compilation of `file`, at the user's lines; `locate` finds the token of a place."""
    diagnostics = []
    for message, notes in _grouped(parse(output)):
        places = [m for m in (message, *notes) if m.file == file]
        index = locate(places[0].line, places[0].column) if places else -1
        if index < 0:
            if message.severity == "error":
                diagnostics.append(_unplaced(message, unit.positions))
            continue
        if message.file != file and message.severity == "warning":
            continue
        text = "; ".join([message.text, *_reasons(notes)])
        diagnostics.append(unit.positions.diagnostic(unit.tokens, index, restore(text), severity(message)))
    return tuple(dict.fromkeys(diagnostics))


def _reasons(notes: list[Message]) -> list[str]:
    """Why the candidates of a call do not fit; a long list says less than none."""
    reasons = [note.text for note in notes if note.text.startswith(("candidate function", "candidate template"))]
    return reasons if len(reasons) <= 2 else []


def severity(message: Message) -> Literal["error", "warning"]:
    """A message's own severity, which is not a note's."""
    return "warning" if message.severity == "warning" else "error"


def _grouped(messages: Iterable[Message]) -> list[tuple[Message, list[Message]]]:
    groups: list[tuple[Message, list[Message]]] = []
    for message in messages:
        if message.severity == "note":
            if groups:
                groups[-1][1].append(message)
        else:
            groups.append((message, []))
    return groups


def _unplaced(message: Message, positions: Positions) -> Diagnostic:
    return positions.at(positions.path, 1, 1, restore(message.text))

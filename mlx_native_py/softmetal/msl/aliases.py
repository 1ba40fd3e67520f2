"""Names that a source gives to types by `using` and `typedef`."""

from __future__ import annotations

from ..data_types import DataType, data_type
from .scopes import walk
from .unit import Unit, join


def input_type(unit: Unit, spelling: str) -> DataType | None:
    """The scalar or vector type that a spelling stands for, by itself or through aliases."""
    if kind := data_type(spelling):
        return kind
    known = _aliases(unit)
    for _ in known:
        spelling = known.get(spelling.rpartition("::")[2], "")
        if kind := data_type(spelling):
            return kind
    return None


def _aliases(unit: Unit) -> dict[str, str]:
    """What each name stands for; nothing where scopes disagree about it."""
    found: dict[str, str] = {}
    for declaration in walk(unit.declarations):
        words = unit.tokens.text[declaration.head : declaration.end - 1]
        if declaration.kind != "other" or declaration.head != declaration.start or len(words) < 3:
            continue
        if words[0] == "using" and words[2] == "=":
            name, meaning = words[1], join(words[3:])
        elif words[0] == "typedef":
            name, meaning = words[-1], join(words[1:-1])
        else:
            continue
        found[name] = meaning if found.get(name, meaning) == meaning else ""
    return found

"""Constructors and assignment operators, and which of them are equivalent to the defaulted ones."""

from __future__ import annotations

from .lexer import is_name
from .scopes import Declaration, trailing_spaces
from .spaces import MEMBER_SPACES
from .unit import Unit


def settle_copies(unit: Unit, parent: Declaration) -> None:
    """Leaves defaulted copies to the compiler, whose own serve every address space.

    Assignments that Metal has for objects of several spaces stay one for each, as other assignments beside them do.
    """
    assignments: dict[str, Declaration] = {}
    for member in parent.children:
        if _copies_by_default(unit, parent, member):
            if not constructs(unit, member):
                space = next((unit.tokens.text[i] for i in trailing_spaces(unit.tokens, member)), "thread")
                assignments.setdefault(MEMBER_SPACES[space], member)
            unit.drop(member.start, member.end)
    if len(assignments) > 1:
        name = unit.out[parent.name]
        for space, member in assignments.items():
            unit.out[member.start] = (
                f"{space or '__generic'} {name} &operator=(const __generic {name} &from) {space} "
                f"{{ __builtin_memcpy(this, &from, sizeof({name})); return *this; }}"
            )


def constructs(unit: Unit, member: Declaration) -> bool:
    """Whether a member makes or ends an object, which is not constant meanwhile."""
    owner = member.scope[-1] if member.in_class else unit.tokens.text[owner_of(unit, member)]
    return unit.tokens.text[member.name] == owner


def owner_of(unit: Unit, member: Declaration) -> int:
    """The class that a definition outside of it names."""
    text = unit.tokens.text
    index = member.name - 2
    while not is_name(text[index]) or text[index + 1] not in ("<", "::"):
        index -= 1
    return index


def _copies_by_default(unit: Unit, parent: Declaration, member: Declaration) -> bool:
    text = unit.tokens.text
    if member.kind != "function" or not member.parameters or "default" not in text[member.parameters[1] : member.end]:
        return False
    is_assignment = text[member.name : member.name + 2] == ["operator", "="]
    taken = text[member.parameters[0] : member.parameters[1]]
    return (is_assignment or constructs(unit, member)) and text[parent.name] in taken and bool({"&", "&&"} & set(taken))

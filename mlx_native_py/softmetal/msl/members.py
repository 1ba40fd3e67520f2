"""Member functions and the address space of their object."""

from __future__ import annotations

from .lexer import Tokens, is_name
from .scopes import Declaration, trailing_spaces, walk
from .spaces import MEMBER_SPACES
from .unit import Unit


def unify_members(unit: Unit) -> None:
    """Gives member functions an object of any address space, of one only, or of the thread's, as their code asks for.

    Equal copies for several spaces become one function; those that differ stay apart.
    """
    tied = _tied_classes(unit)
    for parent in walk(unit.declarations):
        if parent.kind != "class":
            continue
        grouped: dict[tuple[object, ...], list[Declaration]] = {}
        for member in parent.children:
            if member.kind == "function" and member.parameters:
                grouped.setdefault(_signature(unit.tokens, member), []).append(member)
        for members in grouped.values():
            _unify(unit, members, private=parent.start in tied)
    for declaration in walk(unit.declarations):
        if declaration.kind == "function" and declaration.parameters and not declaration.in_class:
            for index in trailing_spaces(unit.tokens, declaration):
                unit.out[index] = ""


def _tied_classes(unit: Unit) -> set[int]:
    """The classes whose functions speak of their own parts as thread memory, and those that hold such a class."""
    classes = [d for d in walk(unit.declarations) if d.kind == "class" and d.body]
    mentions = {d.start: {t for t in set(unit.tokens.text[slice(*d.body)]) if is_name(t)} for d in classes if d.body}
    tied = {d.start for d in classes if any(_speaks_of_thread(unit, member) for member in d.children)}
    while True:
        names = {unit.tokens.text[d.name] for d in classes if d.start in tied and d.name >= 0}
        more = {d.start for d in classes if mentions[d.start] & (names - {unit.tokens.text[d.name]})} - tied
        if not more:
            return tied
        tied |= more


def _speaks_of_thread(unit: Unit, member: Declaration) -> bool:
    """Whether a function returns or makes references to thread memory, apart from its parameters."""
    if member.kind != "function" or not member.parameters or _constructs(unit.tokens, member):
        return False
    text = unit.tokens.text
    words = text[member.head : member.name]
    if "static" in words:
        return False
    body = text[slice(*member.body)] if member.body else []
    return "thread" in words or "thread" in body


def _signature(tokens: Tokens, member: Declaration) -> tuple[object, ...]:
    """What tells overloads apart without their address spaces: name, parameters, constness and template header."""
    assert member.parameters
    text = tokens.text
    opened, closed = member.parameters
    tail = range(closed + 1, member.body[0] if member.body else member.end)
    constant = not _constructs(tokens, member) and bool({"const", "constant"} & _until_body(text, tail))
    return (
        tuple(text[member.start : member.head]),
        tuple(text[member.name : opened]),
        tuple(text[opened : closed + 1]),
        constant,
    )


def _until_body(text: list[str], tail: range) -> set[str]:
    """The words after a parameter list, up to a constructor's initialisers."""
    words = text[tail.start : tail.stop]
    return set(words[: words.index(":")] if ":" in words else words)


def _constructs(tokens: Tokens, member: Declaration) -> bool:
    """Whether a member makes or ends an object, which is not constant meanwhile."""
    return tokens.text[member.name] == member.scope[-1]


def _unify(unit: Unit, members: list[Declaration], *, private: bool) -> None:
    kept = members[:1]
    spaces = {id(member): [unit.tokens.text[i] for i in trailing_spaces(unit.tokens, member)] for member in members}
    served = [space for member in members for space in spaces[id(member)] or ["thread"]]
    for member in members[1:]:
        if any(_same(unit.tokens, member, other) for other in kept):
            unit.drop(member.start, member.end)
        else:
            kept.append(member)
    apart = len({tuple(spaces[id(member)]) for member in kept}) > 1
    for member in kept:
        _qualify(unit, member, apart=apart, private=private and set(served) == {"thread"})


def _qualify(unit: Unit, member: Declaration, *, apart: bool, private: bool) -> None:
    assert member.parameters
    text = unit.tokens.text
    constructs = _constructs(unit.tokens, member)
    for index in trailing_spaces(unit.tokens, member):
        implied = text[index] == "constant" and "const" not in text[member.parameters[1] : index]
        words = ["const"] if implied and not constructs else []
        words += [MEMBER_SPACES[text[index]]] if apart else []
        unit.out[index] = " ".join(words)
    if private and not apart and not constructs and "static" not in text[member.head : member.name]:
        last = member.parameters[1]
        while text[last + 1] in ("const", "volatile", "thread"):
            last += 1
        unit.out[last] += " __private"


def _same(tokens: Tokens, one: Declaration, other: Declaration) -> bool:
    return _stripped(tokens, one) == _stripped(tokens, other)


def _stripped(tokens: Tokens, member: Declaration) -> list[str]:
    dropped = set(trailing_spaces(tokens, member))
    return [tokens.text[i] for i in range(member.head, member.end) if i not in dropped]

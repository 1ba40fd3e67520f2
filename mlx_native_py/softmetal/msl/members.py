"""Member functions and the address space of `this`, which Metal writes after the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .arguments import declared_name, split
from .copies import constructs, owner_of, settle_copies
from .lexer import is_name
from .objects import speak_of_object
from .scopes import Declaration, trailing_spaces, walk
from .spaces import MEMBER_SPACES
from .unit import Unit
from .values import template_names

_OF_REFERENCES = frozenset({"const", "constant", "device", "&"})


@dataclass(frozen=True)
class _Member:
    """A member function; `space` is that of its object (default: thread)."""

    declaration: Declaration
    space: str
    constant: bool
    written: tuple[int, ...]  # its address-space qualifiers


def unify_members(unit: Unit) -> None:
    """Gives each member function the address space of its object, as Metal has it.

    Equal copies for several spaces become one function for any space. Constructors serve all spaces.
    """
    apart: set[tuple[str, tuple[str, ...]]] = set()
    for parent in walk(unit.declarations):
        if parent.kind == "class":
            settle_copies(unit, parent)
            for members in _overloads(unit, parent):
                _Overloads(unit, parent, members).qualify(apart)
    for declaration in walk(unit.declarations):
        if declaration.kind == "function" and declaration.parameters and not declaration.in_class:
            _qualify_outside(unit, declaration, apart)


def _overloads(unit: Unit, parent: Declaration) -> Iterator[list[_Member]]:
    """The member functions of a class, those together that differ only in their object."""
    overloads: dict[tuple[object, ...], list[_Member]] = {}
    for member in parent.children:
        if member.kind == "function" and member.parameters and unit.out[member.name]:
            overloads.setdefault(_signature(unit, member), []).append(_member(unit, member))
    yield from overloads.values()


def _member(unit: Unit, declaration: Declaration) -> _Member:
    text = unit.tokens.text
    written = tuple(trailing_spaces(unit.tokens, declaration))
    space = text[written[0]] if written else "thread"
    assert declaration.parameters
    stop = declaration.body[0] if declaration.body else declaration.end
    tail = text[declaration.parameters[1] + 1 : stop]
    tail = tail[: tail.index(":")] if ":" in tail else tail
    constant = not constructs(unit, declaration) and bool({"const", "constant"} & set(tail))
    return _Member(declaration, space, constant, written)


def _signature(unit: Unit, member: Declaration) -> tuple[object, ...]:
    """What tells overloads apart without their object: template header, name and the types of the parameters."""
    assert member.parameters
    text = unit.tokens.text
    types = []
    for start, end in split(unit, *member.parameters):
        name = declared_name(unit, start, end)
        types.append(tuple(text[i] for i in range(start, end) if i != name))
    return tuple(text[member.start : member.head]), tuple(text[member.name : member.parameters[0]]), tuple(types)


class _Overloads:
    def __init__(self, unit: Unit, parent: Declaration, members: list[_Member]) -> None:
        self.unit = unit
        self.parent = parent
        self.members = members

    def qualify(self, apart: set[tuple[str, tuple[str, ...]]]) -> None:
        first = self.members[0].declaration
        assert first.parameters
        if constructs(self.unit, first) or "static" in self.unit.tokens.text[first.head : first.name]:
            if self._drop_copies(self.members):
                _write(self.unit, self.members[0], "")
            return
        exact: list[_Member] = []
        merged: list[_Member] = []
        for constant in (False, True):
            alike = [m for m in self.members if m.constant is constant]
            if len(alike) > 1 and all(m.declaration.body for m in alike) and self._drop_copies(alike):
                merged.append(alike[0])
            else:
                exact += self._of_one_constness(alike)
        is_apart = len({MEMBER_SPACES[member.space] for member in exact}) > 1
        for member in merged:  # overloads say of which objects they are all, or none
            _write(self.unit, member, "&" if is_apart else "")
        if is_apart:
            name = tuple(self.unit.tokens.text[first.name : first.parameters[0]])
            apart.add((self.unit.tokens.text[self.parent.name], name))
            self._keep_apart(exact)
        else:
            for member in exact:
                self._write(member, MEMBER_SPACES[member.space])

    def _of_one_constness(self, members: list[_Member]) -> list[_Member]:
        """The members that need an address space of their own."""
        by_space = {member.space: member for member in members}
        device, constant = by_space.get("device"), by_space.get("constant")
        if device and constant:
            self._serve_both(device, constant)
            members = [member for member in members if member is not constant]
        return members

    def _drop_copies(self, members: list[_Member]) -> bool:
        """Leaves one of equal members, for an object of any space; whether they were equal."""
        words = [self._words(member) for member in members]
        if any(other != words[0] for other in words[1:]):
            return False
        for member in members[1:]:
            self.unit.drop(member.declaration.start, member.declaration.end)
        return True

    def _words(self, member: _Member) -> list[str]:
        declaration = member.declaration
        return [self.unit.tokens.text[i] for i in range(declaration.head, declaration.end) if i not in member.written]

    def _serve_both(self, device: _Member, constant: _Member) -> None:
        """Constant objects use the function for device objects: what it returns is good for both spaces."""
        if device.declaration.body and not self._do_the_same(device, constant):
            self.unit.error(
                constant.declaration.name,
                "software Metal cannot tell this function from the one for 'device' objects: make them do the same",
            )
        self.unit.drop(constant.declaration.start, constant.declaration.end)

    def _do_the_same(self, device: _Member, constant: _Member) -> bool:
        """Whether a constant object may use the function for device objects; a value will do for a reference."""
        both = []
        for member in (device, constant):
            result = self.unit.tokens.text[member.declaration.head : member.declaration.name]
            rest = self._words(member)[len(result) :]
            both.append(
                (
                    [word for word in result if word not in _OF_REFERENCES],
                    ["constant" if word == "device" else word for word in rest],
                )
            )
        return both[0] == both[1]

    def _keep_apart(self, members: list[_Member]) -> None:
        """Tells overloads apart by the object's space; temporaries, which are in none, go to the thread's."""
        for member in members:
            self._write(member, MEMBER_SPACES[member.space] + " &")
            if member.space == "thread":
                self.unit.out[member.declaration.end - 1] += self._for_temporaries(member)

    def _for_temporaries(self, member: _Member) -> str:
        unit, declaration = self.unit, member.declaration
        text = unit.tokens.text
        assert declaration.parameters
        names = [declared_name(unit, start, end) for start, end in split(unit, *declaration.parameters)]
        header = " ".join(unit.out[declaration.start : declaration.head])
        if -1 in names or "..." in header:
            return ""
        parameters = " ".join([*filter(None, unit.out[slice(*declaration.parameters)]), ")"])
        name = " ".join(unit.out[declaration.name : declaration.parameters[0]])
        converts = text[declaration.name] == "operator" and is_name(text[declaration.name + 1])
        explicit = f" < {', '.join(template_names(unit, declaration))} >" if header else ""
        const = "const" if member.constant else ""
        itself = f"(({const} __private {unit.out[self.parent.name]} &) *this)"
        call = f"{itself} . {'template ' if header else ''}{name}{explicit} ({', '.join(unit.out[n] for n in names)})"
        result = "" if converts else "decltype(auto)"
        return f" {header} {result} {name} {parameters} {const} && {{ return {call} ; }}"

    def _write(self, member: _Member, qualifiers: str) -> None:
        _write(self.unit, member, qualifiers)
        speak_of_object(
            self.unit,
            member.declaration,
            self.parent,
            spelling=self.unit.out[self.parent.name],
            space=member.space,
            constant=member.constant,
        )


def _write(unit: Unit, member: _Member, qualifiers: str) -> None:
    text = unit.tokens.text
    assert member.declaration.parameters
    last = member.declaration.parameters[1]
    for index in member.written:
        implied = text[index] == "constant" and "const" not in text[last:index]
        unit.out[index] = "const" if implied and not constructs(unit, member.declaration) else ""
    last = max(last, *member.written, last)
    while text[last + 1] in ("const", "volatile"):
        last += 1
    if qualifiers:
        unit.out[last] += " " + qualifiers


def _qualify_outside(unit: Unit, declaration: Declaration, apart: set[tuple[str, tuple[str, ...]]]) -> None:
    """A definition outside its class repeats what its declaration says."""
    text = unit.tokens.text
    if text[declaration.name - 1] != "::":
        return
    owner = owner_of(unit, declaration)
    parent = next((d for d in walk(unit.declarations) if d.kind == "class" and text[d.name] == text[owner]), None)
    member = _member(unit, declaration)
    assert declaration.parameters
    name = tuple(text[declaration.name : declaration.parameters[0]])
    reference = " &" if (text[owner], name) in apart else ""
    if constructs(unit, declaration):
        _write(unit, member, "")
        return
    _write(unit, member, MEMBER_SPACES[member.space] + reference)
    if parent:
        spelling = " ".join(filter(None, unit.out[owner : declaration.name - 1]))
        speak_of_object(unit, declaration, parent, spelling=spelling, space=member.space, constant=member.constant)

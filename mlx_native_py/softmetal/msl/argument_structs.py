"""The struct of an argument buffer: its members, their ids and offsets."""

from __future__ import annotations

import re

from ..data_types import data_type
from ..program import ArgumentMember
from .attributes import attributes
from .resources import RESOURCE
from .scopes import Declaration, walk
from .unit import Unit

HANDLE_BYTES = 8  # of a texture, a sampler or an address
_MATRIX = re.compile(r"(?:metal::)?(float|half)([234])x([234])")
_COUNT = re.compile(r",\s*(\d+)>$")


def argument_members(unit: Unit, type_name: str) -> tuple[ArgumentMember, ...]:
    """The members of a struct in the order of its memory; raises ValueError for one that cannot be encoded."""
    name = type_name.replace("const", "").replace("&", "").replace("*", "").split("::")[-1].strip()
    text = unit.tokens.text
    classes = (each for each in walk(unit.declarations) if each.kind == "class" and each.name >= 0)
    declared = next((each for each in classes if text[each.name] == name), None)
    if declared is None:
        raise ValueError(f"the type {type_name} is no struct of this source")
    members: list[ArgumentMember] = []
    for child in declared.children:
        if child.kind == "class" and child.body and text[child.body[1] + 1] != ";":
            raise ValueError(f"member '{text[child.body[1] + 1]}' is a struct, which argument encoders do not set")
        if child.kind == "variable":
            following = members[-1].index + members[-1].count if members else 0
            members.append(_member(unit, child, following))
    return tuple(members)


def _member(unit: Unit, variable: Declaration, index: int) -> ArgumentMember:
    text = unit.tokens.text
    spelled = unit.spelling(variable.head, variable.name).replace("const ", "")
    for attribute in attributes(unit.tokens, variable.name, variable.end):
        if attribute.name == "id" and attribute.arguments:
            index = int(unit.spelling(*attribute.arguments))
    count = _COUNT.search(spelled) if "array<" in spelled else None
    number = int(count[1]) if count else 1
    if text[variable.name + 1] == "[" and text[variable.name + 2].isdigit():
        number = int(text[variable.name + 2])
    resource = RESOURCE.match(spelled.replace(" ", ""))
    if resource:
        return ArgumentMember(
            index, number, "texture" if resource["texture"] else "sampler", HANDLE_BYTES, HANDLE_BYTES
        )
    if "*" in spelled or "&" in spelled:
        return ArgumentMember(index, number, "buffer", HANDLE_BYTES, HANDLE_BYTES)
    if known := data_type(spelled):
        return ArgumentMember(index, number, "constant", known.size, known.size)
    if matrix := _MATRIX.fullmatch(spelled):
        column = data_type(f"{matrix[1]}{matrix[3]}")
        assert column
        return ArgumentMember(index, number, "constant", int(matrix[2]) * column.size, column.size)
    raise ValueError(
        f"member '{text[variable.name]}' is of type {spelled}: argument encoders of software Metal set textures, "
        "samplers, pointers, numbers, vectors and matrices"
    )

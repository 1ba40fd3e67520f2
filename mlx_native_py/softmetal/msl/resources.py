"""Texture and sampler parameters of a kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from ..program import KernelArgument
from .attributes import Attribute
from .lexer import Tokens
from .unit import Unit

LAST_INDEX = {"texture": 127, "sampler": 15}
_TEXTURE = (
    r"(?:metal::)?(?:texture(?:1d|2d|2d_ms|cube)(?:_array)?|texture3d|texture_buffer|depth(?:2d|2d_ms|cube)(?:_array)?)"
)
RESOURCE = re.compile(
    rf"(?:(?:metal::)?array<)?(?:(?P<texture>{_TEXTURE})<(?P<element>\w+)(?:,(?:metal::)?access::(?P<access>\w+))?|(?:metal::)?sampler\b)"
)
_WORD = re.compile(rf"(?:{_TEXTURE}|sampler)")
_ACCESS: dict[str, Literal["read", "read_write", "write"]] = {"write": "write", "read_write": "read_write"}


def names_textures(tokens: Tokens) -> bool:
    """Whether a source has a use for the library's textures and samplers."""
    return any(_WORD.fullmatch(word) for word in tokens.places)


def resource_argument(
    unit: Unit, start: int, end: int, name: int, listed: Sequence[Attribute], condition: int
) -> KernelArgument | None:
    """A texture or sampler without its index; None where the parameter is neither by its attribute nor by its type."""
    marked = next((attribute.name for attribute in listed if attribute.name in LAST_INDEX), None)
    spelled = RESOURCE.match(input_spelling(unit, start, end, name).replace(" ", ""))
    if marked is None and spelled is None:
        return None
    kind: Literal["texture", "sampler"] = (
        "texture" if marked == "texture" or (spelled and spelled["texture"]) else "sampler"
    )
    access = spelled["access"] or "sample" if spelled and kind == "texture" else "sample"
    return KernelArgument(
        kind=kind,
        index=-1,
        name=unit.tokens.text[name] if name >= 0 else "",
        access=_ACCESS.get(access, "read"),
        type_name=input_spelling(unit, start, end, name),
        is_pointer=False,
        is_sampled=kind == "texture" and access == "sample",
        condition=unit.tokens.text[condition] if condition >= 0 else None,
    )


def input_spelling(unit: Unit, start: int, end: int, name: int, given: Mapping[str, str] | None = None) -> str:
    """The type of a parameter that is a value; `given` has other words for some, of a template."""
    words = (word for word in unit.tokens.text[start : _type_end(unit, start, end, name)] if word != "const")
    return unit.join([(given or {}).get(word, word) for word in words])


def _type_end(unit: Unit, start: int, end: int, name: int) -> int:
    if name >= 0:
        return name
    index = start
    while index < end and unit.tokens.text[index] != "[":
        index += 1
    return index

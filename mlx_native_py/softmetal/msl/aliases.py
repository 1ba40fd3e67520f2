"""Type aliases by `using`, with or without a template, and `typedef`."""

from __future__ import annotations

import re

from ..data_types import DataType, data_type
from .unit import Unit

_OF_TEMPLATE = re.compile(r"(?:\w*::)*(\w+)<([^<>]*)>")


def input_type(unit: Unit, spelling: str) -> DataType | None:
    """The scalar or vector type that a spelling stands for, by itself or through aliases."""
    for _ in range(len(unit.aliases) + len(unit.alias_templates) + 1):
        if kind := data_type(spelling):
            return kind
        spelling = _meaning(unit, spelling)
    return None


def _meaning(unit: Unit, spelling: str) -> str:
    """What an alias stands for; empty if it is none."""
    instance = _OF_TEMPLATE.fullmatch(spelling)
    if instance is None:
        return unit.aliases.get(spelling.rpartition("::")[2], "")
    parameters, words = unit.alias_templates.get(instance[1], ([], []))
    given = dict(zip(parameters, (each.strip() for each in instance[2].split(",")), strict=False))
    return unit.join([given.get(word, word) for word in words])

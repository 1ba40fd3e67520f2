"""Instruments a kernel with shadow values: one per possibly undefined value, checked at each observable use."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..engines.lanes.ir.model import Declined, FunctionText, Module
from ..engines.lanes.ir.parse import parse_module
from . import received
from .function import shadowed
from .slices import Origins
from .sources import UNDEFINED

MOST_NAMES = 4  # of variables that one report names
_DECLARATIONS = (
    "declare void @soft_undefined_used(i1 zeroext, i32, ptr) memory(inaccessiblemem: readwrite) nounwind",
    "declare void @soft_undefined_stored(i64, ptr, i64, ptr) memory(inaccessiblemem: readwrite) nounwind",
    "declare void @soft_undefined_copied(ptr, ptr, i64, ptr) memory(argmem: read, inaccessiblemem: readwrite) nounwind",
    "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
    "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
    *received.declarations,
)
_SOURCE = re.compile(rf'(= )(?:tail )?call (.+?) @"?{re.escape(UNDEFINED)}.*$', re.MULTILINE)
_DEFINED = re.compile(r"^define .*?(#\d+)", re.MULTILINE)
_MEMORY = re.compile(r" memory\([^)]*\)")


class _Names:
    """Lists of variable names as constants of the module, for reports."""

    def __init__(self, variables: Sequence[str]) -> None:
        self._variables = variables
        self._known: dict[str, str] = {}

    def __call__(self, origins: Origins) -> str:
        names = list(dict.fromkeys(self._variables[number] for number in sorted(origins)))
        joined = ", ".join(names[:MOST_NAMES]).encode("ascii", "replace").decode()
        return self._known.setdefault(joined, f"@soft.variables.{len(self._known)}")

    def lines(self) -> list[str]:
        return [
            f'{place} = private unnamed_addr constant [{len(text) + 1} x i8] c"{text}\\00"'
            for text, place in self._known.items()
        ]


def with_shadows(text: str, variables: Sequence[str]) -> str:
    """The module with shadows, and zeros in place of the unknown values."""
    module = parse_module(text)
    names = _Names(variables)
    for function in module.functions.values():
        if _SOURCE.search(function.body):
            text = text.replace(function.text, f"{function.head} {{\n{_body(module, function, names)}}}", 1)
    # Calls for reports came in after the optimiser worked out which memory each function touches.
    for group in set(_DEFINED.findall(text)):
        text = re.sub(rf"^attributes {group} = .*$", lambda match: _MEMORY.sub("", match[0]), text, flags=re.MULTILINE)
    known = {line.partition("(")[0].split()[-1] for line in text.splitlines() if line.startswith("declare ")}
    needed = [line for line in _DECLARATIONS if line.partition("(")[0].split()[-1] not in known]
    return received.without_markers("\n".join([text, *needed, *names.lines(), ""]))


def _body(module: Module, function: FunctionText, names: _Names) -> str:
    try:
        body = shadowed(module, function, names)
    except Declined:
        body = function.body  # its variables are taken to have values
    return _SOURCE.sub(_zero, body)


def _zero(match: re.Match[str]) -> str:
    kind = match[2]
    word = "null" if kind == "ptr" else "zeroinitializer" if kind[0] in "<[{%" else "0" if kind[0] == "i" else "0.0"
    return f"{match[1]}freeze {kind} {word}"

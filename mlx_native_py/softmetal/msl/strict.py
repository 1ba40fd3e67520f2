"""Checks for C++ that Metal rejects or software Metal does not support."""

from __future__ import annotations

import re

from .allowed import check_allowed
from .arguments import WIDTHS, split
from .attributes import attributes, is_attribute, refuse_unknown
from .constant_pointers import check_constant_pointers
from .function_pointers import check_function_pointers
from .left_out import check_left_out
from .pointers import check_pointers
from .resources import LAST_INDEX
from .scopes import Declaration, walk
from .stages import graphics_indices
from .unit import Unit

_FORBIDDEN = {
    "double": "'double' is not supported in Metal",
    "goto": "'goto' statements are not supported in Metal",
    "new": "operator 'new' is not supported in Metal",
    "virtual": "virtual functions are not supported in Metal",
    "dynamic_cast": "'dynamic_cast' is not supported in Metal",
    "typeid": "'typeid' is not supported in Metal",
    "throw": "cannot use 'throw' with exceptions disabled",
    "try": "cannot use 'try' with exceptions disabled",
    "catch": "cannot use 'catch' with exceptions disabled",
    "thread_local": "thread-local storage is not supported in Metal",
    "ray_data": "address space 'ray_data' is not supported by software Metal",
    "object_data": "address space 'object_data' is not supported by software Metal",
    "threadgroup_imageblock": "address space 'threadgroup_imageblock' is not supported by software Metal",
}
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[1-9][0-9']*)[uUlL]*")
_ODD_FLOAT = re.compile(
    r"[0-9.][0-9.']*(?:e[+-]?[0-9]+)?(?:f16|f32|f64|f128|q|w)|(?:[0-9']*\.[0-9.']*|[0-9']+(?=e))(?:e[+-]?[0-9]+)?l",
    re.IGNORECASE,
)
_PRAGMA = re.compile(r"#\s*pragma\s+(.*)")
_LOOP_PRAGMA = re.compile(r"(unroll|nounroll|clang\s+loop)\b(.*)")
# Clang reads what stands behind it, and nobody else: names and numbers, and nothing that could hold a statement.
_LOOP_ARGUMENTS = re.compile(r"(?:(?!__)\w+\b|[\s()<>=!?:,|&+\-*/%])*", re.ASCII)
_MATH_PRAGMA = re.compile(r"METAL\s+fp\s+(math_mode|contract)\s*\(\s*(\w+)\s*\)\s*$")
_MATH = {
    ("math_mode", "safe"): "reassociate(off) contract(on)",
    ("math_mode", "relaxed"): "contract(on)",
    ("math_mode", "fast"): "contract(on)",
    ("contract", "off"): "contract(off)",
    ("contract", "on"): "contract(on)",
    ("contract", "fast"): "contract(on)",
}
_SILENT_PRAGMA = re.compile(
    r"(METAL\b|once\b|unused\b|mark\b|clang\s+diagnostic|GCC\s+diagnostic|message\b|region\b|endregion\b)"
)


def check(unit: Unit) -> None:
    """Notes an error for each construct that must not be there, and drops the harmless ones."""
    text, places = unit.tokens.text, unit.tokens.places
    check_allowed(unit)
    check_function_pointers(unit)
    check_left_out(unit)
    check_constant_pointers(unit)
    _plain_parameters(unit)
    for index in unit.tokens.places_of(_FORBIDDEN):
        unit.error(index, _FORBIDDEN[text[index]])
    for index in places.get("delete", ()):
        if text[index - 1] != "=":
            unit.error(index, "operator 'delete' is not supported in Metal")
    for index in places.get("long", ()):
        if index + 1 < len(text) and text[index + 1] in ("double", "long"):
            unit.error(index, f"'long {text[index + 1]}' is not supported in Metal")
    for index in unit.tokens.places_of(token for token in places if token[0] == "#"):
        _pragma(unit, index)
    for index in places.get("[", ()):
        _attribute(unit, index)
    for index in unit.tokens.places_of(token for token in places if _is_too_large(token)):
        unit.error(index, "integer literal is too large to be represented in any integer type")
    for index in unit.tokens.places_of(token for token in places if _ODD_FLOAT.fullmatch(token)):
        unit.error(index, f"'{text[index]}' has a suffix that floating-point literals do not have in Metal")
    for index in graphics_indices(unit.tokens):
        unit.error(index, f"'{text[index]}' is not supported by software Metal")
    for declaration in walk(unit.declarations):
        if declaration.kind == "variable":
            _variable(unit, declaration)
        elif declaration.kind == "function" and declaration.body:
            _static_locals(unit, declaration)
    if not unit.errors:
        check_pointers(unit)


def _is_too_large(token: str) -> bool:
    match = _INTEGER.fullmatch(token) if len(token) > 18 else None
    if match is None:
        return False
    try:
        return int(match[1].replace("'", ""), 0) >= 2**64
    except ValueError:  # more digits than Python reads
        return True


def _plain_parameters(unit: Unit) -> None:
    """Outside kernels the attributes of parameters mean nothing, as on Metal."""
    for declaration in walk(unit.declarations):
        ranges = []
        if declaration.kind == "function" and declaration.parameters:
            ranges = split(unit, *declaration.parameters)
        elif declaration.kind == "other" and unit.tokens.text[declaration.end - 2] == ")":
            ranges = split(unit, unit.tokens.match[declaration.end - 2], declaration.end - 2)
        for start, end in ranges:
            for attribute in attributes(unit.tokens, start, end):
                if attribute.name in WIDTHS or attribute.name in ("buffer", "threadgroup", *LAST_INDEX):
                    unit.drop(attribute.start, attribute.end)


def _pragma(unit: Unit, index: int) -> None:
    match = _PRAGMA.match(unit.tokens.text[index])
    if match is None:
        unit.error(index, f"unexpected preprocessor directive '{unit.tokens.text[index]}'")
    elif math := _MATH_PRAGMA.match(match[1]):
        meaning = _MATH.get((math[1], math[2]))
        unit.out[index] = f"#pragma clang fp {meaning}"
        if meaning is None:
            unit.error(index, f"unknown floating-point option '{math[0].strip()}'")
    elif loop := _LOOP_PRAGMA.match(match[1]):
        if not _LOOP_ARGUMENTS.fullmatch(loop[2]):
            unit.error(index, f"'#pragma {loop[1]}' takes names, numbers and operators")
    else:
        unit.out[index] = ""
        if not _SILENT_PRAGMA.match(match[1]):
            unit.warn(index, f"unknown pragma '{match[1].strip()}' is ignored")


def _attribute(unit: Unit, index: int) -> None:
    if not unit.out[index] or not is_attribute(unit.tokens, index):
        return
    listed = attributes(unit.tokens, index, index + 1)
    for attribute in listed:
        refuse_unknown(unit, attribute)
    if not all(attribute.kept for attribute in listed):
        unit.drop(index, unit.tokens.match[index] + 1)


def _variable(unit: Unit, declaration: Declaration) -> None:
    """Program-scope and static member variables live in constant memory, or nowhere."""
    text = unit.tokens.text
    words = text[declaration.head : declaration.name] if declaration.name >= 0 else []
    if not words or words[0] in ("enum", "struct", "class", "union", "friend", "extern"):
        return
    if declaration.in_class:
        if "static" in words and "constant" not in words:
            unit.error(declaration.name, "static data member must reside in constant address space")
    elif "sampler" in words and {"constexpr", "const"} & set(words):
        return  # no memory at all
    elif "constant" not in words or _is_pointer(unit, declaration):
        if "constant" in text[declaration.head : declaration.end] and "*" in words:
            return
        unit.error(declaration.name, "program scope variable must reside in constant address space")


def _static_locals(unit: Unit, function: Declaration) -> None:
    """A static variable of a function would be shared by all threads."""
    assert function.body
    text = unit.tokens.text
    inner = {i for child in function.children for i in range(child.start, child.end)}
    for index in range(*function.body):
        if text[index] == "static" and index not in inner:
            words = text[index - 2 : text.index(";", index)]
            if not {"constant", "constexpr", "const"} & set(words[: words.index("=") if "=" in words else None]):
                unit.error(index, "static local variable must reside in constant address space")


def _is_pointer(unit: Unit, declaration: Declaration) -> bool:
    """Whether `constant` speaks of what the variable points to and not of the variable."""
    words = unit.tokens.text[declaration.head : declaration.name]
    return "*" in words and "constant" not in words[len(words) - words[::-1].index("*") :]

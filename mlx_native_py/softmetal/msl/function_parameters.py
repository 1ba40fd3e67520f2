"""Parameters that OpenCL C++ needs in another form than Metal: constant references, arrays, vector widths."""

from __future__ import annotations

from itertools import pairwise

from .arguments import declared_name, split
from .attributes import is_attribute
from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .spaces import SPACES
from .unit import Unit
from .values import template_names

_SPACES = frozenset(SPACES)
_OPERATORS = frozenset({"+", "-", "/", "%", "|", "^", "<<", ">>", "==", "!=", "<=", ">=", "&&", "||", "!", "~"})
_UNSIGNED = frozenset({"uint", "size_t", "ushort", "ulong", "uint32_t", "uint64_t", "unsigned", "short", "long"})


def loosen_references(unit: Unit) -> None:
    """Lets constant references to thread memory take temporaries, which OpenCL keeps in no named space.

    Where a template's parameter is deduced from the reference, a value does instead: its type has no space.
    """
    functions = [d for d in walk(unit.declarations) if d.kind == "function" and d.parameters]
    text = unit.tokens.text
    refer = {text[d.name] for d in functions if _refers_to_parameters(unit, d)}
    for declaration in functions:
        assert declaration.parameters
        deduced = set(template_names(unit, declaration)) if text[declaration.name] not in refer else set()
        for start, end in split(unit, *declaration.parameters):
            words = text[start:end]
            # No array is a temporary, and deduction of its elements' type needs the space.
            if {"thread", "const", "&"} <= set(words) and "*" not in words and "(" not in words:
                unit.out[start + words.index("thread")] = ""
                if set(words[: words.index("&")]) - {"thread", "const"} <= deduced:
                    unit.out[start + words.index("&")] = ""


def loosen_locals(unit: Unit) -> None:
    """The same for local references that begin with a temporary, unless their address is taken."""
    text = unit.tokens.text
    for index in unit.tokens.places.get("&", ()):
        if text[index + 2 : index + 3] != ["="] or not is_name(text[index + 1]) or _has_address_taken(unit, index + 1):
            continue
        start = index
        while start and text[start - 1] not in (";", "{", "}", "(", ")"):
            start -= 1
        words = text[start:index]
        if {"thread", "const"} <= set(words) and "*" not in words and _is_temporary(unit, index + 3):
            unit.out[start + words.index("thread")] = ""


def _has_address_taken(unit: Unit, name: int) -> bool:
    """Whether `&` stands before a local name in what is left of its block."""
    text, match = unit.tokens.text, unit.tokens.match
    end = name
    while end < len(text) and text[end] != "}":
        end = match[end] + 1 if text[end] in ("(", "[", "{") else end + 1
    return any(
        text[i] == "&" and text[i + 1] == text[name] and not _is_operand(text[i - 1]) for i in range(name, end - 1)
    )


def _is_temporary(unit: Unit, start: int) -> bool:
    """Whether an initialiser is a number, a call, an object in braces or the result of an operator."""
    text, match = unit.tokens.text, unit.tokens.match
    index, called = start, False
    while index < len(text) and text[index] not in (";", ","):
        if text[index] in _OPERATORS or text[index] in ("*", "&") and index > start and _is_operand(text[index - 1]):
            return True
        called = text[index] in ("(", "{") and index > start
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        index += 1
    return called or text[start][0].isdigit()


def _refers_to_parameters(unit: Unit, function: Declaration) -> bool:
    """Whether a function may return or keep the place of a parameter, or is a specialisation, whose type is given."""
    text = unit.tokens.text
    assert function.parameters
    if text[function.start : function.start + 3] == ["template", "<", ">"]:
        return True
    if {"&", "*", "auto", "decltype"} & set(text[function.head : function.name]):
        return True
    names = {text[n] for a, b in split(unit, *function.parameters) if (n := declared_name(unit, a, b)) >= 0}
    body = range(*function.body) if function.body else range(0)
    return any(text[i] == "&" and text[i + 1] in names and not _is_operand(text[i - 1]) for i in body)


def _is_operand(token: str) -> bool:
    return is_name(token) and token != "return" or token in (")", "]") or token[0].isdigit()


def number_elements(unit: Unit) -> None:
    """Lets a vector's width be deduced as any type of integer: the class that vectors are here has one for it.

    Classes of the source, and arrays, have a type for their sizes and keep it.
    """
    text = unit.tokens.text
    classes = {"array", *(text[d.name] for d in walk(unit.declarations) if d.kind == "class" and d.name >= 0)}
    for declaration in walk(unit.declarations):
        if declaration.kind != "function" or not declaration.parameters or declaration.head == declaration.start:
            continue
        opened = [i for i in range(*declaration.parameters) if text[i] == "<" and text[i - 1] not in classes]
        words = [text[i : close_angle(unit.tokens, i)] for i in opened]
        widths = {word for each in words for before, word in pairwise(each) if before == ","}
        for index in range(declaration.start, declaration.head - 1):
            if text[index] in _UNSIGNED and text[index + 1] in widths and text[index - 1] in ("<", ","):
                unit.out[index] = "int"


def place_arrays(unit: Unit) -> None:
    """Puts parameters that are written as arrays into thread memory if no space is given, as Metal does."""
    text = unit.tokens.text
    for declaration in walk(unit.declarations):
        if declaration.kind != "function" or not declaration.parameters:
            continue
        for start, end in split(unit, *declaration.parameters):
            name = declared_name(unit, start, end)
            words = text[start:end]
            if name >= 0 and _is_array(unit, name, end) and not _SPACES & set(words) and "&" not in words:
                unit.out[name] = f"{SPACES['thread']} {unit.out[name]}" if "*" in words else unit.out[name]
                if "*" not in words:
                    unit.out[start] = f"{SPACES['thread']} {unit.out[start]}"


def _is_array(unit: Unit, name: int, end: int) -> bool:
    return name + 1 < end and unit.tokens.text[name + 1] == "[" and not is_attribute(unit.tokens, name + 1)

"""Parameters that OpenCL's C++ takes in another form than Metal: functions, and constant references."""

from __future__ import annotations

from .arguments import split
from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .unit import Unit


def take_by_reference(unit: Unit) -> None:
    """Turns pointers to functions into references, in template headers and nowhere else."""
    declarations = list(walk(unit.declarations))
    aliases = {name for declaration in declarations if (name := _pointer_alias(unit, declaration))}
    for declaration in declarations:
        if declaration.head > declaration.start:
            _rewrite_header(unit, declaration, aliases)


def loosen_references(unit: Unit) -> None:
    """Lets constant references to thread memory take temporaries, which OpenCL keeps in no named space."""
    text = unit.tokens.text
    for declaration in walk(unit.declarations):
        if declaration.kind != "function" or not declaration.parameters:
            continue
        for start, end in split(unit, *declaration.parameters):
            words = text[start:end]
            if "thread" in words and "const" in words and "&" in words and "*" not in words:
                unit.out[start + words.index("thread")] = ""


def _pointer_alias(unit: Unit, declaration: Declaration) -> str:
    """The name that a declaration gives to a type of pointers to functions, if it does."""
    text = unit.tokens.text
    if declaration.kind != "other" or text[declaration.head] not in ("using", "typedef"):
        return ""
    for index in range(declaration.head, declaration.end - 3):
        if text[index] == "(" and text[index + 1] == "*":
            if text[declaration.head] == "using" and text[index + 2 : index + 4] == [")", "("]:
                return text[declaration.head + 1]
            if is_name(text[index + 2]) and text[index + 3 : index + 5] == [")", "("]:
                return text[index + 2]
    return ""


def _rewrite_header(unit: Unit, declaration: Declaration, aliases: set[str]) -> None:
    text, match = unit.tokens.text, unit.tokens.match
    index = declaration.start
    while index < declaration.head:
        token = text[index]
        if token == "(" and text[index + 1] == "*" and text[match[index] + 1] == "(":
            unit.out[index + 1] = "&"
            index = match[match[index] + 1]
        elif token in aliases and text[index - 1] in ("<", ","):
            end = close_angle(unit.tokens, index + 1) if text[index + 1] == "<" else index
            unit.out[index] = f"soft::function_reference<{unit.out[index]}"
            unit.out[end] += ">"
            index = end
        index += 1

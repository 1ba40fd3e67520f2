"""Functions as arguments, converted to references, which OpenCL C++ resolves and which cannot be null."""

from __future__ import annotations

from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .unit import Unit

_FOLLOWING = ([","], [")"], ["="])  # a parameter, or a variable's declaration with its value
_INLINE = "__attribute__((always_inline)) "


def take_by_reference(unit: Unit) -> None:
    """Turns pointers to functions into references: in template headers, parameters and variables with a value."""
    declarations = list(walk(unit.declarations))
    aliases = pointer_aliases(unit)
    for declaration in declarations:
        if declaration.head > declaration.start:
            _rewrite_header(unit, declaration, aliases)
    named, by_alias = named_pointers(unit), uses_of_aliases(unit)
    for index in named:
        unit.out[index] = "&"
    for index, end in by_alias.items():
        unit.out[index] = f"soft::function_reference<{unit.out[index]}"
        unit.out[end] += ">"
    places = sorted({*named, *by_alias})
    takers = [d for d in declarations if d.parameters and any(d.parameters[0] < i < d.parameters[1] for i in places)]
    # A call whose function is unknown after inlining is refused.
    for declaration in takers:
        unit.out[declaration.head] = _INLINE + unit.out[declaration.head]
    _drop_addresses(unit, declarations, takers)


def named_pointers(unit: Unit) -> list[int]:
    """The `*` or `&` of each parameter, or variable with a value, that is a function."""
    text, match = unit.tokens.text, unit.tokens.match
    headers = template_headers(unit)
    return [
        index
        for index in unit.function_pointers
        if index not in headers
        and text[index + 2 : index + 4] == [")", "("]
        and text[match[index + 3] + 1 : match[index + 3] + 2] in _FOLLOWING
    ]


def uses_of_aliases(unit: Unit) -> dict[int, int]:
    """The same for parameters and variables whose type has a name: where that begins, and where it ends."""
    text, uses = unit.tokens.text, {}
    aliases, headers = pointer_aliases(unit), template_headers(unit)
    for index in unit.tokens.places_of(aliases):
        if index not in headers and text[index - 1] not in ("using", "*"):
            end = close_angle(unit.tokens, index + 1) if text[index + 1] == "<" else index
            if end >= index and text[end + 2 : end + 3] in _FOLLOWING and is_name(text[end + 1]):
                uses[index] = end
    return uses


def names_of_functions(unit: Unit) -> set[str]:
    """What functions are called that came as arguments, of the function or its template."""
    text = unit.tokens.text
    names = {text[index + 1] for index in unit.function_pointers}
    return names | {text[end + 1] for end in uses_of_aliases(unit).values()}


def template_headers(unit: Unit) -> set[int]:
    """The tokens of all template parameters, in a source that has pointers to functions."""
    text = unit.tokens.text
    numbers: set[int] = set()
    for index in unit.tokens.places.get("template", ()) if unit.function_pointers else ():
        if text[index + 1 : index + 2] == ["<"]:
            numbers.update(range(index, max(close_angle(unit.tokens, index + 1), index)))
    return numbers


def pointer_aliases(unit: Unit) -> set[str]:
    """Names of types of pointers to functions."""
    if not unit.function_pointers:
        return set()
    return {name for declaration in walk(unit.declarations) if (name := _pointer_alias(unit, declaration))}


def _pointer_alias(unit: Unit, declaration: Declaration) -> str:
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


def _drop_addresses(unit: Unit, declarations: list[Declaration], takers: list[Declaration]) -> None:
    """`f(&g)` is `f(g)` where `f` takes a function, of which `g` is one."""
    text = unit.tokens.text
    functions = {text[d.name] for d in declarations if d.kind == "function"}
    templates = {d.name for d in declarations if "&" in unit.out[d.start : d.head]}
    takes = {text[d.name] for d in takers} | {text[index] for index in templates}
    for index in (place for place in unit.tokens.places.get("&", ()) if 1 < place < len(text) - 2):
        if text[index + 1] in functions and text[index - 1] in ("(", ",", "<"):
            end = close_angle(unit.tokens, index + 2) if text[index + 2] == "<" else index + 1
            if end > index and text[end + 1] in (")", ",", ">") and _callee(unit, index) in takes:
                unit.out[index] = ""


def _callee(unit: Unit, index: int) -> str:
    """The name before the bracket that an argument stands in, and before its template arguments."""
    text, match = unit.tokens.text, unit.tokens.match
    while index > 1 and text[index - 1] not in ("(", "<", ";", "{", "}"):
        index = match[index - 1] if text[index - 1] in (")", "]") else index - 1
    index -= 2
    if text[index] == ">":
        while index > 0 and text[index] != "<":
            index -= 1
        index -= 1
    return text[index]

"""Values known during translation: named integer constants and function constants."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ..data_types import DataType, data_type
from ..program import Constant
from .attributes import Attribute, attributes
from .evaluate import Named, NotConstant, Value, evaluate, integer
from .lexer import close_angle, is_name
from .scopes import Declaration, walk
from .unit import Unit

_SPECIFIERS = frozenset({"constant", "const", "constexpr", "static", "inline", "extern", "volatile"})


@dataclass(frozen=True)
class FunctionConstant:
    """A constant whose value is given at build time; SOFT_FC_<number> stands for it in the text."""

    number: int
    constant: Constant
    type: DataType


class Values:
    """The program-scope constants of a unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.function_constants: dict[str, FunctionConstant] = {}
        self.initialisers: dict[str, list[str]] = {}
        self._lookup = Named(self._value)
        declarations = list(walk(unit.declarations))
        for declaration in declarations:
            if declaration.kind == "enum":
                self._enumerators(declaration)
            elif declaration.kind == "variable" and declaration.name >= 0:
                self._initialiser(declaration)
        for declaration in declarations:
            if declaration.kind == "variable" and declaration.name >= 0:
                self._function_constant(declaration)
        self._loosen_derived(declarations)
        self._defined_tests()

    def has(self, name: str) -> bool:
        """Whether a program-scope constant of that name could switch an argument."""
        return name in self.function_constants or name in self.initialisers

    def integer(self, tokens: tuple[int, int]) -> int:
        """The value of an attribute's argument."""
        return integer(evaluate(self.unit.tokens.text[slice(*tokens)], self._lookup, lambda name: False))

    def _value(self, name: str) -> Value:
        if name not in self.initialisers:
            raise NotConstant(name)
        return evaluate(self.initialisers[name], self._lookup, lambda name: False)

    def _initialiser(self, declaration: Declaration) -> None:
        text = self.unit.tokens.text
        index = declaration.name + 1
        if index < declaration.end and text[index] in ("=", "{"):
            end = declaration.end - 1 - (text[index] == "{")
            self.initialisers[text[declaration.name]] = text[index + 1 : end]

    def _enumerators(self, declaration: Declaration) -> None:
        text, match = self.unit.tokens.text, self.unit.tokens.match
        opened = next((i for i in range(declaration.start, declaration.end) if text[i] == "{"), -1)
        if opened < 0:
            return
        base, since = "0", -1  # what the next one counts from, which no name of the source can be, and how far it is
        index = opened + 1
        while index < match[opened]:
            end = index
            while text[end] != "," and end < match[opened]:
                end = match[end] + 1 if text[end] in ("(", "[", "{") else end + 1
            since += 1
            if text[index + 1] == "=":
                base, since = f"{text[index]}@{index}", 0
                self.initialisers[base] = text[index + 2 : end]
            self.initialisers[text[index]] = [base, "+", str(since)]
            index = end + 1

    def _function_constant(self, declaration: Declaration) -> None:
        unit = self.unit
        listed = attributes(unit.tokens, declaration.head, declaration.end)
        attribute = next((a for a in listed if a.name == "function_constant"), None)
        if attribute is None:
            return
        if declaration.in_class and len(listed) > 1:  # switches a member of a render stage's struct on
            unit.drop(attribute.start, attribute.end)
            return
        text = unit.tokens.text
        name = text[declaration.name]
        if "constant" not in text[declaration.head : declaration.name]:
            unit.error(
                declaration.name, "'function_constant' attribute only applies to variables in constant address space"
            )
        if text[attribute.end : attribute.end + 1] == ["="]:
            unit.error(attribute.end, f"function constant '{name}' cannot have an initializer")
        kind = data_type(self._type_name(declaration))
        index = self._index(attribute)
        if kind is None:
            unit.error(declaration.name, f"function constant '{name}' must be of a scalar or vector type")
        if kind is None or index < 0:
            return
        constant = Constant(name, index, self._type_name(declaration), kind.code)
        number = len(self.function_constants)
        self.function_constants[name] = FunctionConstant(number, constant, kind)
        unit.drop(attribute.start, attribute.end)
        self._replace_constexpr(declaration, "")
        unit.out[declaration.head] = "SOFT_FC " + unit.out[declaration.head]
        unit.out[declaration.name] += f" = SOFT_FC_{number}"

    def _loosen_derived(self, declarations: list[Declaration]) -> None:
        """Constants made from function constants are constant expressions only once those have values."""
        text = self.unit.tokens.text
        derived = set(self.function_constants)
        for declaration in declarations:
            if declaration.kind == "variable" and declaration.name >= 0 and derived:
                name = text[declaration.name]
                if derived & set(self.initialisers.get(name, ())):
                    derived.add(name)
                    self._replace_constexpr(declaration, "SOFT_FC")

    def _replace_constexpr(self, declaration: Declaration, word: str) -> None:
        for index in range(declaration.head, declaration.name):
            if self.unit.tokens.text[index] == "constexpr":
                self.unit.out[index] = word

    def _type_name(self, declaration: Declaration) -> str:
        text = self.unit.tokens.text
        return self.unit.join([t for t in text[declaration.head : declaration.name] if t not in _SPECIFIERS])

    def _index(self, attribute: Attribute) -> int:
        try:
            index = self.integer(attribute.arguments) if attribute.arguments else -1
        except NotConstant as reason:
            self.unit.error(
                attribute.index, f"'function_constant' attribute requires an integer constant ({reason} is not one)"
            )
            return -1
        if not 0 <= index <= 65535:
            self.unit.error(
                attribute.index, "'function_constant' attribute parameter is out of bounds: must be between 0 and 65535"
            )
            return -1
        return index

    def _defined_tests(self) -> None:
        """Makes each is_function_constant_defined(x) a macro, and x no longer required."""
        unit = self.unit
        text = unit.tokens.text
        for index in unit.tokens.places.get("is_function_constant_defined", ()):
            if text[index + 1 : index + 2] != ["("]:
                continue
            name = text[unit.tokens.match[index + 1] - 1]
            constant = self.function_constants.get(name)
            if constant is None:
                unit.error(index, f"'{name}' is not a function constant")
                continue
            relaxed = Constant(**{**vars(constant.constant), "required": False})
            self.function_constants[name] = FunctionConstant(constant.number, relaxed, constant.type)
            unit.drop(index, unit.tokens.match[index + 1] + 1)
            unit.out[index] = f"SOFT_FC_DEFINED_{constant.number}"


def condition_value(
    name: str,
    initialisers: Mapping[str, list[str]],
    constants: Mapping[str, Constant],
    types: Mapping[str, DataType],
    given: Mapping[int, bytes],
) -> bool:
    """Whether the constant that switches an argument is true; raises NotConstant if it has no value."""

    def defined(constant: str) -> bool:
        return constant in constants and constants[constant].index in given

    def lookup(wanted: str) -> Value:
        if wanted in constants:
            if not defined(wanted):
                raise NotConstant(wanted)
            return types[wanted].number(given[constants[wanted].index])
        if wanted not in initialisers:
            raise NotConstant(wanted)
        return evaluate(initialisers[wanted], values, defined)

    values = Named(lookup)
    for each in initialisers:  # first what others depend on, however long the chain
        with suppress(NotConstant):
            values(each)
    return bool(values(name))


def template_names(unit: Unit, declaration: Declaration) -> list[str]:
    """The names of a template's parameters."""
    text, match = unit.tokens.text, unit.tokens.match
    names, index = [], declaration.start
    while index < declaration.head:
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] in (",", ">", ">>", "=") and is_name(text[index - 1]):
            names.append(text[index - 1])
            if text[index] == "=":
                index = _default_end(unit, index + 1, declaration.head) - 1
        index += 1
    return names


def _default_end(unit: Unit, index: int, end: int) -> int:
    text, match = unit.tokens.text, unit.tokens.match
    while index < end and text[index] not in (",", ">", ">>"):
        if text[index] in ("(", "[", "{"):
            index = match[index]
        elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
            index = close
        index += 1
    return index

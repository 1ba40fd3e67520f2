"""Threadgroup variables of kernels, converted to offsets in threadgroup memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..data_types import data_type
from .kernels import KernelFunction
from .lexer import close_angle, is_name
from .scopes import walk
from .unit import Unit

_SPECIFIERS = frozenset({"const", "volatile", "static", "constexpr", "threadgroup", "thread"})
_ZERO = re.compile(r"(0[xX]0+|0+(?:\.0*)?|\.0+)([eE][+-]?\d+)?(bf|BF|[fFhHuUlL])*|false|nullptr|[={}(),]")
_BUILTIN_WORDS = frozenset({"unsigned", "signed", "long", "short", "int", "char"})
_STATEMENT_STARTS = frozenset({";", "{", "}", ":", ")", "else"})


def place_variables(unit: Unit, functions: list[KernelFunction]) -> None:
    """Rewrites the declarations of threadgroup variables, and refuses them outside kernels."""
    kernels = {id(function.declaration) for function in functions}
    text = unit.tokens.text
    for declaration in walk(unit.declarations):
        if declaration.kind != "function" or not declaration.body:
            continue
        for index in range(*declaration.body):
            if text[index] == "threadgroup" and (start := _statement_start(unit, index)) >= 0:
                _Statement(unit, start, index).place(in_kernel=id(declaration) in kernels)


def _statement_start(unit: Unit, index: int) -> int:
    """The first token of the statement that `threadgroup` at `index` begins, or -1 if it begins none."""
    text, match = unit.tokens.text, unit.tokens.match
    start = index
    while True:
        previous = text[start - 1]
        if previous == ")" and text[match[start - 1] - 1] in ("alignas", "__attribute__"):
            start = match[start - 1] - 1
        elif previous == "]" and text[match[start - 1]] == "[" and text[match[start - 1] + 1] == "[":
            start = match[start - 1]
        elif previous in _SPECIFIERS or (is_name(previous) and start == index and _is_type_word(unit, start - 1)):
            start -= 1
        else:
            return start if previous in _STATEMENT_STARTS or previous[0] == "#" else -1


def _is_type_word(unit: Unit, index: int) -> bool:
    """Whether `float threadgroup x` is meant: a type's name opens the statement."""
    text = unit.tokens.text
    return text[index] not in ("return", "else", "typedef", "case", "typename") and text[index - 1] in _STATEMENT_STARTS


class _Statement:
    def __init__(self, unit: Unit, start: int, keyword: int) -> None:
        self.unit = unit
        self.start = start
        self.keyword = keyword
        self.names: list[int] = []
        self.dropped: list[int] = []
        self.alignment = ""

    def place(self, *, in_kernel: bool) -> None:
        unit = self.unit
        text = unit.tokens.text
        first = self._past_type()
        if text[first] in ("*", "&", "&&", "(") or not is_name(text[first]):
            return
        end = self._declarators(first)
        if end < 0:
            return
        if not in_kernel:
            unit.error(
                self.names[0], "variables in the threadgroup address space can only be declared in a kernel function"
            )
            return
        for index in self.dropped:
            unit.out[index] = ""
        aligned = f"__attribute__((aligned({self.alignment}))) " if self.alignment else ""
        unit.out[self.start] = f"typedef {aligned}{unit.out[self.start]}"
        for index in self.names:
            unit.out[index] = f"soft_tg_{text[index]}"
        unit.out[end] = "; " + " ".join(f"SOFT_TG_VAR(soft_tg_{text[i]}, {text[i]});" for i in self.names)

    def _past_type(self) -> int:
        """The index of the first declarator; notes what a typedef cannot keep."""
        unit = self.unit
        text, match = unit.tokens.text, unit.tokens.match
        index, seen = self.start, False
        while True:
            token = text[index]
            if token == "alignas":
                spelling = unit.spelling(index + 2, match[index + 1])
                self.alignment = f"alignof({spelling})" if data_type(spelling) else spelling
                self.dropped += range(index, match[index + 1] + 1)
                index = match[index + 1]
            elif token == "__attribute__":
                index = match[index + 1]
            elif token == "[" and not seen:
                self.dropped += range(index, match[index] + 1)
                index = match[index]
            elif token in _SPECIFIERS:
                if token in ("threadgroup", "static", "constexpr"):
                    self.dropped.append(index)
            elif token in ("typename", "struct"):
                pass
            elif token in _BUILTIN_WORDS:
                seen = True
            elif not seen and (is_name(token) or token == "::"):
                index = self._past_name(index) - 1
                seen = True
            else:
                return index
            index += 1

    def _past_name(self, index: int) -> int:
        unit = self.unit
        text, match = unit.tokens.text, unit.tokens.match
        first = index
        while True:
            if text[index] == "decltype":
                index = match[index + 1] + 1
            elif text[index] == "<" and (close := close_angle(unit.tokens, index)) >= 0:
                index = close + 1
            elif text[index] == "::" or text[index - 1] == "::" or text[index] == "template":
                index += 1
            elif is_name(text[index]) and text[index + 1] in ("::", "<"):
                index += 1
            else:
                ended = index > first and text[index - 1] in (">", ">>", ")")
                return index if ended or not is_name(text[index]) or self._named(index) else index + 1

    def _named(self, index: int) -> bool:
        """Whether a type's last name stands before `index` already."""
        text = self.unit.tokens.text
        return is_name(text[index - 1]) and text[index - 2] == "::"

    def _declarators(self, index: int) -> int:
        """Collects the names; the answer is the index of the semicolon, or -1 after an error."""
        unit = self.unit
        text, match = unit.tokens.text, unit.tokens.match
        while True:
            if not is_name(text[index]):
                unit.error(index, "a threadgroup pointer cannot be declared together with threadgroup variables")
                return -1
            self.names.append(index)
            index += 1
            while text[index] in ("[", "__attribute__"):
                index = match[index + (text[index] != "[")] + 1
            if text[index] in ("=", "{", "("):
                index = self._past_initialiser(index)
            if text[index] == ";":
                return index
            if text[index] != ",":
                unit.error(index, "expected ';' at end of declaration of a threadgroup variable")
                return -1
            index += 1

    def _past_initialiser(self, index: int) -> int:
        """Metal accepts zeros here and promises nothing about them; anything else is refused."""
        unit = self.unit
        text, match = unit.tokens.text, unit.tokens.match
        end = index
        while text[end] not in (",", ";", "}"):
            end = match[end] + 1 if text[end] in ("(", "{", "[") else end + 1
        name = text[self.names[-1]]
        types = {*text[self.start : self.names[0]], *_type_names(unit)}
        if all(_ZERO.fullmatch(word) or word in types or data_type(word) for word in text[index:end]):
            self.dropped += range(index, end)
            unit.warn(self.names[-1], f"initializer of threadgroup variable '{name}' is ignored")
        else:
            unit.error(self.names[-1], f"variable '{name}' in the threadgroup address space cannot have an initializer")
        return end


def _type_names(unit: Unit) -> Iterator[str]:
    """The names that a source gives to types, as far as they may be a scalar's or a vector's."""
    text = unit.tokens.text
    for declaration in walk(unit.declarations):
        if declaration.kind == "other" and text[declaration.head] == "typedef":
            yield text[declaration.end - 2]
        elif declaration.kind == "other" and text[declaration.head] == "using":
            yield text[declaration.head + 1]

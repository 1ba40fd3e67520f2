"""The declaration tree: namespaces, classes, functions, variables, instantiations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from .lexer import LexicalError, Tokens, close_angle, is_name

Kind = Literal["namespace", "class", "enum", "function", "variable", "instantiation", "other"]

_PREFIX_CALLS = frozenset({"__attribute__", "decltype", "alignas", "__declspec", "noexcept", "explicit", "typeof"})
_CLASS_KEYS = frozenset({"struct", "class", "union"})
_NEVER_AFTER_CLASS = frozenset(
    {"kernel", "template", "struct", "class", "enum", "namespace", "using", "typedef", "void"}
)
_TRAILING = frozenset(
    {"const", "volatile", "&", "&&", "override", "final", "device", "constant", "threadgroup", "thread"}
)


@dataclass
class Declaration:
    """One declaration: tokens `start` to `end` (exclusive), and positions that later passes need."""

    kind: Kind
    start: int
    end: int
    scope: tuple[str, ...]
    name: int = -1
    head: int = -1  # first token after the template headers
    parameters: tuple[int, int] | None = None
    body: tuple[int, int] | None = None
    in_class: bool = False
    children: list[Declaration] = field(default_factory=list)


def walk(declarations: list[Declaration]) -> Iterator[Declaration]:
    """Every declaration, outer ones first."""
    for declaration in declarations:
        yield declaration
        yield from walk(declaration.children)


def parse(tokens: Tokens) -> list[Declaration]:
    """The declarations of a whole source."""
    return _Parser(tokens).declarations(0, len(tokens), (), in_class=False)


class _Parser:
    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.text = tokens.text
        self.match = tokens.match

    def declarations(self, index: int, end: int, scope: tuple[str, ...], *, in_class: bool) -> list[Declaration]:
        declared = []
        while index < end:
            token = self.text[index]
            if token == ";" or token[0] == "#":
                index += 1
            elif in_class and token in ("public", "private", "protected") and self.text[index + 1] == ":":
                index += 2
            else:
                declaration = self.declaration(index, end, scope, in_class=in_class)
                declared.append(declaration)
                index = declaration.end
        return declared

    def declaration(self, start: int, end: int, scope: tuple[str, ...], *, in_class: bool) -> Declaration:
        text = self.text
        token = text[start]
        following = text[start + 1] if start + 1 < end else ";"
        if token == "namespace" or (token == "inline" and following == "namespace"):
            return self._namespace(start, end, scope)
        if token == "extern" and following.startswith('"') and text[start + 2] == "{":
            close = self.match[start + 2]
            children = self.declarations(start + 3, close, scope, in_class=False)
            return Declaration("namespace", start, close + 1, scope, body=(start + 2, close), children=children)
        if token in ("using", "static_assert", "friend"):
            return Declaration("other", start, self._past_semicolon(start, end), scope, head=start)
        if token == "template" and following != "<":
            return Declaration("instantiation", start, self._past_semicolon(start, end), scope, head=start)
        head = start
        while head + 1 < end and text[head] == "template" and text[head + 1] == "<":
            close = close_angle(self.tokens, head + 1)
            if close < 0:
                break
            head = close + 1
        if head >= end:  # a template of nothing
            return Declaration("other", start, end, scope, head=start)
        if text[head] == "using" or text[head] == "friend":
            return Declaration("other", start, self._past_semicolon(head, end), scope, head=head)
        return self._simple(start, head, end, scope, in_class=in_class)

    def _namespace(self, start: int, end: int, scope: tuple[str, ...]) -> Declaration:
        index = start
        names: list[str] = []
        while index < end and self.text[index] not in ("{", ";", "="):
            if is_name(self.text[index]) and self.text[index] not in ("inline", "namespace"):
                names.append(self.text[index])
            index += 1
        if index >= end or self.text[index] != "{":
            return Declaration("other", start, self._past_semicolon(start, end), scope, head=start)
        close = self.match[index]
        inner = scope + tuple(names)
        children = self.declarations(index + 1, close, inner, in_class=False)
        return Declaration("namespace", start, close + 1, scope, body=(index, close), children=children)

    def _simple(self, start: int, head: int, end: int, scope: tuple[str, ...], *, in_class: bool) -> Declaration:
        """A class, an enumeration, a function or a variable."""
        text, match = self.text, self.match
        declaration = Declaration("variable", start, end, scope, head=head, in_class=in_class)
        if text[head] == "typedef":
            declaration.kind = "other"
        index = head
        while index < end:
            token = text[index]
            if token == "[":
                index = match[index] + 1
            elif token in _CLASS_KEYS and (opened := self._class_body(index, end)) >= 0:
                return self._class(declaration, index, opened, end)
            elif token == "enum":
                declaration.kind = "enum"
                declaration.end = self._past_semicolon(index, end)
                return declaration
            elif token == "operator":
                index = self._operator(declaration, index)
            elif token in _PREFIX_CALLS and text[index + 1] == "(":
                index = match[index + 1] + 1
            elif token == "<" and (close := close_angle(self.tokens, index)) >= 0:
                index = close + 1
            elif token == "(" and declaration.kind != "other":
                return self._function(declaration, index, end)
            elif token in ("=", ";", "{", "(") or (token == ":" and in_class):
                break
            else:
                if is_name(token):
                    declaration.name = index
                index += 1
        declaration.end = self._past_semicolon(index, end)
        return declaration

    def _class_body(self, index: int, end: int) -> int:
        """The `{` of a class definition that starts with the key at `index`, or -1."""
        text = self.text
        index += 1
        base_clause = False
        while index < end:
            token = text[index]
            if token == "{":
                return index
            if token in ("[", "("):
                if token == "(" and not base_clause and text[index - 1] not in _PREFIX_CALLS:
                    return -1
                index = self.match[index]
            elif token == "<":
                close = close_angle(self.tokens, index)
                if close < 0:
                    return -1
                index = close
            elif token == ":":
                base_clause = True
            elif not (is_name(token) or token == "::" or (base_clause and token in (",", "..."))):
                return -1
            index += 1
        return -1

    def _class(self, declaration: Declaration, key: int, opened: int, end: int) -> Declaration:
        text = self.text
        close = self.match[opened]
        declaration.kind = "class"
        index = key + 1
        while index < opened and text[index] not in ("<", ":", "final"):
            if text[index] in ("[", "("):
                index = self.match[index]
            elif is_name(text[index]) and text[index] not in _PREFIX_CALLS:
                declaration.name = index
            index += 1
        if text[declaration.head] == "typedef" and declaration.name < key:
            declaration.name = close + 1
        name = text[declaration.name] if declaration.name > key else ""
        declaration.body = (opened, close)
        declaration.children = self.declarations(opened + 1, close, (*declaration.scope, name), in_class=True)
        if close + 1 < end and text[close + 1] in _NEVER_AFTER_CLASS and text[declaration.head] != "typedef":
            raise LexicalError(f"expected ';' after {text[key]}", self.tokens, close)
        declaration.end = self._past_semicolon(close, end)
        return declaration

    def _operator(self, declaration: Declaration, index: int) -> int:
        """Skips an operator's name; the answer is the index of its parameter list."""
        declaration.name = index
        index += 1
        if self.text[index : index + 1] == ["("]:
            return self.match[index] + 1
        while index < len(self.text) and self.text[index] != "(":
            index += 1
        return index

    def _function(self, declaration: Declaration, opened: int, end: int) -> Declaration:
        text, match = self.text, self.match
        if declaration.name < 0 or text[opened + 1] in ("*", "&"):
            declaration.end = self._past_semicolon(opened, end)
            return declaration
        index = match[opened] + 1
        while index < end and text[index] not in (";", "{", "=", ":", ",", ")"):
            if text[index] == "noexcept" and text[index + 1] == "(":
                index += 1
            if text[index] in ("(", "["):
                index = match[index]
            index += 1
        if index < end and text[index] == ":":
            index = self._past_initialisers(index + 1, end)
        declaration.parameters = (opened, match[opened])
        if index < end and text[index] == "{":
            declaration.kind = "function"
            declaration.body = (index, match[index])
            declaration.end = match[index] + 1
            declaration.children = self._local_classes(declaration)
        else:
            declaration.kind = "function" if text[declaration.head] != "typedef" else "other"
            declaration.end = self._past_semicolon(index, end)
        return declaration

    def _local_classes(self, function: Declaration) -> list[Declaration]:
        assert function.body
        index, end = function.body
        classes = []
        while index < end:
            if self.text[index] in _CLASS_KEYS and self._class_body(index, end) >= 0:
                declaration = self._simple(
                    index, index, end, (*function.scope, self.text[function.name]), in_class=False
                )
                classes.append(declaration)
                index = declaration.end
            else:
                index += 1
        return classes

    def _past_initialisers(self, index: int, end: int) -> int:
        """Skips `a(x), b<T>{y}...` of a constructor; the answer is the index of its body."""
        text = self.text
        while index < end:
            token = text[index]
            if token in ("(", "{"):
                index = self.match[index] + 1
                if index < end and text[index] == "...":
                    index += 1
                if index >= end or text[index] != ",":
                    return index
            elif token == "<" and (close := close_angle(self.tokens, index)) >= 0:
                index = close
            index += 1
        return end

    def _past_semicolon(self, index: int, end: int) -> int:
        text = self.text
        while index < end and text[index] != ";":
            index = self.match[index] + 1 if text[index] in ("(", "[", "{") else index + 1
        return min(index + 1, end)


def trailing_spaces(tokens: Tokens, function: Declaration) -> list[int]:
    """The address-space qualifiers after a function's parameter list."""
    assert function.parameters
    spaces = []
    index = function.parameters[1] + 1
    while index < function.end and (tokens.text[index] in _TRAILING or tokens.text[index] in ("noexcept", "[")):
        if tokens.text[index] in ("device", "constant", "threadgroup", "thread"):
            spaces.append(index)
        index = tokens.match[index] + 1 if tokens.text[index] == "[" else index + 1
    return spaces

"""The lexer: tokens of preprocessed MSL with file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

_PUNCTUATION = frozenset("{}()[]<>;:,.?+-*/%&|^~!=@")
# Newlines, directives, strings, numbers, names, punctuation; then what is none of them. What follows the beginning
# of a string without an end is one token: to look for it at each would take for ever, and hold all other threads up.
_TOKEN = re.compile(
    r"""[ \t\r\f\v]*(
    \n
  | \#[^\n]*
  | (?:u8|u|U|L)?R"(?P<tag>[^()\s\\"]{0,16})\(.*?\)(?P=tag)"
  | (?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*"|(?:u8|u|U|L)?'(?:[^'\\\n]|\\.)+'
  | ((?:u8|u|U|L)?(?:R?"|')).*
  | \.?[0-9](?:[eEpP][+-]|'[0-9a-zA-Z_]|[0-9a-zA-Z_.])*
  | [A-Za-z_$\u0080-\U0010ffff][\w$]*
  | \.\.\.|->\*|<=>|<<=|>>=|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|\.\*
  | [^ \t\r\f\v])
    """,
    re.VERBOSE | re.DOTALL,
)
_MARKER = re.compile(r'#(?:line)?\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_CLOSERS = {")": "(", "]": "[", "}": "{"}


@dataclass
class Tokens:
    """Parallel lists, one entry per token; `row` is a source line, `match` the matching bracket or -1."""

    text: list[str] = field(default_factory=list)
    row: list[tuple[str, int]] = field(default_factory=list)
    match: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """Where each text stands, in order: passes look up the few words they are about."""
        places: dict[str, list[int]] = {}
        for index, text in enumerate(self.text):
            places.setdefault(text, []).append(index)
        return places

    def places_of(self, words: Iterable[str]) -> list[int]:
        """Where any of these words stands, in order."""
        return sorted(index for word in words for index in self.places.get(word, ()))

    def nth_in_row(self, index: int) -> int:
        """How many tokens of the same source line come before this one."""
        row = self.row[index]
        first = index
        while first and self.row[first - 1] == row:
            first -= 1
        return index - first


class LexicalError(Exception):
    """An invalid character, or an unmatched bracket."""

    def __init__(self, message: str, tokens: Tokens, index: int) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.index = index


def lex(text: str, path: str) -> Tokens:
    """The tokens of `text`, the output of a preprocessor that was fed a file known as `path`."""
    tokens = Tokens()
    row = (path, 1)
    append_text, append_row = tokens.text.append, tokens.row.append
    for spelling, _, opened in _TOKEN.findall(text):
        if spelling == "\n":
            row = (row[0], row[1] + 1)
            continue
        if spelling[0] == "#" and (marker := _MARKER.match(spelling)):
            name = marker[2].replace("\\\\", "\\")
            # The marker speaks of the line after it.
            row = (path if name == "<stdin>" else name, int(marker[1]) - 1)
            continue
        append_text(opened[-1] if opened else spelling)
        append_row(row)
        if "\n" in spelling:
            row = (row[0], row[1] + spelling.count("\n"))
    _refuse_characters(tokens)
    _match_brackets(tokens)
    return tokens


def _refuse_characters(tokens: Tokens) -> None:
    foreign = {word for word in set(tokens.text) if len(word) == 1 and not _is_known(word)}
    if foreign:
        index = next(index for index, word in enumerate(tokens.text) if word in foreign)
        del tokens.text[index + 1 :], tokens.row[index + 1 :]
        raise LexicalError(f"unexpected character '{tokens.text[index]}'", tokens, index)


def _is_known(character: str) -> bool:
    return character in _PUNCTUATION or is_name(character) or character.isdigit() or character == "#"


def without(tokens: Tokens, ranges: list[tuple[int, int]]) -> Tokens:
    """The tokens that are in none of the ranges."""
    dropped = {index for start, end in ranges for index in range(start, end)}
    kept = [index for index in range(len(tokens)) if index not in dropped]
    left = Tokens([tokens.text[i] for i in kept], [tokens.row[i] for i in kept])
    _match_brackets(left)
    return left


def _match_brackets(tokens: Tokens) -> None:
    match = tokens.match = [-1] * len(tokens)
    open_brackets: list[int] = []
    for index in tokens.places_of("()[]{}"):
        text = tokens.text[index]
        if text in "([{":
            open_brackets.append(index)
        elif open_brackets and tokens.text[open_brackets[-1]] == _CLOSERS[text]:
            partner = open_brackets.pop()
            match[index], match[partner] = partner, index
        elif any(tokens.text[opened] == _CLOSERS[text] for opened in open_brackets):
            _never_closed(tokens, open_brackets[-1])
        else:
            raise LexicalError(f"extraneous closing '{text}'", tokens, index)
    if open_brackets:
        _never_closed(tokens, open_brackets[-1])


def _never_closed(tokens: Tokens, index: int) -> None:
    closer = {"(": ")", "[": "]", "{": "}"}[tokens.text[index]]
    raise LexicalError(f"expected '{closer}'", tokens, index)


def is_name(text: str) -> bool:
    """Whether a token is an identifier or keyword."""
    return text[0].isalpha() or text[0] in "_$"


def close_angle(tokens: Tokens, index: int) -> int:
    """The index of the token that closes the template bracket at `index`, or -1 if it is a comparison.

    Two brackets may close in one `>>`; then both share its index.
    """
    text, match = tokens.text, tokens.match
    depth = 0
    end = len(text)
    while index < end:
        token = text[index]
        if token == "<":
            depth += 1
        elif token == ">":
            depth -= 1
        elif token == ">>":
            depth -= 2
        elif token in ("(", "[", "{"):
            index = match[index]
        elif token in (";", ")", "]", "}"):
            return -1
        if depth <= 0:
            return index
        index += 1
    return -1

"""A source under translation: tokens, their replacements, and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from ..program import CompileError, Diagnostic
from .lexer import Tokens, is_name
from .positions import MOST_MESSAGES, Positions
from .scopes import Declaration, walk

_NOT_A_TYPE = frozenset({"if", "while", "for", "switch", "return", "sizeof", "decltype", "case", "and", "or", "not"})


@dataclass
class Unit:
    """`out[i]` is the translation of token `i`; passes edit it and report errors."""

    tokens: Tokens
    positions: Positions
    declarations: list[Declaration]
    out: list[str]
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)
    language: tuple[int, int] = (3, 2)

    def error(self, index: int, message: str) -> None:
        """Notes an error at a token; enough of them end the translation."""
        self.errors.append(self.positions.diagnostic(self.tokens, index, message))
        if len(self.errors) == MOST_MESSAGES:
            self.raise_errors()

    def warn(self, index: int, message: str) -> None:
        """Notes a warning at a token, unless there are enough."""
        if len(self.warnings) < MOST_MESSAGES:
            self.warnings.append(self.positions.diagnostic(self.tokens, index, message, "warning"))

    def drop(self, start: int, end: int) -> None:
        """Removes the tokens from `start` up to `end`."""
        for index in range(start, end):
            self.out[index] = ""

    def spelling(self, start: int, end: int) -> str:
        """The source text of a range, one space between tokens that need it."""
        return join(self.tokens.text[start:end])

    @staticmethod
    def join(texts: list[str]) -> str:
        """Tokens as a reader would write them."""
        return join(texts)

    @cached_property
    def aliases(self) -> dict[str, str]:
        """What each name given by `using` or `typedef` stands for; nothing where scopes disagree about it."""
        names: dict[str, str] = {}
        for declaration in walk(self.declarations):
            words = self.tokens.text[declaration.head : declaration.end - 1]
            if declaration.kind != "other" or declaration.head != declaration.start or len(words) < 3:
                continue
            if words[0] == "using" and words[2] == "=":
                name, meaning = words[1], join(words[3:])
            elif words[0] == "typedef":
                name, meaning = words[-1], join(words[1:-1])
            else:
                continue
            names[name] = meaning if names.get(name, meaning) == meaning else ""
        return names

    @cached_property
    def alias_templates(self) -> dict[str, tuple[list[str], list[str]]]:
        """The parameters and the meaning of each `template <...> using`, in tokens; ambiguous ones have no meaning."""
        names: dict[str, tuple[list[str], list[str]]] = {}
        for declaration in walk(self.declarations):
            words = self.tokens.text[declaration.head : declaration.end - 1]
            if declaration.kind != "other" or declaration.head == declaration.start or words[::2][:2] != ["using", "="]:
                continue
            header = self.tokens.text[declaration.start : declaration.head]
            if header.count("<") == 1 and "=" not in header:  # nothing that only a parser could take apart
                parameters = [word for word, behind in pairwise(header) if behind in (",", ">")]
                names[words[1]] = (parameters, [] if words[1] in names else words[3:])
        return names

    @cached_property
    def function_pointers(self) -> list[int]:
        """The `*` or `&` of each `type (*name)(`, with a name or without."""
        text = self.tokens.text
        stars = [i for i in self.tokens.places_of(("*", "&")) if text[i - 1] == "("]
        return [index for index in stars if _is_function_pointer(text, index)]

    def raise_errors(self) -> None:
        """Refuses the source if anything was wrong with it."""
        if self.errors:
            unique = dict.fromkeys(sorted(self.errors, key=lambda error: (error.file, error.line, error.column)))
            raise CompileError(tuple(unique))


def join(texts: list[str]) -> str:
    """Tokens as a reader would write them: no space inside `ns::f<T>` and around brackets."""
    joined = ""
    for text in texts:
        if joined and (joined[-1].isalnum() or joined[-1] == "_") and (text[0].isalnum() or text[0] == "_"):
            joined += " "
        elif joined and (joined[-1] in ",*&" and (text[0].isalnum() or text[0] == "_")):
            joined += " "
        joined += text
    return joined


def _is_function_pointer(text: list[str], index: int) -> bool:
    close = index + 1
    while close < len(text) and (is_name(text[close]) or text[close] == "::"):
        close += 1
    if index < 2 or text[close : close + 2] != [")", "("]:
        return False
    before = text[index - 2]
    return (is_name(before) and before not in _NOT_A_TYPE) or before in (">", "*", "&")

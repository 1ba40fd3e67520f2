"""Attributes in double brackets: `[[buffer(2), function_constant(x)]]`."""

from __future__ import annotations

from dataclasses import dataclass

from .lexer import Tokens

# Accepted and without meaning for a CPU, or understood by clang itself.
HARMLESS = frozenset(
    {
        "unroll",
        "likely",
        "unlikely",
        "maybe_unused",
        "nodiscard",
        "fallthrough",
        "deprecated",
        "noreturn",
        "clang::always_inline",
        "clang::noinline",
        "gnu::always_inline",
        "gnu::noinline",
        "gnu::unused",
        "always_inline",
        "noinline",
        "no_unique_address",
        "early_fragment_tests",
        "id",
    }
)
# What may stand in __attribute__((...)).
GNU_ATTRIBUTES = frozenset(
    (
        "aligned always_inline cold const deprecated enable_if ext_vector_type fallthrough flatten hot maybe_unused "
        "noinline nothrow packed pure unused vector_size warn_unused_result"
    ).split()
)
_KEPT = frozenset({"maybe_unused", "nodiscard", "fallthrough", "likely", "unlikely", "noreturn"})


@dataclass(frozen=True)
class Attribute:
    """One attribute; `start` to `end` are its brackets' tokens, `arguments` what stands in its parentheses."""

    name: str
    index: int  # of its name
    start: int
    end: int
    arguments: tuple[int, int] | None = None

    @property
    def kept(self) -> bool:
        """Whether clang itself understands it."""
        return self.name in _KEPT


def attributes(tokens: Tokens, start: int, end: int) -> list[Attribute]:
    """The attributes between two tokens, outside nested brackets."""
    text, match = tokens.text, tokens.match
    found: list[Attribute] = []
    index = start
    while index < end:
        if is_attribute(tokens, index):
            found += _listed(tokens, index)
            index = match[index] + 1
        elif text[index] in ("(", "[", "{"):
            index = match[index] + 1
        else:
            index += 1
    return found


def is_attribute(tokens: Tokens, index: int) -> bool:
    """Whether `[[` stands at `index`, and no lambda inside a subscript."""
    text, match = tokens.text, tokens.match
    return (
        text[index] == "["
        and index + 1 < len(text)
        and text[index + 1] == "["
        and match[index + 1] == match[index] - 1
        and text[index + 2] not in ("]", "&", "=", "this")
    )


def _listed(tokens: Tokens, start: int) -> list[Attribute]:
    text, match = tokens.text, tokens.match
    end = match[start] + 1
    found = []
    index = start + 2
    while index < end - 2:
        name = index
        spelling = text[index]
        while text[index + 1] == "::":
            spelling += "::" + text[index + 2]
            index += 2
        arguments = None
        if text[index + 1] == "(":
            arguments = (index + 2, match[index + 1])
            index = match[index + 1]
        found.append(Attribute(spelling, name, start, end, arguments))
        index += 1
        if text[index] == ",":
            index += 1
    return found

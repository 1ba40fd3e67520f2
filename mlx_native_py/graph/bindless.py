"""Kernels that take all their arguments through one: a table of addresses, so that a dispatch binds one buffer.

`kernel void f(device const float *x [[buffer(0)]], constant uint &n [[buffer(1)]], uint i [[...]]) { ... }` becomes a
kernel `f` whose buffer 0 is a struct of pointers, eight bytes for each slot; it begins by taking out `x` and `n`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import InvalidArgument

__all__ = ["ADDRESS_BYTES", "bindless_source"]

ADDRESS_BYTES = 8

_KERNEL = re.compile(
    r"(?P<template>template\s*<(?P<parameters>[^{}();]*?)>\s*)?"
    r"(?P<limits>\[\[\s*max_[^\]]*\]\]\s*)?\bkernel\s+(?P<after>\[\[[^\]]*\]\]\s*)?void\s+(?P<name>\w+)\s*\("
)
_ATTRIBUTE = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)
_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
_BRACKETS = {"(": ")", "{": "}", "[": "]", "<": ">"}


@dataclass(frozen=True)
class _Parameter:
    """One parameter of a kernel; `slot` is None for built-in values and threadgroup memory, which stay parameters."""

    text: str
    bare: str
    name: str
    slot: int | None

    @property
    def member(self) -> str:
        """In the table, references are pointers."""
        return self.bare.replace("&", "*") + ";"

    @property
    def local(self) -> str:
        return f"{self.bare} = {'*' * ('&' in self.bare)}bindless.{self.name};"


def bindless_source(source: str) -> str:
    """The same kernels, with their arguments in a table; refuses what it cannot rewrite."""
    # What is in comments and strings keeps its length, so that places agree.
    plain = _NOISE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    parts, done = [], 0
    for match in _KERNEL.finditer(plain):
        name = match["name"]
        if _in_macro(plain, match.start()):
            raise InvalidArgument(f"kernel {name!r} is made by a macro, so its arguments cannot be put into a table")
        close = _closing(plain, match.end() - 1)
        body = plain.index("{", close)
        parameters = list(_parameters(plain[match.end() : close]))
        parts += [source[done : match.start()], _opening(match, parameters)]
        done = body + 1
    if re.search(r"\bkernel\s+void\s+\w+\s*<", plain):
        raise InvalidArgument("an instantiation spells out its parameters; write kernel decltype(f<T>) f<T> instead")
    return "".join([*parts, source[done:]])


def _in_macro(plain: str, at: int) -> bool:
    line = plain.rfind("\n", 0, at) + 1
    while line > 1 and plain[line - 2] == "\\":
        line = plain.rfind("\n", 0, line - 1) + 1
    return plain[line:at].lstrip().startswith("#")


def _closing(plain: str, opening: int) -> int:
    """Where the bracket at `opening` is closed."""
    own, other, depth = plain[opening], _BRACKETS[plain[opening]], 0
    for at in range(opening, len(plain)):
        depth += (plain[at] == own) - (plain[at] == other)
        if not depth:
            return at
    raise InvalidArgument(f"the bracket {own} at character {opening} is never closed")


def _split(text: str) -> Iterator[str]:
    """At commas that are inside no brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text[start:].strip():
        yield text[start:]


def _parameters(text: str) -> Iterator[_Parameter]:
    slots: set[int] = set()
    for each in _split(text):
        attributes = " ".join(_ATTRIBUTE.findall(each))
        bare = " ".join(_ATTRIBUTE.sub(" ", each).split())
        slot = None
        if found := re.search(r"\bbuffer\((\w+)\)", attributes):
            slot = int(found[1])
        elif not attributes and re.search(r"\b(device|constant)\b", bare):
            slot = next(number for number in range(len(slots) + 1) if number not in slots)
        if slot is not None:
            slots.add(slot)
        yield _Parameter(each.strip(), bare, re.findall(r"\w+", bare)[-1], slot)


def _opening(match: re.Match[str], parameters: list[_Parameter]) -> str:
    """The table, and the kernel up to the first line of its own."""
    name, template = match["name"], match["template"] or ""
    declared = [part.partition("=")[0].split() for part in _split(match["parameters"] or "")]
    arguments = f"<{', '.join(words[-1] for words in declared)}>" if declared else ""
    by_slot = {each.slot: each for each in parameters if each.slot is not None}
    slots = range(max(by_slot, default=-1) + 1)
    members = [by_slot[slot].member if slot in by_slot else f"ulong unused_{slot};" for slot in slots]
    table = f"constant bindless_{name}{arguments} &bindless [[buffer(0)]]"
    kept = ", ".join([table, *(each.text for each in parameters if each.slot is None)])
    locals_ = " ".join(each.local for each in by_slot.values())
    before = f"{template}{match['limits'] or ''}kernel {match['after'] or ''}void"
    return f"{template}struct bindless_{name} {{ {' '.join(members)} }};\n{before} {name}({kept}) {{ {locals_}\n"

"""Functions of the source inlined into those that call them, where checks know what pointers lead to."""

from __future__ import annotations

import re

from .variables import FUNCTION

_NAME = r'@("[^"]*"|[-\w$.]+)'
_HEAD = re.compile(rf"define [^@\n]*{_NAME}\([^\n]*?\) (?:[\w\"=() -]*?)(#\d+)[^\n]* !dbg ")
_CALLED = re.compile(rf"{_NAME}\(")
Calls = dict[str, set[str]]


def inline_all(text: str) -> str:
    """The module, before optimisation, with all of the source's functions marked but for those that call themselves."""
    functions = {head[1]: found for found in FUNCTION.finditer(text) if (head := _HEAD.match(found[0]))}
    calls: Calls = {name: set(_CALLED.findall(found[0], found[0].index("\n"))) for name, found in functions.items()}
    groups = set()
    for name, found in functions.items():
        head = _HEAD.match(found[0])
        if head is None or name in reached(calls, name):
            continue
        groups.add(head[2])
        text = text.replace(found[0], f"{found[0][: head.start(2)]}alwaysinline {found[0][head.start(2) :]}", 1)
    for group in groups:
        text = re.sub(rf"^(attributes {group} = {{.*?) noinline\b", r"\1", text, flags=re.MULTILINE)
    return text


def reached(calls: Calls, start: str) -> set[str]:
    """The functions that one leads to, itself if it calls itself."""
    found: set[str] = set()
    waiting = list(calls.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += calls.get(name, ())
    return found

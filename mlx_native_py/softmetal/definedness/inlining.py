"""Functions of the source inlined into those that call them, where checks know what pointers lead to."""

from __future__ import annotations

import re

from .names import FUNCTION

_NAME = r'@("[^"]*"|[-\w$.]+)'
_HEAD = re.compile(rf"define [^@\n]*{_NAME}\([^\n]*?\) (?:[\w\"=() -]*?)(#\d+)[^\n]* !dbg ")
_CALLED = re.compile(rf"{_NAME}\(")
Calls = dict[str, set[str]]


def calls_of(text: str) -> Calls:
    """For each function of the source, the functions that it names."""
    functions = {head[1]: found[0] for found in FUNCTION.finditer(text) if (head := _HEAD.match(found[0]))}
    return {name: set(_CALLED.findall(body, body.index("\n"))) for name, body in functions.items()}


def inline_all(text: str) -> str:
    """The module, before optimisation, with all of the source's functions marked but for those that call themselves."""
    calls, groups = calls_of(text), set()
    for found in list(FUNCTION.finditer(text)):
        head = _HEAD.match(found[0])
        if head is None or head[1] in reached(calls, head[1]):
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

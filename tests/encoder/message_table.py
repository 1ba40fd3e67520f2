"""Messages against PyObjC's selector table: known, with the right number and kinds of arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from kit.spy import Message, Seen
from standin.bridge import TABLE

from mlx_native_py.metal.contract import CONTRACT, Selector

ROWS: dict[tuple[str, str], dict[str, Any]] = {
    (row["owner"], row["selector"]): row for row in json.loads(TABLE.read_text())
}
SENT: dict[str, list[Selector]] = {}
for _each in CONTRACT:
    SENT.setdefault(_each.python_name, []).append(_each)
OWNERS = {each.owner for each in CONTRACT}
BASICS = {"alloc": 0, "init": 0, "respondsToSelector_": 1}
"""What every class and every object has."""
SIZES = {"size": 3, "range": 2}
LIMITS = {"Q": (0, 2**64 - 1), "q": (-(2**63), 2**63 - 1), "z": (-128, 127)}


def selector_of(message: Message) -> Selector | None:
    """The line of the contract that a message is sent by; the receiver's class decides where two have the same name."""
    target = message.receiver._target
    kinds = [kind.__name__ for kind in (target if isinstance(target, type) else type(target)).__mro__]
    kinds += [f"MTL{kind}" for kind in kinds]
    known = SENT.get(message.name, [])
    if OWNERS.isdisjoint(kinds):
        return known[0] if known else None  # a driver's private class: its name says nothing
    return next((selector for selector in known if selector.owner in kinds), None)


def faults(message: Message) -> list[str]:
    """What is wrong with a message; empty where PyObjC would send it as it is meant."""
    given = message.arguments
    if message.name in BASICS:
        return [] if len(given) == BASICS[message.name] else [f"{message.name} with {len(given)} arguments"]
    selector = selector_of(message)
    if selector is None:
        return [f"{message.receiver.kind} {message.name} is not in the contract"]
    row = ROWS.get((selector.owner, selector.name))
    if row is None:
        return [f"{selector.owner} {selector.name} is not in PyObjC's table"]
    if len(given) != len(row["args"]):
        return [f"{selector.name} takes {len(row['args'])} arguments, {len(given)} were sent"]
    wrong = [index for index, kind in enumerate(selector.arguments) if not _fits(kind, index, given)]
    return [f"{selector.name}: argument {i} is {given[i]!r}, expected {selector.arguments[i]}" for i in wrong]


def _fits(kind: str, index: int, given: Sequence[Any]) -> bool:
    value = given[index]
    name, _, place = kind.partition(":")
    if name in LIMITS:
        return type(value) is int and LIMITS[name][0] <= value <= LIMITS[name][1]
    if name == "Z":
        return isinstance(value, bool)
    if name in SIZES:
        return type(value) is tuple and len(value) == SIZES[name] and all(_fits("Q", 0, (part,)) for part in value)
    if name == "@":
        return value is None or isinstance(value, (Seen, str, dict, list)) or hasattr(value, "respondsToSelector_")
    if name == "bytes":
        return memoryview(value).c_contiguous and (not place or memoryview(value).nbytes == given[int(place)])
    if name in ("objects", "ints"):
        count = given[int(place)]
        return isinstance(value, (list, tuple)) and len(value) == (count[1] if isinstance(count, tuple) else count)
    return value is None  # out-parameters and blocks

"""What a parsed template will cost to compile."""

from __future__ import annotations

from typing import Any

# In units of about 2.5 KB of memory and 20 microseconds; all others are one.
_WEIGHTS = {
    "AssignBlock": 8,
    "CallBlock": 8,
    "Compare": 3,
    "Filter": 2,
    "FilterBlock": 4,
    "For": 3,
    "Getattr": 2,
    "Macro": 16,
    "NSRef": 2,
    "Operand": 3,
    "Output": 2,
    "Concat": 2,
}
_VARIABLE = 4  # it may be missing, which is looked up wherever it is read
_ASSIGNED = 3


def weight_of(tree: Any) -> int:
    """The expressions and statements of a template, weighted."""
    return 1 + sum(_weight(node) for node in _nodes_of(tree))


def _nodes_of(tree: Any) -> list[Any]:
    found = [tree]
    for node in found:
        found.extend(node.iter_child_nodes())
    return found[1:]


def _weight(node: Any) -> int:
    kind = type(node).__name__
    if kind == "Name":
        return _VARIABLE if node.ctx == "load" else _ASSIGNED
    return _WEIGHTS.get(kind, 1)

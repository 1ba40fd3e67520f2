"""Which op launched a kernel, and its floating-point operations, so that profiles can group dispatches by op."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Key", "OpCall", "key_of", "look_up", "note"]

Key = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A kernel, and the sizes of the ranges that it reads and writes."""

_MAX_CALLS = 1 << 16  # calls cached; the cache is cleared when full
_known: dict[Key, OpCall] = {}


@dataclass(frozen=True, slots=True)
class OpCall:
    """An op's name and the floating-point operations of one launch; 0 if unknown."""

    op: str = ""
    flops: int = 0


UNKNOWN = OpCall()


def key_of(kernel: str, reads: Iterable[Any], writes: Iterable[Any]) -> Key:
    """The key of a launch over spans `(memory, start, end)`."""
    return kernel, tuple(sorted(r[2] - r[1] for r in reads)), tuple(sorted(w[2] - w[1] for w in writes))


def note(op: str, keys: Sequence[Key], flops: int) -> None:
    """Attributes launches to an op; its arithmetic goes to the launch that accesses the most bytes.

    A known launch keeps its op, so that of nested ops the innermost one counts.
    """
    if len(_known) >= _MAX_CALLS:
        _known.clear()
    largest = max(keys, key=lambda key: sum(key[1]) + sum(key[2]), default=None)
    for key in keys:
        _known.setdefault(key, OpCall(op, flops if key is largest else 0))


def look_up(key: Key) -> OpCall:
    """The op of a launch."""
    return _known.get(key, UNKNOWN)

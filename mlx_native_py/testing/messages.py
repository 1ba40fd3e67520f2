"""Counts the messages sent to compute encoders while forwarding them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..device import MlxDevice

__all__ = ["counted_messages"]


class _Forwarding:
    """A proxy that forwards messages to a Metal object; `wrap` sees each method first."""

    def __init__(self, mtl: Any, wrap: Callable[[str, Any], Any]) -> None:
        self._mtl = mtl
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return self._wrap(name, getattr(self._mtl, name))


@contextmanager
def counted_messages(device: MlxDevice) -> Iterator[Counter[str]]:
    """The messages to compute encoders of the block's command buffers, by selector."""
    counts: Counter[str] = Counter()

    def counted(name: str, method: Any) -> Any:
        if name == "declare":  # no message of Metal's
            return method

        def message(*args: Any) -> Any:
            counts[name] += 1
            return method(*args)

        return message

    def command_buffer(name: str, method: Any) -> Any:
        if not name.startswith("computeCommandEncoder"):
            return method
        return lambda *args: _Forwarding(method(*args), counted)

    def queue(name: str, method: Any) -> Any:
        if not name.startswith("commandBuffer"):
            return method
        return lambda *args: _Forwarding(method(*args), command_buffer)

    with device.submissions.through(lambda mtl: _Forwarding(mtl, queue)):
        yield counts

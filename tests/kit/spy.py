"""Stands between the core and the objects of a backend: a watcher sees each message, which is then passed on."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from typing import Any

from mlx_native_py.metal import Backend

PLAIN = (str, bytes, int, float)


@dataclass(frozen=True)
class Message:
    """One message as the core sent it; `receiver` and objects among the arguments are `Seen`."""

    receiver: Seen
    name: str
    arguments: tuple[Any, ...]


class Watcher:
    """Looks at messages; this one only lets them pass."""

    def before(self, message: Message) -> None:
        """The message is about to be sent."""

    def after(self, message: Message, answer: Any) -> None:
        """The message was answered."""


class Seen:
    """A Metal object, or one of its classes, under observation."""

    def __init__(self, target: Any, watcher: Watcher) -> None:
        self._target = target
        self._watcher = watcher
        self.state: Any = None
        """Whatever the watcher keeps about the object."""

    @property
    def kind(self) -> str:
        target = self._target
        return target.__name__ if isinstance(target, type) else type(target).__name__

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def send(*arguments: Any) -> Any:
            message = Message(self, name, arguments)
            self._watcher.before(message)
            answer = wrap(method(*map(unwrap, arguments)), self._watcher)
            self._watcher.after(message, answer)
            return answer

        return send

    def __repr__(self) -> str:
        return f"<seen {self.kind}>"


_seen: weakref.WeakValueDictionary[tuple[int, int], Seen] = weakref.WeakValueDictionary()


def wrap(value: Any, watcher: Watcher) -> Any:
    """What the core gets for an answer: the same proxy for the same object, as PyObjC does."""
    if value is None or isinstance(value, PLAIN):
        return value
    if isinstance(value, (list, tuple)) and any(_is_object(item) for item in value):
        return tuple(wrap(item, watcher) for item in value)
    if not _is_object(value):
        return value
    key = id(value), id(watcher)
    result = _seen.get(key)
    if result is None:
        result = _seen[key] = Seen(value, watcher)
    return result


def unwrap(value: Any) -> Any:
    """What the device gets."""
    if isinstance(value, Seen):
        return value._target
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrap, value))
    return value


def _is_object(value: Any) -> bool:
    return not isinstance(value, PLAIN) and hasattr(value, "respondsToSelector_")


class SeenNamespace:
    """`Metal` itself: its classes and functions are watched, its constants are not."""

    def __init__(self, metal: Any, watcher: Watcher) -> None:
        self._metal = metal
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._metal, name)
        if isinstance(value, type) or hasattr(value, "alloc"):
            return Seen(value, self._watcher)
        if callable(value):
            return lambda *arguments: wrap(value(*map(unwrap, arguments)), self._watcher)
        return value


def watched(backend: Backend, watcher: Watcher) -> Backend:
    """The same backend, with `watcher` before everything that it hands out."""
    return replace(backend, Metal=SeenNamespace(backend.Metal, watcher))


class Recorder(Watcher):
    """Writes every message down."""

    def __init__(self) -> None:
        self.log: list[Message] = []

    def before(self, message: Message) -> None:
        self.log.append(message)

    def take(self) -> list[Message]:
        """The messages since the last time."""
        log, self.log = self.log, []
        return log

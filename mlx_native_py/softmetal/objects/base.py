"""The root class: selectors as methods, `respondsToSelector_`, and descriptors created by alloc/init."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn, Self, TypeVar

from ..values import optional_text

T = TypeVar("T")
Getter = Callable[[Any], T]
Setter = Callable[[Any, Any], None]


class NSObject:
    """The base class of all Metal objects."""

    def respondsToSelector_(self, selector: bytes | str) -> bool:
        """Whether the object has this selector; names of the software's own are never selectors."""
        name = selector.decode() if isinstance(selector, bytes) else selector
        method = name.replace(":", "_")
        if name.startswith(("_", "soft_")) or "_" in name:
            return False
        return callable(getattr(self, method, None))

    def description(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        label = getattr(self, "_label", None)
        return f"<{type(self).__name__}{f' {label!r}' if label else ''}>"


class Descriptor(NSObject):
    """A set of properties."""

    @classmethod
    def alloc(cls) -> Self:
        return cls()

    @classmethod
    def new(cls) -> Self:
        return cls()

    def init(self) -> Self:
        return self

    def copy(self) -> Self:
        return copying.copy(self)


def attribute(name: str, check: Callable[[Any, str], T], default: T) -> tuple[Getter[T], Setter]:
    """The getter and the setter of a property whose value passes `check`."""
    key = f"_{name}"

    def read(self: Any) -> T:
        value: T = self.__dict__.get(key, default)
        return value

    def write(self: Any, value: Any) -> None:
        self.__dict__[key] = check(value, name)

    return read, write


class Labelled(NSObject):
    """An object with a settable label."""

    _label: str | None = None

    def label(self) -> str | None:
        return self._label

    def setLabel_(self, label: str | None) -> None:
        self._label = optional_text(label, "label")


class _Absent:
    """Hides an inherited method, as on an older system."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: object, kind: type) -> NoReturn:
        raise AttributeError(f"this {kind.__name__} does not respond to {self.name}")


@lru_cache
def _reduced(kind: type[Any], absent: frozenset[str]) -> type[Any]:
    gone = sorted(name for name in absent if hasattr(kind, name))
    return type(kind.__name__, (kind,), {name: _Absent() for name in gone}) if gone else kind


def without(kind: type[T], absent: frozenset[str]) -> type[T]:
    """`kind` as a device has it that lacks some selectors."""
    return _reduced(kind, absent)  # type: ignore[arg-type]

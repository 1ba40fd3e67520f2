"""Checked access to untrusted JSON: each value is checked when it is read, and errors name its path."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .errors import MlxError, ModelFileError

__all__ = ["Fields", "parse_table", "read_table"]

T = TypeVar("T")
_MAX_INT = (1 << 31) - 1


def read_table(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        text = path.read_bytes()
    except OSError as reason:
        raise ModelFileError(path, "file", None, f"cannot be read: {reason.strerror or reason}") from reason
    return parse_table(path, text)


def parse_table(path: Path, text: bytes, offset: int | None = None) -> dict[str, Any]:
    """The object in a JSON text; `offset` is its position in the file, if it is not the whole file."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as reason:
        raise ModelFileError(path, "header" if offset else "file", offset, f"not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise ModelFileError(path, "header" if offset else "file", offset, f"{value!r:.60}, expected a table")
    return value


class Fields:
    """A JSON value with its path; in an object, null counts as missing."""

    __slots__ = ("path", "_offset", "_value", "_where")

    def __init__(self, path: Path, value: Any, where: str = "", offset: int | None = None) -> None:
        self.path = path
        self._value = value
        self._where = where
        self._offset = offset

    def fault(self, key: str, message: str) -> ModelFileError:
        """An error about this value or one inside it."""
        return ModelFileError(self.path, self._path_to(key) or "file", self._offset, message)

    def wrong(self, key: str, expected: str) -> ModelFileError:
        """An error about a value of this object: what was given and what was expected."""
        given = f"{self._value[key]!r:.60}" if key in self else "missing"
        return self.fault(key, f"{given}, expected {expected}")

    def _path_to(self, key: str) -> str:
        return f"{self._where}.{key}" if key and self._where else key or self._where

    # Tables

    def is_table(self) -> bool:
        return isinstance(self._value, Mapping)

    def __contains__(self, key: str) -> bool:
        return self.is_table() and self._value.get(key) is not None

    def __bool__(self) -> bool:
        return bool(self._value)

    def get(self, key: str, default: Any = None) -> Any:
        """A value of this object, unchecked."""
        return self._value[key] if key in self else default

    def items(self, key: str = "") -> Iterator[tuple[str, Fields]]:
        """The items of a nested object, or of this one."""
        field = self._field(key)
        for name, value in field.plain((dict,)).items():
            yield name, Fields(self.path, value, field._path_to(name), self._offset)

    def table(self, key: str) -> Fields:
        """A nested object; empty if missing."""
        if not isinstance(self.get(key, {}), Mapping):
            raise self.wrong(key, "a table")
        return Fields(self.path, self.get(key, {}), self._path_to(key), self._offset)

    # Required values

    def plain(self, kinds: tuple[type, ...]) -> Any:
        """The value, if it has one of these types; True is not an int."""
        if type(self._value) not in kinds:
            raise self.fault("", f"{self._value!r:.60}, expected {' or '.join(kind.__name__ for kind in kinds)}")
        return self._value

    def _field(self, key: str) -> Fields:
        if not key:
            return self
        if key not in self:
            raise self.fault(key, "is missing")
        return Fields(self.path, self._value[key], self._path_to(key), self._offset)

    def text(self, key: str) -> str:
        return str(self._field(key).plain((str,)))

    def truth(self, key: str) -> bool:
        return bool(self._field(key).plain((bool,)))

    def number(self, key: str, least: int = 0, below: int = 1 << 63) -> int:
        field = self._field(key)
        value = field.plain((int,))
        if not least <= value < below:
            raise field.fault("", f"{value}, expected a number from {least} to {below - 1}")
        return int(value)

    def numbers(self, key: str) -> tuple[int, ...]:
        return tuple(each.number("") for each in self.list(key))

    def list(self, key: str) -> builtins.list[Fields]:
        field = self._field(key)
        return [field.at(index) for index in range(len(field.plain((builtins.list,))))]

    def at(self, index: int) -> Fields:
        """An item of this list."""
        values = self.plain((builtins.list,))
        if index >= len(values):
            raise self.fault("", f"has {len(values)} items, expected more than {index}")
        return Fields(self.path, values[index], f"{self._where}[{index}]", self._offset)

    # Optional values with a default

    def count(self, key: str, default: int | None = None, *, most: int = _MAX_INT) -> int:
        """An integer of at least 1."""
        value = self.get(key, default)
        if type(value) is not int or not 0 < value <= most:
            raise self.wrong(key, f"a whole number from 1 to {most}")
        return value

    def positive(self, key: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise self.wrong(key, "a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def ids(self, key: str) -> tuple[int, ...]:
        """One token id, or a list of them."""
        value = self.get(key, ())
        tokens = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        if not all(type(each) is int and 0 <= each <= _MAX_INT for each in tokens):
            raise self.wrong(key, "one token or a list of them")
        return tokens

    def checked(self, read: Callable[[], T]) -> T:
        """The result of `read`; its exceptions become errors about this value."""
        try:
            return read()
        except ModelFileError:
            raise
        except (MlxError, ValueError, TypeError, OverflowError) as reason:
            raise self.fault("", str(reason)) from None

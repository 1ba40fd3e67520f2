"""Values of an untrusted JSON text, each checked when it is asked for, and named in the error if it is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..errors import MlxError, ModelFileError

__all__ = ["Fields"]

T = TypeVar("T")
HEADER_AT = 16


class Fields:
    """A value with the path that leads to it."""

    __slots__ = ("_file", "_value", "_where")

    def __init__(self, file: Path, value: Any, where: str) -> None:
        self._file = file
        self._value = value
        self._where = where

    @classmethod
    def parse(cls, file: Path, text: bytes) -> Fields:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as reason:
            raise ModelFileError(file, "header", HEADER_AT, f"no JSON: {reason}") from None
        found = cls(file, value, "")
        if not found.is_table():
            raise found.fault("", "expected a table")
        return found

    def fault(self, key: str, message: str) -> ModelFileError:
        """An error about this value, or about one in it."""
        where = f"{self._where}.{key}" if key and self._where else key or self._where or "header"
        return ModelFileError(self._file, where, HEADER_AT, message)

    def is_table(self) -> bool:
        return isinstance(self._value, dict)

    def __contains__(self, key: str) -> bool:
        return self.is_table() and key in self._value

    def plain(self, kinds: tuple[type, ...]) -> Any:
        """The value itself, of one of these types; True is no int."""
        if type(self._value) not in kinds:
            raise self.fault("", f"{self._value!r:.60}, expected {' or '.join(kind.__name__ for kind in kinds)}")
        return self._value

    def _field(self, key: str) -> Fields:
        if not key:
            return self
        if key not in self:
            raise self.fault(key, "is missing")
        return Fields(self._file, self._value[key], f"{self._where}.{key}" if self._where else key)

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

    def list(self, key: str) -> list[Fields]:
        field = self._field(key)
        values = field.plain((list,))
        return [Fields(self._file, value, f"{field._where}[{index}]") for index, value in enumerate(values)]

    def at(self, index: int) -> Fields:
        """An item of this list."""
        values = self.plain((list,))
        if index >= len(values):
            raise self.fault("", f"has {len(values)} items, expected more than {index}")
        return Fields(self._file, values[index], f"{self._where}[{index}]")

    def table(self, key: str) -> Iterator[tuple[str, Fields]]:
        field = self._field(key)
        for name, value in field.plain((dict,)).items():
            yield name, Fields(self._file, value, f"{field._where}.{name}")

    def checked(self, read: Callable[[], T]) -> T:
        """What `read` gives; its complaint becomes one about this value."""
        try:
            return read()
        except ModelFileError:
            raise
        except (MlxError, ValueError, TypeError, OverflowError) as reason:
            raise self.fault("", str(reason)) from None

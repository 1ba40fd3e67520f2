"""The Foundation classes that Metal returns: errors, data, URLs, arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

from ..values import natural, text
from .base import NSObject

T = TypeVar("T")


class NSError(NSObject):
    """Why a call failed."""

    def __init__(self, domain: str, code: int, message: str, info: Mapping[str, object] | None = None) -> None:
        self._domain = domain
        self._code = code
        self._info = MappingProxyType({"NSLocalizedDescription": message, **(info or {})})

    def domain(self) -> str:
        return self._domain

    def code(self) -> int:
        return self._code

    def localizedDescription(self) -> str:
        return str(self._info["NSLocalizedDescription"])

    def userInfo(self) -> Mapping[str, Any]:
        return self._info

    def __repr__(self) -> str:
        return f'Error Domain={self._domain} Code={self._code} "{self.localizedDescription()}"'


class NSData(bytes):
    """Immutable bytes; `bytes(data)` copies them."""

    def length(self) -> int:
        return len(self)


class NSArray(tuple[T, ...], Generic[T]):
    """An immutable sequence."""

    def count(self) -> int:  # type: ignore[override]
        return len(self)

    def objectAtIndex_(self, index: int) -> T:
        return self[natural(index, "index")]

    def objectAtIndexedSubscript_(self, index: int) -> T:
        return self[natural(index, "index")]


class NSURL(NSObject):
    """A file URL."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def fileURLWithPath_(cls, path: str) -> Self:
        return cls(os.path.abspath(text(path, "path")))

    def path(self) -> str:
        return self._path

    def absoluteString(self) -> str:
        return f"file://{quote(self._path)}"

    def isFileURL(self) -> bool:
        return True

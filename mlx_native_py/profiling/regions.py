"""Named regions: dispatches encoded inside one are attributed to it in profiles."""

from __future__ import annotations

from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from typing import Self

from ..errors import InvalidArgument
from . import observer

__all__ = ["Path", "current_region", "region"]

Path = tuple[str, ...]
"""The names of nested regions, outermost first."""

_path: ContextVar[Path] = ContextVar("mlx_native_py_region", default=())


class region(ContextDecorator):
    """Names the dispatches encoded or captured in a block or a decorated function; regions nest.

    A captured dispatch keeps its regions, so replays of its plan are attributed to them too.

    >>> with region("layer 3"):
    ...     with region("attention"):
    ...         current_region()
    ('layer 3', 'attention')
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"a region's name is a non-empty str, not {name!r}")
        self.name = name
        self._token: Token[Path] | None = None

    def _recreate_cm(self) -> Self:
        """A new instance for each call of a decorated function, since calls may nest."""
        return type(self)(self.name)

    def __enter__(self) -> Self:
        self._token = _path.set((*_path.get(), self.name))
        observer.enter_region(_path.get())
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _path.reset(self._token)
            self._token = None
            observer.enter_region(_path.get())


def current_region() -> Path:
    """The path of open regions."""
    return _path.get()

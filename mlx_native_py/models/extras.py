"""Optional dependencies of models, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import MlxError

__all__ = ["MissingExtra", "extra"]


class MissingExtra(MlxError, ImportError):
    """A package that only models need is not installed.

    >>> issubclass(MissingExtra, ImportError)
    True
    """


def extra(name: str) -> Any:
    """A package of the `models` extra.

    >>> extra("json").dumps([1])
    '[1]'
    >>> extra("no_such_package")
    Traceback (most recent call last):
    mlx_native_py.models.extras.MissingExtra: no_such_package is not installed: pip install 'mlx-native-py[models]'
    """
    try:
        return importlib.import_module(name)
    except ImportError as reason:
        raise MissingExtra(f"{name} is not installed: pip install 'mlx-native-py[models]'") from reason

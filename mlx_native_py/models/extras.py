"""Optional dependencies of models, imported on demand."""

from __future__ import annotations

import importlib
from typing import Any

from ..errors import MlxError

__all__ = ["MissingExtra", "extra"]


class MissingExtra(MlxError, ImportError):
    """A package of the `models` extra is not installed."""


def extra(name: str) -> Any:
    """Imports a package of the `models` extra."""
    try:
        return importlib.import_module(name)
    except ImportError as reason:
        raise MissingExtra(f"{name} is not installed: pip install 'mlx-native-py[models]'") from reason

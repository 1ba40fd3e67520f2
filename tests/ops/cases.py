"""Every case of the conformance table, with the modules of its rows loaded."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from .table import CASES

__all__ = ["CASES"]

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    if _module.name.startswith("rows_"):
        importlib.import_module(f"ops.{_module.name}")

"""One case of the conformance table per op, compared with numpy."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ...device import MlxDevice
from ..finding import Finding, Progress, tried

__all__ = ["TABLE", "chosen_cases", "op_findings"]

TABLE = Path(__file__).parents[3] / "tests"
"""The folder of the conformance table in a checkout; it is not in the wheel."""

_CHOSEN = {"sdpa": "sdpa_dims-f32-64-35"}
"""For ops whose last case takes a compiler long."""


def op_findings(device: MlxDevice, table: Path, progress: Progress) -> Iterator[Finding]:
    """Runs the cases, one after the other."""
    folder = table / "ops"
    if not (folder / "table.py").is_file():
        yield Finding("ops", None, f"{folder} is not here", "run this in a checkout of the source")
        return
    sys.path.insert(0, os.fspath(table.resolve()))
    try:
        cases, bench = chosen_cases(folder)
    except ImportError as missing:
        yield Finding("ops", False, str(missing), "pip install '.[test]'")
        return
    finally:
        sys.path.pop(0)
    for number, (op, case) in enumerate(cases.items(), 1):
        progress(f"op {op}, {number} of {len(cases)}")
        yield tried(f"op {op}", partial(_run, device, case, bench))


def chosen_cases(folder: Path) -> tuple[dict[str, Any], Any]:
    """An ordinary case per op (the last of its first row, as a rule), and the class that runs cases."""
    for path in sorted(folder.glob("rows_*.py")):
        importlib.import_module(f"ops.{path.stem}")
    chosen: dict[str, Any] = {}
    for case in importlib.import_module("ops.table").CASES:
        usual = not case.long and chosen.get(case.op, case).check is case.check
        if usual and case.id == _CHOSEN.get(case.op, case.id):
            chosen[case.op] = case
    return chosen, importlib.import_module("ops.bench").Bench


def _run(device: MlxDevice, case: Any, bench: Any) -> tuple[str, Any]:
    case.run(bench(device, case.number))
    return f"right ({case.id})", case.id

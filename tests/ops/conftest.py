"""The count of the conformance table: what ran, what passed, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ops.table import COUNT


def is_case(nodeid: str) -> bool:
    return "ops/test_conformance.py::test_case[" in nodeid


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    COUNT["skipped"] += sum(is_case(item.nodeid) for item in items)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not is_case(report.nodeid) or (report.when != "call" and report.passed):
        return
    COUNT["skipped" if report.skipped else "run"] += 1
    COUNT["passed"] += report.passed


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if any(COUNT.values()):
        told = ", ".join([f"{COUNT['run']} cases run", f"{COUNT['passed']} passed", f"{COUNT['skipped']} skipped"])
        terminalreporter.write_line(f"op conformance: {told}")

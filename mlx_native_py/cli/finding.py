"""Findings of `mlx-native doctor`: what was checked, and how it turned out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..errors import MlxError
from ..settings import current

__all__ = ["FAILURES", "Finding", "Progress", "changed_settings", "fault", "tried"]

FAILURES = (MlxError, ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError)
"""What a check may raise where something is wrong with the device or the installation."""

Progress = Callable[[str], None]
"""Is told what is under way."""


@dataclass(frozen=True)
class Finding:
    """The result of one check; `advice` is empty if nothing needs to be done."""

    subject: str
    good: bool | None
    """None if it could not be checked."""
    detail: str
    advice: str = ""
    facts: Any = None
    """Details for a report."""

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "FAULT", None: "not looked at"}[self.good]


def changed_settings() -> str:
    """The settings that differ from their defaults."""
    now = current()
    changed = [f"{f.name}={getattr(now, f.name)}" for f in fields(now) if getattr(now, f.name) != f.default]
    return ", ".join(changed) or "all at their defaults"


def tried(subject: str, look: Callable[[], tuple[str, Any]]) -> Finding:
    """What a check finds, which answers with a short result and details; or how it failed."""
    begin = time.perf_counter()
    try:
        detail, facts = look()
    except FAILURES as error:
        return fault(subject, error)
    return Finding(subject, True, detail, facts={"seconds": time.perf_counter() - begin, "found": facts})


def fault(subject: str, error: BaseException, more: str = "", facts: Mapping[str, Any] | None = None) -> Finding:
    """A failed check; its first line is the detail."""
    text = f"{type(error).__name__}: {error}"
    told = {**(facts or {}), "error": text}
    return Finding(subject, False, text.partition("\n")[0] + more, "attach the report to a bug report", told)

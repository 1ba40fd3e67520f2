"""Findings of `mlx-native doctor`: what was checked, and how it turned out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..settings import current

__all__ = ["Finding", "changed_settings"]


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

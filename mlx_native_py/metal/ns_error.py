"""The reason that an NSError gives."""

from __future__ import annotations

from typing import Any

__all__ = ["reason"]


def reason(error: Any) -> str:
    """The description of an NSError; Metal may report a failure without one."""
    return "no reason given" if error is None else str(error.localizedDescription())

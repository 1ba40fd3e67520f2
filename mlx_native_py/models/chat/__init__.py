"""Chat templates: convert chat messages to a prompt."""

from __future__ import annotations

from .template import ChatTemplate

__all__ = ["ChatTemplate"]

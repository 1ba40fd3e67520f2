"""Chat templates: the messages of a chat as one text, by the Jinja program that comes with a model."""

from __future__ import annotations

from .template import ChatTemplate

__all__ = ["ChatTemplate"]

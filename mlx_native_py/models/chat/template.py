"""Chat templates: render messages to a prompt with the model's Jinja template, which is untrusted.

A template is code from a model file. It runs in Jinja's immutable sandbox, which has no access to the machine, with a
budget (`sandbox`) that limits time and memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import InvalidArgument
from ..extras import extra
from .budget import BudgetExceeded, TemplateLimits, running
from .sandbox import compiled, words_of

__all__ = ["ChatTemplate"]


class ChatTemplate:
    """A compiled chat template.

    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
    >>> template.render([{"role": "user", "content": "Hi"}])
    '<user>Hi'
    >>> ChatTemplate("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}").render([])
    Traceback (most recent call last):
    mlx_native_py.errors.InvalidArgument: the chat template takes too many steps
    """

    def __init__(self, source: str, *, limits: TemplateLimits | None = None) -> None:
        self.source = source
        self.limits = limits or TemplateLimits()
        if len(source) > self.limits.source:
            raise InvalidArgument(f"the chat template has {len(source)} characters, more than {self.limits.source}")
        if (words := words_of(source)) > self.limits.words:
            raise InvalidArgument(f"the chat template has {words} words in its tags, more than {self.limits.words}")
        try:
            self._template = compiled(source, self.limits.weight)
        except BudgetExceeded as reason:
            raise InvalidArgument(f"the chat template {reason}") from None
        except extra("jinja2").TemplateSyntaxError as reason:
            raise InvalidArgument(f"the chat template does not compile: line {reason.lineno}: {reason}") from None
        # Python's compiler limits nesting depth.
        except (RecursionError, MemoryError, SyntaxError, extra("jinja2").TemplateError) as reason:
            raise InvalidArgument(f"the chat template does not compile: {reason}") from None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **values: Any,
    ) -> str:
        """The prompt; `values` are further variables of the template, such as `bos_token`."""
        known = {**values, "messages": messages, "tools": tools, "documents": documents}
        known["add_generation_prompt"] = add_generation_prompt
        parts: list[str] = []
        try:
            with running(self.limits, known) as budget:
                for part in self._template.generate(known):
                    budget.spend(1 + len(part) // budget.limits.characters)
                    parts.append(part)
        except BudgetExceeded as reason:
            raise InvalidArgument(f"the chat template {reason}") from None
        except InvalidArgument:
            raise
        # A template can fail in any way that Python code can.
        except Exception as reason:
            raise InvalidArgument(f"the chat template refuses these messages: {reason}") from reason
        return "".join(parts)

"""Maps an instruction of a compiled kernel to its source line."""

from __future__ import annotations

from collections.abc import Callable

from ..program import Diagnostic
from .arrays import Locate

LineOf = Callable[[int], tuple[int, int] | None]
"""The line and column that the compiler saw of the instruction before an offset in the kernel's image."""


class Sites:
    """Looks up source lines for reports; needs a line table."""

    def __init__(self, locate: Locate | None = None, line_of: LineOf | None = None) -> None:
        self.locate = locate
        self._line_of = line_of

    def source(self, site: int) -> Diagnostic | None:
        """The place of the call that returns to a site; None where it is not known."""
        if not site or self.locate is None or self._line_of is None:
            return None
        seen = self._line_of(site)
        return self.locate(*seen) if seen else None

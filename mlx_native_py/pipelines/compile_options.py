"""How an MSL source is compiled: a value, and the Metal object made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from ..errors import InvalidArgument
from ..metal import Backend, Capabilities

__all__ = ["CompileOptions"]

MathMode = Literal["safe", "relaxed", "fast"]


@dataclass(frozen=True)
class CompileOptions:
    """Macros, math mode and language version of a source; what is None is left to Metal.

    >>> CompileOptions(macros={"N": 4}, math="safe").macros
    {'N': '4'}
    """

    macros: Mapping[str, str | int | float] = field(default_factory=dict)
    math: MathMode | None = None
    language: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.math is not None and self.math not in get_args(MathMode):
            raise InvalidArgument(f"math is {self.math!r}, expected one of {', '.join(get_args(MathMode))}")
        bad = [name for name in self.macros if not (isinstance(name, str) and name.isidentifier())]
        if bad:
            raise InvalidArgument(f"{bad[0]!r} cannot be the name of a macro")
        object.__setattr__(self, "macros", {name: str(value) for name, value in sorted(self.macros.items())})

    def text(self) -> str:
        """A spelling that is equal for equal options."""
        return repr((tuple(self.macros.items()), self.math, self.language))

    def mtl(self, backend: Backend, capabilities: Capabilities) -> Any:
        """The MTLCompileOptions, or None where all is left to Metal."""
        if not self.macros and self.math is None and self.language is None:
            return None
        metal = backend.Metal
        options = metal.MTLCompileOptions.alloc().init()
        if self.macros:
            options.setPreprocessorMacros_(dict(self.macros))
        if self.math is not None and capabilities.math_mode:
            modes = {"safe": metal.MTLMathModeSafe, "relaxed": metal.MTLMathModeRelaxed, "fast": metal.MTLMathModeFast}
            options.setMathMode_(modes[self.math])
        elif self.math is not None:
            # Systems without math modes know two: exact, and everything else.
            options.setFastMathEnabled_(self.math != "safe")
        if self.language is not None:
            options.setLanguageVersion_(self._version(metal))
        return options

    def _version(self, metal: Any) -> int:
        major, minor = self.language or (0, 0)
        version = getattr(metal, f"MTLLanguageVersion{major}_{minor}", None)
        if version is None:
            raise InvalidArgument(f"this system's Metal knows no language version {major}.{minor}")
        return int(version)

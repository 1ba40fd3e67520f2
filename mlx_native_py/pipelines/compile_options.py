"""Compile options of an MSL source, as a value and as MTLCompileOptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from ..errors import InvalidArgument
from ..metal import Backend, Capabilities

__all__ = ["CompileOptions"]

MathMode = Literal["safe", "relaxed", "fast"]
_NEWEST = (3, 2)
"""The newest language version used by default."""


@dataclass(frozen=True)
class CompileOptions:
    """Macros, math mode, language version and logging of a source.

    The default math mode is Metal's, "fast". The default language version is the newest that the system's compiler
    knows up to 3.2, independent of the Python executable. Apple's compiler drops `os_log` unless `logging` is set; the
    software device never does.
    """

    macros: Mapping[str, str | int | float] = field(default_factory=dict)
    math: MathMode | None = None
    language: tuple[int, int] | None = None
    logging: bool = False

    def __post_init__(self) -> None:
        if self.math is not None and self.math not in get_args(MathMode):
            raise InvalidArgument(f"math is {self.math!r}, expected one of {', '.join(get_args(MathMode))}")
        bad = [name for name in self.macros if not (isinstance(name, str) and name.isidentifier())]
        if bad:
            raise InvalidArgument(f"{bad[0]!r} cannot be the name of a macro")
        object.__setattr__(self, "macros", {name: str(value) for name, value in sorted(self.macros.items())})

    def on(self, able: Capabilities) -> CompileOptions:
        """The same options with the language version resolved for this system."""
        if self.language is None:
            return replace(self, language=min(able.language_version, _NEWEST))
        if self.language > able.language_version:
            asked, newest = (".".join(map(str, version)) for version in (self.language, able.language_version))
            raise InvalidArgument(f"language is {asked}, but this system's Metal supports versions up to {newest}")
        return self

    def text(self) -> str:
        """A canonical text, equal for equal options."""
        return repr((tuple(self.macros.items()), self.math, self.language, self.logging))

    def mtl(self, backend: Backend, able: Capabilities) -> Any:
        """The MTLCompileOptions."""
        metal = backend.Metal
        options = metal.MTLCompileOptions.alloc().init()
        if self.macros:
            options.setPreprocessorMacros_(dict(self.macros))
        if self.math is not None and able.math_mode:
            modes = {"safe": metal.MTLMathModeSafe, "relaxed": metal.MTLMathModeRelaxed, "fast": metal.MTLMathModeFast}
            options.setMathMode_(modes[self.math])
            if self.math == "safe" and options.respondsToSelector_(b"setMathFloatingPointFunctions:"):
                # The math mode covers arithmetic only; without this, exp, log etc. stay the fast variants.
                options.setMathFloatingPointFunctions_(metal.MTLMathFloatingPointFunctionsPrecise)
        elif self.math is not None:
            # Systems without math modes have two settings, and only the exact one keeps infinities and NaNs.
            options.setFastMathEnabled_(self.math == "fast")
        if self.logging and options.respondsToSelector_(b"setEnableLogging:"):
            options.setEnableLogging_(True)
        options.setLanguageVersion_(_version(metal, self.on(able).language))
        return options


def _version(metal: Any, language: tuple[int, int] | None) -> int:
    major, minor = language or _NEWEST
    version = getattr(metal, f"MTLLanguageVersion{major}_{minor}", None)
    if version is None:
        raise InvalidArgument(f"Metal has no language version {major}.{minor}")
    return int(version)

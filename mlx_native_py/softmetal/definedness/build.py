"""Compiles a kernel so that uses of undefined values are detected; most kernels need no instrumentation after
optimisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ..cache import digest
from ..msl.padding import with_zeros
from ..toolchain import ALL_VARIABLES, THREAD_CALLBACKS, Toolchain
from .bounds import check_bounds
from .constants import CASTS, watch_constants
from .inlining import inline_all
from .lifetimes import end_lifetimes
from .members import is_marked, mark_members, without_marks
from .received import without_markers
from .recursion import watch_recursion
from .rewrite import with_shadows
from .sources import UNDEFINED, Sources

_HERE = Path(__file__).parent
_READER = _HERE.parent / "engines" / "lanes" / "ir"


@cache
def identity() -> str:
    """Changes with what is compiled into kernels here."""
    return digest(*(path.read_bytes() for folder in (_HERE, _READER) for path in sorted(folder.glob("*.py"))))


def compile_defined(toolchain: Toolchain, source: Path, output: Path, options: Sequence[str]) -> str:
    """Makes the object file; answers what the compiler said."""
    plain, optimised = source.with_suffix(".plain.ll"), source.with_suffix(".ll")
    said = toolchain.run(toolchain.to_plain_ir(source, plain, [*options, *ALL_VARIABLES, CASTS])).stderr
    text = watch_constants(watch_recursion(with_zeros(plain.read_text())), source.read_text(), said)
    text = check_bounds(mark_members(inline_all(end_lifetimes(text))))
    # The callbacks for races come last, when marks and shadows are there and are left out.
    early = [each for each in options if each != THREAD_CALLBACKS]
    sources = Sources(text)
    if is_marked(text):
        plain.write_text(sources.text)
        toolchain.run(toolchain.to_ir(plain, optimised, early))
        sources.text = without_marks(optimised.read_text())
    plain.write_text(without_markers(sources.text))
    remarks = toolchain.run(toolchain.compile(plain, output, options)).stderr
    if UNDEFINED.encode() in output.read_bytes():
        plain.write_text(sources.text)
        toolchain.run(toolchain.to_ir(plain, optimised, early))
        optimised.write_text(with_shadows(optimised.read_text(), sources.variables))
        remarks = toolchain.run(toolchain.compile(optimised, output, options)).stderr
    return said + remarks

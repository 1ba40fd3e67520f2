"""The shipped `.metal` files: their folder, in a wheel or a checkout, and their text."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from ..errors import BackendError

__all__ = ["kernel_directory", "kernel_families", "kernel_source"]

_INCLUDE = re.compile(r'^#include "([\w/]+\.h)"\n', re.MULTILINE)


def kernel_directory() -> Path:
    """The folder of the shipped kernels: inside the wheel, or next to the package in a checkout."""
    package = Path(__file__).parents[1]
    for candidate in (package / "kernels", package.parent / "kernels"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the kernels are missing from this installation of {package.name}; install it again")


@cache
def kernel_families() -> tuple[str, ...]:
    """The names of the shipped kernel files."""
    return tuple(sorted(path.stem for path in kernel_directory().glob("*.metal")))


def kernel_source(family: str) -> str:
    """The MSL text of `kernels/<family>.metal` with the headers of `kernels/shared` inlined.

    Metal compiles a text, which has no folder to find headers in.
    """
    path = kernel_directory() / f"{family}.metal"
    if not path.is_file():
        raise FileNotFoundError(f"there is no kernel family {family!r}; there are: {', '.join(kernel_families())}")
    return _with_headers(_text(path), set())


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as reason:
        raise BackendError(f"the kernels in {path} cannot be read: {reason.strerror or reason}") from reason


def _with_headers(text: str, seen: set[str]) -> str:
    """Inlines each header once, where it is first included."""

    def put(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return ""
        seen.add(name)
        return _with_headers(_text(kernel_directory() / name), seen)

    return _INCLUDE.sub(put, text)

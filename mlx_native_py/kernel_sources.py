"""Where the shipped `.metal` files are, in an installed wheel and in a checkout."""

from __future__ import annotations

from pathlib import Path

__all__ = ["kernel_directory", "kernel_source"]


def kernel_directory() -> Path:
    """The folder of the shipped kernels: inside the wheel, or beside the package in a checkout."""
    package = Path(__file__).parent
    for candidate in (package / "kernels", package.parent / "kernels"):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the kernels are missing from this installation of {package.name}; install it again")


def kernel_source(family: str) -> str:
    """The MSL text of `kernels/<family>.metal`."""
    path = kernel_directory() / f"{family}.metal"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in kernel_directory().glob("*.metal")))
        raise FileNotFoundError(f"there is no kernel family {family!r}; there are: {known}")
    return path.read_text()

"""Include files that a source may read: those in its include folders, and Metal's own headers."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from ..toolchain import INCLUDE

HEADERS = INCLUDE / "msl"


def absolute(folders: Iterable[Path]) -> tuple[Path, ...]:
    """The folders by their full names, without `..`."""
    return tuple(Path(os.path.abspath(folder)) for folder in folders)


def is_inside(file: str, folders: Iterable[Path]) -> bool:
    """Whether a name, taken literally, leads into one of the folders."""
    path = Path(os.path.abspath(file))
    return any(path.is_relative_to(folder) for folder in folders)


def is_plain_file(path: Path) -> bool:
    """Whether reading it comes to an end: no device, no pipe."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def visible_files(folders: Iterable[Path]) -> Iterator[list[str]]:
    """Flags with which the preprocessor sees these folders and Metal's headers, and no other file of the machine."""
    roots = [
        {"type": "directory-remap", "name": str(folder), "external-contents": str(folder)}
        for folder in dict.fromkeys((*folders, HEADERS))
    ]
    overlay = {"version": 0, "redirecting-with": "redirect-only", "case-sensitive": True, "roots": roots}
    with NamedTemporaryFile("w", prefix="mlx-native-", suffix=".json") as file:
        json.dump(overlay, file)
        file.flush()
        yield ["-ivfsoverlay", file.name]

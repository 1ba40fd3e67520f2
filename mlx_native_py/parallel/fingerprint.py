"""Whether all ranks have the same model: by the file itself where they share it, else by a digest of its bytes."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import settings
from ..distributed import Group
from ..weights import TensorFile

__all__ = ["digest", "require_same_model"]

_PIECE = 1 << 24  # bytes hashed at a time


def require_same_model(group: Group, file: TensorFile) -> None:
    """Raises unless all ranks opened the same file, or files with the same bytes.

    Ranks of one machine that opened the same file need not read it. Others read all of theirs once; the digest is kept
    in the cache folder for as long as size, time and inode of the file stay as they are.
    """
    paths = sorted({tensor.file.path for tensor in file.values()})
    here = [(socket.gethostname(), *_identity(path)) for path in paths]
    if any(each != here for each in group.gather_objects(here)):
        group.agree("the digest of the model's weights", " ".join(digest(path) for path in paths))


def digest(path: Path) -> str:
    """Of all bytes of a file; from memory where the file has not changed since."""
    folder = (settings.current().cache_home or Path.home() / ".cache") / "mlx_native_py" / "model-digests"
    known = folder / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    identity = list(_identity(path))
    found = _read(known)
    if found.get("identity") == identity:
        return str(found["digest"])
    made = _hashed(path)
    with suppress(OSError):  # a home that cannot be written to costs time, and nothing else
        folder.mkdir(parents=True, exist_ok=True)
        fresh = known.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"identity": identity, "digest": made}))
        fresh.replace(known)
    return made


def _identity(path: Path) -> tuple[int, ...]:
    told = path.stat()
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns


def _hashed(path: Path) -> str:
    made = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            made.update(piece)
    return made.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "digest" in found else {}

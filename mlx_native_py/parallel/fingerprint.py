"""Checks that all ranks have the same model, by file identity or by a digest of its bytes."""

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

    Ranks on one machine compare file identities. Others hash their file once; the digest is cached while size, times
    and inode of the file are unchanged.
    """
    paths = sorted({tensor.file.path for tensor in file.values()})
    here = [(socket.gethostname(), *_identity(path)) for path in paths]
    if any(each != here for each in group.gather_objects(here)):
        group.agree("the digest of the model's weights", " ".join(digest(path) for path in paths))


def digest(path: Path) -> str:
    """The digest of a file; cached while the file is unchanged."""
    folder = (settings.current().cache_home or Path.home() / ".cache") / "mlx_native_py" / "model-digests"
    known = folder / hashlib.sha256(os.fsencode(path.resolve())).hexdigest()
    identity = list(_identity(path))
    kept = _read(known)
    if kept.get("identity") == identity:
        return str(kept["digest"])
    hashed = _hashed(path)
    with suppress(OSError):  # a home that cannot be written to costs time, and nothing else
        folder.mkdir(parents=True, exist_ok=True)
        fresh = known.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps({"identity": identity, "digest": hashed}))
        fresh.replace(known)
    return hashed


def _identity(path: Path) -> tuple[int, ...]:
    told = path.stat()
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns, told.st_ctime_ns


def _hashed(path: Path) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            hasher.update(piece)
    return hasher.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return parsed if isinstance(parsed, dict) and "digest" in parsed else {}

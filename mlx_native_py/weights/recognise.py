"""File type detection by content."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_gguf", "is_safetensors", "what_it_is"]

_KINDS = (
    (b"PK\x03\x04", "a zip archive, such as PyTorch's .pt and .bin files are; convert it to safetensors"),
    (b"\x80\x02", "a Python pickle; convert it to safetensors"),
    (b"\x1f\x8b", "compressed by gzip; unpack it"),
    (b"ggjt", "a GGML file from before GGUF; convert it to GGUF"),
    (b"lmgg", "a GGML file from before GGUF; convert it to GGUF"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself; fetch it by `git lfs pull`"),
    (b"<!doctype", "a web page, so that the download went wrong"),
    (b"<html", "a web page, so that the download went wrong"),
    (b"{", "JSON"),
)


def _first(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def is_gguf(path: Path) -> bool:
    """Whether a file is GGUF."""
    return _first(path).startswith(b"GGUF")


def is_safetensors(path: Path) -> bool:
    """Whether a file starts like safetensors: the length of a JSON header, then the header."""
    start = _first(path)
    return start[8:9] == b"{" and 0 < int.from_bytes(start[:8], "little") <= path.stat().st_size


def what_it_is(path: Path) -> str:
    """A description of the file type, for messages.

    >>> (folder / "model.gguf").write_bytes(b"PK\\x03\\x04...")
    7
    >>> what_it_is(folder / "model.gguf")
    "a zip archive, such as PyTorch's .pt and .bin files are; convert it to safetensors"
    """
    if is_gguf(path):
        return "GGUF"
    if is_safetensors(path):
        return "safetensors"
    start = _first(path)
    plain = start.lstrip().lower()
    recognised = next((kind for begin, kind in _KINDS if start.startswith(begin) or plain.startswith(begin)), None)
    return recognised or ("empty" if not start else f"nothing known: it begins with {start[:4]!r}")

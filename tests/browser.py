"""Chromium without a window, for tests that look at pages; Debian's chromium and PyPI's playwright serve."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def absence() -> str:
    """Why there is no browser; empty where there is one."""
    if find_spec("playwright") is None:
        return "playwright is not installed"
    return "" if _executable() else "chromium is not installed"


def absence_of_speedscope() -> str:
    return "" if shutil.which("speedscope") else "speedscope is not installed (npm install -g speedscope)"


def speedscope_page() -> Path:
    """Of the package that the command belongs to."""
    command = Path(str(shutil.which("speedscope"))).resolve()
    return command.parent.parent / "dist" / "release" / "index.html"


def _executable() -> str | None:
    """The system's, or the one that `playwright install chromium` has fetched."""
    fetched = sorted((Path.home() / ".cache" / "ms-playwright").glob("chromium-*/chrome-linux*/chrome"))
    return next(filter(None, (*map(shutil.which, NAMES), *map(str, fetched))), None)


@contextmanager
def opened(url: str, **options: Any) -> Iterator[tuple[Any, list[str]]]:
    """A page, and what went wrong on it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--allow-file-access-from-files"]
        chromium = playwright.chromium.launch(executable_path=_executable(), args=arguments)
        try:
            page = chromium.new_page(viewport={"width": 1280, "height": 800}, **options)
            faults: list[str] = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
            page.goto(url)
            yield page, faults
        finally:
            chromium.close()

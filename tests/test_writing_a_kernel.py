"""The code that docs/writing-a-kernel.md quotes is the code that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
QUOTES = re.findall(
    r"^From `([\w/.]+)`:\n\n```\w+\n(.*?)^```",
    (ROOT / "docs" / "writing-a-kernel.md").read_text(),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize(("path", "quote"), QUOTES, ids=[path for path, _ in QUOTES])
def test_quotes_are_true(path: str, quote: str) -> None:
    assert quote in (ROOT / path).read_text()


def test_kernel_function_and_row_are_quoted() -> None:
    assert [path.split("/")[0] for path, _ in QUOTES] == ["kernels", "mlx_native_py", "tests"]

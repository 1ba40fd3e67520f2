"""The cell magic, in a real IPython."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from mlx_native_py import ShaderCompilationError

pytestmark = pytest.mark.soft
TWICE = "kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }\n"


@pytest.fixture
def shell() -> Iterator[Any]:
    interactive: Any = InteractiveShell.instance()
    interactive.run_line_magic("load_ext", "mlx_native_py.notebook")
    yield interactive
    InteractiveShell.clear_instance()


def test_a_cell_of_msl_is_a_library(shell: Any) -> None:
    assert shell.run_cell(f"%%msl\n{TWICE}").success
    assert shell.run_cell(f"%%msl other\n{TWICE}").success
    result = shell.run_cell(
        "import numpy as np\nx = np.ones(3, np.float32)\nlib.twice(x); other.twice(x)\nx.tolist()", store_history=False
    )
    assert result.result == [4, 4, 4]


def test_mistakes_are_raised(shell: Any) -> None:
    with pytest.raises(ShaderCompilationError, match="no kernel in this source"):
        shell.run_cell_magic("msl", "", "float f(float x) { return x; }")
    with pytest.raises(ValueError, match="takes one name"):
        shell.run_cell_magic("msl", "a b", TWICE)

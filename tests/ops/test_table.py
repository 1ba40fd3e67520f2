"""The table of ops: the page is what the code says, and so are MLX's names in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlx_native_py import fn, ops
from mlx_native_py.cli import main as cli
from mlx_native_py.report import ops_table

PAGE = Path(__file__).parents[2] / "docs" / "ops.md"


@pytest.fixture
def mlx() -> None:
    pytest.importorskip("mlx.core", reason="MLX is not installed, so the page cannot be made")


def test_the_page_is_what_the_code_says(mlx: None) -> None:
    assert PAGE.read_text() == ops_table.markdown(), "mlx-native ops --markdown > docs/ops.md"


def test_every_op_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 + len(ops.table())
    assert [line.split()[1] for line in printed[1:]] == [row[1] for row in ops_table.rows()]


def test_the_page_can_be_printed(mlx: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["ops", "--markdown"]) == 0
    assert capsys.readouterr().out == ops_table.markdown()


@pytest.mark.parametrize("op", ops.table().values(), ids=lambda op: op.name)
def test_every_op_is_described(op: ops.Op) -> None:
    assert op.formula and op.types and op.summary.endswith(".")


@pytest.mark.parametrize(
    ("op", "function"), [("add", "add"), ("mul", "multiply"), ("sdpa", "scaled_dot_product_attention")]
)
def test_functions_are_found(op: str, function: str) -> None:
    assert ops.table()[op].functions == (function,)


def test_every_function_belongs_to_an_op() -> None:
    functions = {name for name, value in vars(fn).items() if callable(value) and not name.startswith("_")}
    assert {name for op in ops.table().values() for name in op.functions} == functions - {"no_such_name"}


def test_names_are_those_of_mlx(mlx: None) -> None:
    names = {
        name: ops_table.mlx_name(name) for name in ("multiply", "rope", "gelu", "softmax", "silu_mul", "embedding")
    }
    assert names == {
        "multiply": "mx.multiply",
        "rope": "mx.fast.rope",
        "gelu": "nn.gelu",
        "softmax": "mx.softmax",
        "silu_mul": "",
        "embedding": "",
    }

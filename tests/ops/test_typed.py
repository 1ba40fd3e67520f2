"""What editors and type checkers see of `ops` and `fn`: names, signatures, types; and hints for misspelt names."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mlx_native_py import fn, ops
from mlx_native_py.fn import derived
from mlx_native_py.report.fn_stub import stub

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """\
import numpy as np
from mlx_native_py import MlxBuffer, MlxDevice, fn, ops

device = MlxDevice()
x = device.buffer(np.ones((2, 64), np.float32))
with device.command_encoder() as enc:
    y: MlxBuffer = ops.rms_norm(enc, x, eps=1e-6)
    product: MlxBuffer = ops.matmul(enc, y, x, transpose_b=True)
    indices, values = ops.argmax(enc, product)
z: MlxBuffer = fn.rms_norm(np.ones((2, 4)), None, 1e-6)
total: MlxBuffer = fn.sum(fn.matmul(z, [[1.0]] * 4), axis=0)
rows: MlxBuffer = fn.embedding([1, 0], np.eye(2, dtype=np.float32))
packed: tuple[MlxBuffer, ...] = fn.quantize(x, bits=4)
half: MlxBuffer = fn.ggml_dequantize(np.zeros((1, 34), np.uint8), "Q8_0", "f16")
"""
WRONG = {
    "ops.rms_nrom(enc, x)": "attr-defined",
    "fn.rmsnorm(x)": "attr-defined",
    "ops.rms_norm(enc, x, epsilon=1.0)": "call-arg",
    "ops.rms_norm(enc, [1.0])": "arg-type",
    "fn.silu()": "call-arg",
    "fn.rms_norm(x, eps='small')": "arg-type",
    "number: int = fn.silu(x)": "assignment",
}


def test_a_users_script_passes_the_type_checker(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "\n".join(WRONG) + "\n")
    # Silent about the package itself, as mypy is about what lies in site-packages.
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={ROOT / '.mypy_cache'}"]
    paths = {"MYPYPATH": str(ROOT), "PYTHONPATH": ""}
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "script.py"],
        cwd=tmp_path,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
    )
    first = SCRIPT.count("\n") + 1
    expected = [f"script.py:{line}: error" for line in range(first, first + len(WRONG))]
    complaints = [line for line in ran.stdout.splitlines() if ": error:" in line]
    assert [line.partition(": error")[0] + ": error" for line in complaints] == expected, ran.stdout + ran.stderr
    assert [line.rpartition("[")[2].rstrip("]") for line in complaints] == list(WRONG.values())


def test_the_stub_is_what_the_code_says() -> None:
    written = (ROOT / "mlx_native_py" / "fn" / "derived.pyi").read_text()
    assert written == stub(), "mlx-native ops --stub > mlx_native_py/fn/derived.pyi"


@pytest.mark.parametrize("name", sorted(ops.table()))
def test_ops_are_the_functions_of_their_families(name: str) -> None:
    op = ops.table()[name]
    module = importlib.import_module(f"mlx_native_py.ops.families.{op.family}")
    assert isinstance(module, ModuleType)
    assert getattr(ops, name) is getattr(module, name) is op.function


def test_families_are_modules() -> None:
    import mlx_native_py.ops.families.matmul as family

    assert isinstance(family, ModuleType) and family.matmul is ops.matmul


def test_derived_functions_show_the_signature_of_their_op() -> None:
    shown = str(inspect.signature(fn.rms_norm)).replace("'", "")
    parameters = "x: Array, weight: Array | None = None, eps: float = 1e-05, *, stream: MlxDevice | None = None"
    assert shown == f"({parameters}) -> MlxBuffer"
    assert fn.rms_norm.__name__ == "rms_norm" and (fn.rms_norm.__doc__ or "").startswith("Divides each row by its root")


@pytest.mark.parametrize("name", derived.__all__)
def test_derived_functions_take_what_their_op_takes(name: str) -> None:
    op = ops.table()[name]
    taken = set(inspect.signature(op.function).parameters) - {"enc", "out"}
    assert set(inspect.signature(getattr(fn, name)).parameters) - {"stream"} <= taken


def test_missing_arguments_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"silu_mul\(\) missing a required argument: 'up'"):
        fn.silu_mul([1.0])  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("module", "name", "answer"),
    [
        (ops, "rmsnorm", "there is no op 'rmsnorm'; did you mean rms_norm"),
        (fn, "soft_max", "there is no function 'soft_max'; did you mean softmax"),
        (ops, "xyzzy", "there is no op 'xyzzy'$"),
    ],
)
def test_misspelt_names_are_answered_with_close_ones(module: ModuleType, name: str, answer: str) -> None:
    with pytest.raises(AttributeError, match=answer) as refused:
        getattr(module, name)
    assert len(str(refused.value)) < 120

"""The signature around a kernel's body is the one that MLX itself generates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calls.test_fast import ARGUMENTS, EXP, EXP_STRIDED, normal
from mlx_native_py import DType
from mlx_native_py.calls.fast_source import Body, InputType, generate


def mlx_source(made: dict[str, Any], called: dict[str, Any], folder: Path, capfd: Any) -> str:
    """What MLX generates: where it has no GPU it does so while a function is exported, and shows it."""
    mx = pytest.importorskip("mlx.core")
    kernel = mx.fast.metal_kernel(**made)
    arrays = [mx.array(each) for each in called["inputs"]]
    types = [getattr(mx, str(np.dtype(each))) for each in called["output_dtypes"]]
    template = [
        (name, getattr(mx, str(np.dtype(v))) if not isinstance(v, (bool, int)) else v) for name, v in called["template"]
    ]

    def function(*inputs: Any) -> Any:
        changed = {**called, "inputs": list(inputs), "output_dtypes": types, "template": template}
        return kernel(**changed, verbose=True)

    capfd.readouterr()
    mx.export_function(str(folder / "exported.mlxfn"), function, *arrays)
    shown = capfd.readouterr().out
    return str(shown[: shown.rindex("```") + 3])


CASES = [
    ({"input_names": ["inp"], "output_names": ["out"], "source": EXP}, [normal(4, 16)], [("T", np.float32)]),
    ({"input_names": ["inp"], "output_names": ["out"], "source": EXP_STRIDED}, [normal(4, 16)], [("T", np.float16)]),
    (
        {"input_names": ["a", "b", "c", "d"], "output_names": ["out1", "out2"], "source": ARGUMENTS},
        [normal(3, 6), np.array([3, 4, 5], np.int32), normal(2, 2).astype(np.float16), np.float32(7.3)],
        [("e", True), ("f", 3), ("T", np.float16)],
    ),
    (
        {
            "input_names": ["x"],
            "output_names": ["out"],
            "source": "out[thread_index_in_simdgroup] = x[simdgroup_index_in_threadgroup];",
            "header": "// a header\nconstant int four = 4;\n",
            "atomic_outputs": True,
        },
        [np.arange(20, dtype=np.uint32)],
        [],
    ),
    ({"input_names": ["x"], "output_names": ["out"], "source": "out[0] = x[0];"}, [np.zeros((1, 2), np.int64)], []),
]


@pytest.mark.parametrize(("made", "inputs", "template"), CASES)
def test_generates_what_mlx_generates(
    made: dict[str, Any], inputs: list[Any], template: list[Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    called = {
        "inputs": inputs,
        "template": template,
        "grid": (6, 1, 1),
        "threadgroup": (2, 1, 1),
        "output_shapes": [(3, 2)] * len(made["output_names"]),
        "output_dtypes": [np.float32, np.int32][: len(made["output_names"])],
    }
    theirs = mlx_source({"name": "case", **made}, called, tmp_path, capfd)
    options: dict[str, Any] = {"header": "", "atomic_outputs": False, **made}
    names: dict[str, Any] = {key: tuple(options.pop(key)) for key in ("input_names", "output_names")}
    types = [InputType(DType.of(each.dtype), each.ndim, each.size) for each in inputs]
    values = [(name, v if isinstance(v, (bool, int)) else DType.of(v)) for name, v in template]
    ours = generate(Body("case", **names, **options), types, [DType.of(d) for d in called["output_dtypes"]], values)
    assert f"Generated source code for `case`:\n```\n{ours.text}\n```" == theirs

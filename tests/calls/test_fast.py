"""`fast.metal_kernel`: the signature that MLX itself generates, and results against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import DType, InvalidArgument, MlxDevice, ShaderCompilationError, counters
from mlx_native_py.calls.fast import metal_kernel

EXP = """
    uint elem = thread_position_in_grid.x;
    T tmp = inp[elem];
    out[elem] = metal::precise::exp(tmp);
"""
EXP_STRIDED = """
    uint elem = thread_position_in_grid.x;
    uint loc = elem_to_loc(elem, inp_shape, inp_strides, inp_ndim);
    T tmp = inp[loc];
    out[elem] = metal::precise::exp(tmp);
"""
ARGUMENTS = """
    uint elem = thread_position_in_grid.x;
    T tmp = a[0];
    if (e) {
        out1[elem] = a[1] + b[2] + c[1] + d + f;
    } else {
        out1[elem] = 1;
    }
    out2[elem] = a_shape[0] + c_ndim - b_shape[0] + int(c_strides[0]);
"""


def normal(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


def run_exp(device: MlxDevice, a: Any, source: str = EXP, **options: Any) -> Any:
    kernel = metal_kernel(name="myexp", input_names=["inp"], output_names=["out"], source=source, **options)
    [out] = kernel(
        inputs=[a],
        template=[("T", np.float32)],
        grid=(a.size, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[a.shape],
        output_dtypes=[a.dtype],
        stream=device,
    )
    return out


def test_simple_example(device: MlxDevice) -> None:
    for dtype in (np.float16, np.float32):
        a = normal(4, 16).astype(dtype)
        out = run_exp(device, a)
        assert out.dtype == dtype and np.allclose(out, np.exp(a), rtol=1e-3)


@pytest.mark.parametrize(
    "take", [lambda a: a[::2], lambda a: a.T, lambda a: a[::-1], lambda a: a[:, 3:9:2], lambda a: a[:1, ::2], np.copy]
)
@pytest.mark.parametrize("contiguous", [True, False])
def test_strided_inputs(device: MlxDevice, take: Any, contiguous: bool) -> None:
    a = take(normal(8, 16))
    source = EXP_STRIDED
    out = run_exp(device, a, source, ensure_row_contiguous=contiguous)
    assert np.allclose(out, np.exp(a), rtol=1e-5)
    if contiguous:
        assert np.allclose(run_exp(device, a), np.exp(a), rtol=1e-5)


def test_strides_count_elements(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="strides",
        input_names=["a"],
        output_names=["out"],
        source="for (int i = 0; i < a_ndim; ++i) { out[i] = a_strides[i]; }",
        ensure_row_contiguous=False,
    )
    base = np.zeros((4, 6, 8), np.float16)
    for a in (base, base[:, ::2], base.transpose(2, 0, 1), np.broadcast_to(base[0], (5, 6, 8))):
        [out] = kernel(
            inputs=[a],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(3,)],
            output_dtypes=["int64"],
            stream=device,
        )
        assert out.tolist() == [stride // 2 for stride in a.strides]


def test_every_kind_of_argument(device: MlxDevice) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, c = normal(3, 6), normal(2, 2).astype(ml_dtypes.bfloat16)
    kernel = metal_kernel(
        name="arguments", input_names=["a", "b", "c", "d"], output_names=["out1", "out2"], source=ARGUMENTS
    )
    out1, out2 = kernel(
        inputs=[a, np.array([3, 4, 5]), c, 7.3],
        template=[("e", True), ("f", 3), ("T", DType.F16)],
        grid=(6, 1, 1),
        threadgroup=(2, 1, 1),
        output_shapes=[(3, 2), (3, 2)],
        output_dtypes=[np.float32, np.int32],
        stream=device,
    )
    assert np.allclose(out1, a.flat[1] + 5 + np.float32(c.flat[1]) + 7.3 + 3, rtol=1e-5) and out1.shape == (3, 2)
    assert (out2 == 3 + 2 - 3 + 2).all()


def test_helper_functions_in_the_header(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="helper",
        input_names=["a"],
        output_names=["out"],
        header="template <typename T>\nT do_exp(T x) {\n  return metal::precise::exp(x);\n}\n",
        source="uint i = thread_position_in_grid.x; out[i] = do_exp(a[i]);",
    )
    a = normal(2, 2)
    [out] = kernel(
        inputs=[a],
        grid=(4, 1, 1),
        threadgroup=(2, 1, 1),
        output_shapes=[a.shape],
        output_dtypes=[a.dtype],
        stream=device,
    )
    assert np.allclose(out, np.exp(a), rtol=1e-5)


def test_attributes(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="attributes",
        input_names=["a"],
        output_names=["out"],
        source="""
            if (thread_position_in_grid.x == 0) {
                out[0] = threads_per_threadgroup.x; out[1] = threads_per_grid.x; out[2] = threads_per_simdgroup;
            }
        """,
    )
    launch: dict[str, Any] = {
        "threadgroup": (64, 1, 1),
        "output_shapes": [(3,)],
        "output_dtypes": [np.uint32],
        "stream": device,
    }
    [out] = kernel(inputs=[0], grid=(192, 1, 1), **launch)
    assert out.tolist() == [64, 192, 32]
    [out] = kernel(inputs=[0], grid=(2, 1, 1), **launch)  # a group is no larger than the grid
    assert out.tolist() == [2, 2, 32]


def test_atomic_outputs_and_initial_value(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="sums",
        input_names=["x"],
        output_names=["sums"],
        source="""
            uint i = thread_position_in_grid.x;
            atomic_fetch_add_explicit(&sums[i % 3], x[i], memory_order_relaxed);
        """,
        atomic_outputs=True,
    )
    x = np.arange(300, dtype=np.float32)
    [out] = kernel(
        inputs=[x],
        grid=(300, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(4,)],
        output_dtypes=[np.float32],
        init_value=1,
        stream=device,
    )
    assert out.tolist() == [*(1 + x.reshape(-1, 3).sum(0)), 1]


CORNERS = """
    uint elem = thread_position_in_grid.x;
    int H = x_shape[1], W = x_shape[2], C = x_shape[3];
    int point = elem / C, batch = point / (grid_shape[1] * grid_shape[2]);
    T gx = ((grid[2 * point] + 1) * W - 1) / 2, gy = ((grid[2 * point + 1] + 1) * H - 1) / 2;
    int left = floor(gx), top = floor(gy);
    for (int corner = 0; corner < 4; ++corner) {
        int column = left + (corner & 1), row = top + (corner >> 1);
        T weight = (1 - metal::abs(gx - column)) * (1 - metal::abs(gy - row));
        if (row >= 0 && row < H && column >= 0 && column < W) {
            int place = ((batch * H + row) * W + column) * C + elem % C;
            STEP
        }
    }
"""


def grid_sample(x: Any, grid: Any) -> Any:
    """Bilinear samples of `x` (batch, rows, columns, channels) at points in [-1, 1]."""
    batches, rows, columns, _ = x.shape
    at = ((grid + 1) * [columns, rows] - 1) / 2
    low = np.floor(at).astype(int)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    batch = np.arange(batches)[:, None, None]
    value = 0.0
    for dx, dy in np.ndindex(2, 2):
        column, row = low[..., 0] + dx, low[..., 1] + dy
        weight = (1 - abs(at[..., 0] - column)) * (1 - abs(at[..., 1] - row))
        pixels = padded[batch, np.clip(row + 1, 0, rows + 1), np.clip(column + 1, 0, columns + 1)]
        value = value + weight[..., None] * pixels
    return value


def test_grid_sample_and_its_gradient(device: MlxDevice) -> None:
    x, grid = normal(2, 5, 6, 3), np.clip(normal(2, 4, 7, 2), -1, 1)
    out_shape = (2, 4, 7, 3)
    launch: dict[str, Any] = {
        "template": [("T", x.dtype)],
        "grid": (2 * 4 * 7 * 3, 1, 1),
        "threadgroup": (64, 1, 1),
        "stream": device,
    }
    forward = metal_kernel(
        name="grid_sample",
        input_names=["x", "grid"],
        output_names=["out"],
        source="T sum = 0;" + CORNERS.replace("STEP", "sum += weight * x[place];") + "out[elem] = sum;",
    )
    [out] = forward(inputs=[x, grid], output_shapes=[out_shape], output_dtypes=[x.dtype], **launch)
    assert np.allclose(out, grid_sample(x, grid), atol=1e-5)
    step = "atomic_fetch_add_explicit(&x_grad[place], weight * cotangent[elem], memory_order_relaxed);"
    backward = metal_kernel(
        name="grid_sample_grad",
        input_names=["x", "grid", "cotangent"],
        output_names=["x_grad"],
        source=CORNERS.replace("STEP", step),
        atomic_outputs=True,
    )
    cotangent = normal(*out_shape)
    [grad] = backward(
        inputs=[x, grid, cotangent], output_shapes=[x.shape], output_dtypes=[x.dtype], init_value=0, **launch
    )
    # The samples are linear in x, so the gradient is the transposed map.
    assert np.isclose(np.vdot(grad, x), np.vdot(cotangent, out), rtol=1e-4)


def test_what_the_prelude_offers(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="prelude",
        input_names=["x"],
        output_names=["out", "extra"],
        source="""
            out[0] = Limits<float>::max; out[1] = Limits<float>::finite_min; out[2] = log1p(x); out[3] = ceildiv(7, 2);
            out[4] = Limits<int8_t>::min; out[5] = float(Limits<bfloat16_t>::finite_max); out[6] = Limits<bool>::max;
            extra[0] = Limits<float16_t>::min;
        """,
    )
    out, extra = kernel(
        inputs=[1e-10],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(7,), ()],
        output_dtypes=[np.float32, np.float16],
        stream=device,
    )
    lowest = float(np.finfo(np.float32).min)
    assert np.allclose(out, [np.inf, lowest, 1e-10, 4, -128, 3.3895314e38, 1]) and extra == -np.inf


def test_buffers_encoders_and_other_libraries(device: MlxDevice) -> None:
    kernel = metal_kernel(
        name="twice",
        input_names=["x"],
        output_names=["out"],
        source="uint i = thread_position_in_grid.x; out[i] = 2 * x[i];",
    )
    launch: dict[str, Any] = {
        "grid": (9, 1, 1),
        "threadgroup": (32, 1, 1),
        "output_shapes": [(9,)],
        "output_dtypes": [np.float32],
    }
    x = np.arange(9, dtype=np.float32)
    with counters.scope() as counted:
        [once] = kernel(inputs=[device.buffer(x)], stream=device, **launch)
    assert (counted.dispatches, counted.syncs) == (1, 1)
    with device.command_encoder() as enc:
        [twice] = kernel(inputs=[once], stream=enc, **launch)
        [four] = kernel(inputs=[twice], stream=enc, **launch)
    assert np.array_equal(four.numpy(), 8 * x) and len(enc.barriers) == 1
    mx = pytest.importorskip("mlx.core")
    [out] = kernel(inputs=[mx.array(x)], stream=device, **{**launch, "output_dtypes": [mx.float32]})
    assert np.array_equal(out, 2 * x)


def test_python_values_have_mlx_types(device: MlxDevice, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = metal_kernel(name="types", input_names=list("abcdef"), output_names=["out"], source="out[0] = 0;")
    kernel(
        inputs=[1, 2.0, True, [1, 2], np.zeros(9), 1 << 40],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[np.int32],
        verbose=True,
        stream=device,
    )
    shown = capsys.readouterr().out
    for wanted in ("int32_t& a", "float& b", "bool& c", "constant int32_t* d", "device float* e", "int64_t& f"):
        assert wanted in shown


def test_errors_have_the_users_lines(device: MlxDevice) -> None:
    launch: dict[str, Any] = {
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
        "output_shapes": [(1,)],
        "output_dtypes": [np.float32],
    }
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["out"]}
    with pytest.raises(ShaderCompilationError, match=r"bad source:2:12: error: .*missing.*\n  out\[0\] = missing;\n"):
        metal_kernel(name="bad", source="\n  out[0] = missing;\n", **names)(inputs=[1.0], stream=device, **launch)
    header = "inline int f() {\n  return missing;\n}\n"
    with pytest.raises(ShaderCompilationError, match=r"bad header:2:10: error"):
        metal_kernel(name="bad", header=header, source="out[0] = x;", **names)(inputs=[1.0], stream=device, **launch)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"inputs": []}, "inputs has 0 items, expected 1 for x"),
        ({"output_shapes": [(1,), (2,)]}, "output_shapes has 2 items, expected 1 for out"),
        ({"output_dtypes": []}, "output_dtypes has 0 items"),
        ({"output_dtypes": [np.float64]}, "not an element type"),
        ({"threadgroup": (2048, 1, 1)}, "has 2048 threads; this kernel allows at most"),
        ({"grid": (1, 1)}, "grid is .*, expected three numbers"),
        ({"grid": (-1, 1, 1)}, "grid is -1, expected at least 0"),
        ({"grid": 4}, r"grid is 4, expected three numbers, such as \(4, 1, 1\)"),
        ({"template": [("T", "strange")]}, "template argument 'T' is 'strange'"),
        ({"init_value": 0.5, "output_dtypes": [np.int32]}, "0.5 is not a value of i32"),
        ({"stream": "cpu"}, "stream is 'cpu'"),
    ],
)
def test_mistakes_are_named(device: MlxDevice, changed: dict[str, Any], complaint: str) -> None:
    kernel = metal_kernel(name="mine", input_names=["x"], output_names=["out"], source="out[0] = x;")
    good = {
        "inputs": [1.0],
        "grid": (1, 1, 1),
        "threadgroup": (1, 1, 1),
        "output_shapes": [(1,)],
        "output_dtypes": [np.float32],
        "stream": device,
    }
    with pytest.raises(InvalidArgument, match=complaint):
        kernel(**{**good, **changed})


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"output_names": []}, "at least one output"),
        ({"input_names": ["a b"]}, "'a b' cannot be a name"),
        ({"input_names": ["out"]}, "must differ"),
        ({"compile_options": {"math": "safe"}}, "unknown compile option 'math'"),
        ({"compile_options": {"math_mode": "wild"}}, "math is 'wild'"),
    ],
)
def test_a_kernel_that_cannot_be(changed: dict[str, Any], complaint: str) -> None:
    good = {"name": "mine", "input_names": ["x"], "output_names": ["out"], "source": "out[0] = x;"}
    with pytest.raises(InvalidArgument, match=complaint):
        metal_kernel(**{**good, **changed})


def test_negative_template_arguments(device: MlxDevice) -> None:
    kernel = metal_kernel(name="negative", input_names=[], output_names=["out"], source="out[0] = N;")
    [out] = kernel(
        inputs=[],
        template=[("N", -3)],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        output_shapes=[(1,)],
        output_dtypes=[np.int32],
        stream=device,
    )
    assert out[0] == -3
    assert repr(kernel) == "<MetalKernel negative() -> out>"

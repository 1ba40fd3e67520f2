"""Kernels as Python callables: arguments, defaults, what comes back, and what is refused."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlx_native_py
from mlx_native_py import InvalidArgument, KernelNotFound, MlxDevice, ShaderCompilationError, counters, settings
from mlx_native_py.calls.library import Library
from mlx_native_py.encoder import Out
from mlx_native_py.pipelines.compile_options import CompileOptions

SOURCE = """
#include <metal_stdlib>
using namespace metal;
constant int steps [[function_constant(0)]];
constant bool has_steps = is_function_constant_defined(steps);

struct Point { float x; int y; };

kernel void axpy(device float *y, device const float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
kernel void grow(device int *x, uint i [[thread_position_in_grid]]) { x[i] += has_steps ? steps : 1; }
kernel void positions(device uint2 *out, uint2 at [[thread_position_in_grid]], uint2 size [[threads_per_grid]]) {
  out[at.y * size.x + at.x] = at;
}
kernel void shift(device float3 *out, constant float3 &by, uint i [[thread_position_in_grid]]) { out[i] += by; }
kernel void reversed(device float *x, threadgroup float *tile [[threadgroup(0)]],
                     uint i [[thread_position_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  tile[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = tile[n - 1 - i];
}
kernel void points(device Point *out, constant Point &p, uint i [[thread_position_in_grid]]) {
  out[i].x = p.x * i;
  out[i].y = p.y;
}
kernel void gap(device float *x [[buffer(0)]], device const float *y [[buffer(2)]],
                uint i [[thread_position_in_grid]]) { x[i] = y[i]; }
kernel void none() {}
kernel void count(device atomic_uint &n) { atomic_fetch_add_explicit(&n, 1u, memory_order_relaxed); }
"""
POINT = np.dtype([("x", np.float32), ("y", np.int32)])


@pytest.fixture
def lib(device: MlxDevice) -> Library:
    return device.compile(SOURCE)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def test_arrays_are_updated_in_place(lib: Library) -> None:
    y, x = floats(1, 1, 1, 1), floats(0, 1, 2, 3)
    ticket = lib.axpy(y, x, 2.0)
    assert y.tolist() == [1, 3, 5, 7] and x.tolist() == [0, 1, 2, 3]
    assert ticket.done() and ticket.gpu_time >= 0 and ticket.label == "axpy"


def test_buffers_stay_on_the_device(device: MlxDevice, lib: Library) -> None:
    y, x = device.buffer(floats(1, 1)), device.buffer(floats(3, 4))
    lib.axpy(y, x, 1)
    assert y.numpy().tolist() == [4, 5]
    lib.axpy(y[1:], x, 1)
    assert y.numpy().tolist() == [4, 8]


def test_counts_one_of_each(lib: Library) -> None:
    lib.axpy.pipeline  # noqa: B018  (compiles it)
    with counters.scope() as counted:
        lib.axpy(floats(1), floats(1), 1.0)
    assert (counted.dispatches, counted.cmd_bufs, counted.syncs) == (1, 1, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a[::2],
        lambda a: a.reshape(4, 2).T,
        lambda a: a[::-1],
        lambda a: a.reshape(2, 2, 2)[:, 1],
        lambda a: a.reshape(8, 1)[:, 0],
    ],
)
def test_any_layout_comes_back(lib: Library, make: Any) -> None:
    whole = np.arange(8, dtype=np.float32)
    y = make(whole)
    expected = y + 2 * (y + 100)
    lib.axpy(y, y + 100, 2.0)
    assert np.array_equal(y, expected)
    untouched = np.setdiff1d(np.arange(8), make(np.arange(8)))
    assert np.array_equal(whole[untouched], untouched)


def test_arrays_over_buffers_are_not_copied(device: MlxDevice, lib: Library) -> None:
    buffer = device.buffer(floats(1, 2, 3, 4))
    ticket = lib.axpy(buffer.numpy()[2:], floats(1, 1), 10.0, wait=False)
    ticket.wait()
    assert buffer.numpy().tolist() == [1, 2, 13, 14]


def test_threads_default_to_the_first_written_argument(device: MlxDevice, lib: Library) -> None:
    x = np.zeros((3, 5), np.int32)
    lib.grow(x)
    assert (x == 1).all()
    lib.grow(x, threads=2)
    assert x.sum() == 17
    lib.grow(x, threadgroups=1, group=3)
    assert x.sum() == 20
    vectors = np.zeros((4, 4), np.float32)  # float3 takes the room of four
    lib.shift(vectors, (1, 2, 3))
    assert (vectors[:, :3] == [1, 2, 3]).all()
    lib.shift(vectors, np.array([1.0, 1.0, 1.0]))
    assert (vectors[:, :3] == [2, 3, 4]).all()


def test_two_dimensions(lib: Library) -> None:
    out = np.zeros((3, 4, 2), np.uint32)
    lib.positions(out, threads=(4, 3))
    assert out[2, 3].tolist() == [3, 2] and out[0, 1].tolist() == [1, 0]


def test_threadgroup_memory(lib: Library) -> None:
    x = np.arange(8, dtype=np.float32)
    lib.reversed(x, threads=8, group=8, shared=8 * 4)
    assert x.tolist() == list(range(7, -1, -1))


def test_structs(lib: Library) -> None:
    out = np.zeros(3, POINT)
    raw = out.view(np.uint8)
    lib.points(raw, np.array((2.0, 7), POINT)[()], threads=3)
    assert out["x"].tolist() == [0, 2, 4] and out["y"].tolist() == [7, 7, 7]


def test_a_written_array_of_float64_where_the_kernel_has_structs(lib: Library) -> None:
    out = np.ones(4096, np.float64)
    lib.points(out, np.array((2.0, 0), POINT)[()], threads=2)
    assert out[:4].tolist() == [0, 0, 2, 0] and np.all(out[4:] == 1)


def test_a_scalar_that_is_written(lib: Library) -> None:
    n = np.zeros((), np.uint32)
    lib.count(n, threads=37)
    assert n == 37


def test_gaps_take_none(lib: Library) -> None:
    x = floats(0, 0)
    lib.gap(x, None, floats(5, 6))
    assert x.tolist() == [5, 6]


def test_constants(device: MlxDevice) -> None:
    lib = device.compile(SOURCE, constants={"steps": 5})
    x = np.zeros(2, np.int32)
    lib.grow(x)
    assert x.tolist() == [5, 5]
    lib.grow(x, constants={"steps": 7})
    assert x.tolist() == [12, 12]


def test_options(device: MlxDevice) -> None:
    source = "kernel void f(device int *x, uint i [[thread_position_in_grid]]) { x[i] = N; }"
    x = np.zeros(1, np.int32)
    device.compile(source, options=CompileOptions(macros={"N": 9})).f(x)
    assert x[0] == 9


def test_source_from_a_file(device: MlxDevice, tmp_path: Path) -> None:
    path = tmp_path / "one.metal"
    path.write_text("kernel void one(device int *x, uint i [[thread_position_in_grid]]) { x[i] = 1; }")
    x = np.zeros(2, np.int32)
    device.compile(path).one(x)
    assert x.tolist() == [1, 1]
    path.write_text("kernel void one(device int *x) { x[0] = y; }")
    with pytest.raises(ShaderCompilationError, match=r"'one.metal'"):
        device.compile(path)


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, np.uint8, np.int8, np.uint16, np.int16, np.uint64, np.int64, np.bool_]
)
def test_every_type(device: MlxDevice, dtype: Any) -> None:
    name = mlx_native_py.DType.of(dtype).mtl
    lib = device.compile(
        f"kernel void f(device {name} *x, device const {name} *y, uint i [[thread_position_in_grid]]) "
        "{ x[i] = y[i]; }"
    )
    x, y = np.zeros(3, dtype), np.array([0, 1, 1], dtype)
    lib.f(x, y)
    assert np.array_equal(x, y)


def test_encoding_into_an_encoder(device: MlxDevice, lib: Library) -> None:
    y = device.buffer(floats(1, 1))
    with device.command_encoder() as enc:
        lib.axpy(y, floats(1, 2), 1.0, encoder=enc)
        lib.axpy(y, floats(1, 2), 1.0, encoder=enc)
    assert y.numpy().tolist() == [3, 5] and len(enc.barriers) == 1


def test_without_waiting(device: MlxDevice, lib: Library) -> None:
    y = device.buffer(floats(1, 1))

    async def run() -> None:
        await lib.axpy(y, floats(1, 2), 1.0, wait=False)

    asyncio.run(run())
    assert y.numpy().tolist() == [2, 3]


def test_out_marks_arrays_too(lib: Library) -> None:
    x = floats(0, 0)
    lib.gap(Out(x), None, floats(5, 6))
    assert x.tolist() == [5, 6]
    with pytest.raises(InvalidArgument, match="marked Out, but the kernel only reads it"):
        lib.axpy(x, Out(floats(1, 2)), 1.0)


def test_the_same_array_twice(lib: Library) -> None:
    y = floats(1, 2)
    lib.axpy(y, y, 2.0)
    assert y.tolist() == [3, 6]


def test_interleaved_arrays_do_not_overlap(lib: Library) -> None:
    both = np.arange(8, dtype=np.float32).reshape(4, 2)
    lib.axpy(both[:, 0], both[:, 1], 1.0)
    assert both[:, 0].tolist() == [1, 5, 9, 13] and both[:, 1].tolist() == [1, 3, 5, 7]


def test_other_libraries_arrays(lib: Library) -> None:
    mx = pytest.importorskip("mlx.core")
    y = floats(1, 1, 1)
    lib.axpy(y, mx.array([1.0, 2.0, 3.0]), 1.0)
    assert y.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda lib: lib.axpy(floats(1), floats(1)), r"takes 3 arguments by slot \(0: y, 1: x, 2: a\); 2 were given"),
        (lambda lib: lib.axpy(np.zeros(2), floats(1), 1), "'y' .* is declared float, and the array has float64"),
        (lambda lib: lib.axpy(floats(1), np.zeros(2, np.int32), 1), "'x' .* convert it to float32"),
        (lambda lib: lib.axpy(floats(1), floats(1), "a"), "'a' .* is not a value for a float"),
        (lambda lib: lib.axpy(floats(1), [1.0], 1.0), "'x'.*np.array"),
        (lambda lib: lib.axpy(floats(1), floats(1), 1.0, wait=False), "wait=False.*'y' would be copied"),
        (lambda lib: lib.axpy(floats(1), floats(1), 1.0, threads=1, group=4096), "4096 threads; .* allows at most"),
        (lambda lib: lib.reversed(floats(1)), "shared= gives 0 lengths"),
        (lambda lib: lib.grow(np.zeros(1, np.int32), constants={"step": 1}), "no function constant 'step'"),
        (lambda lib: lib.gap(floats(1), floats(1), floats(1)), "no argument at slot 1"),
        (lambda lib: lib.positions(np.zeros((2, 2), np.uint32)), "counts threads by a uint2.*give threads="),
        (lambda lib: lib.none(), "no array or buffer .* give threads="),
    ],
)
def test_mistakes_are_named(lib: Library, call: Any, complaint: str) -> None:
    with counters.scope() as counted, pytest.raises(InvalidArgument, match=complaint):
        call(lib)
    assert counted.syncs == 0


def test_overlapping_arrays_are_refused(lib: Library) -> None:
    whole = np.zeros(4, np.float32)
    with pytest.raises(InvalidArgument, match="'y' and 'x' share some of their memory"):
        lib.axpy(whole[1:], whole[:-1], 1.0)


def test_views_of_one_buffer_may_overlap(device: MlxDevice, lib: Library) -> None:
    whole = device.buffer(floats(1, 2, 3)).numpy()
    lib.axpy(whole[:1], whole[1:2], 1.0)
    assert whole.tolist() == [3, 2, 3]


def test_read_only_arrays(lib: Library) -> None:
    x = floats(1, 2)
    x.flags.writeable = False
    lib.axpy(y := floats(0, 0), x, 1.0)
    assert y.tolist() == [1, 2]
    with pytest.raises(InvalidArgument, match="'y' is written, but the array is read-only"):
        lib.axpy(x, y, 1.0)


def test_the_wrong_type_of_buffer(device: MlxDevice, lib: Library) -> None:
    with pytest.raises(InvalidArgument, match="the buffer has int32"):
        lib.axpy(device.buffer([1, 2], "i32"), floats(1), 1.0)
    lib.axpy(device.buffer([1, 2], "i32").view("f32"), floats(1, 1), 1.0)


def test_names(lib: Library) -> None:
    assert {"axpy", "gap"} <= set(lib) and "axpy" in lib and "nothing" not in lib and len(lib) == 9
    assert lib["axpy"] is lib.axpy and "axpy" in dir(lib)
    assert not hasattr(lib, "axpyy") and not hasattr(lib, "_repr_png_")
    with pytest.raises(AttributeError, match="Kernel not found: 'axpyy'. Did you mean 'axpy'?"):
        lib.axpyy  # noqa: B018
    with pytest.raises(KernelNotFound):
        lib["axpyy"]


def test_a_short_list_of_names_is_told(device: MlxDevice) -> None:
    two = device.compile("kernel void one(device int *x) {} kernel void two(device int *x) {}")
    with pytest.raises(AttributeError, match="Kernel not found: 'nothing'; there are: one, two"):
        two.nothing  # noqa: B018


def test_repr_shows_signatures(device: MlxDevice, lib: Library) -> None:
    shown = repr(lib)
    assert shown.startswith("<Library of 9 kernels on ")
    assert "\n  axpy(inout float y, float x, float a)" in shown
    assert "\n  reversed(inout float x, threadgroup tile)" in shown
    assert "\n  points(inout struct out, struct p)" in shown
    assert repr(lib.positions) == "<Kernel positions(inout uint2 out)>"
    assert (
        "<td" in lib._repr_html_() and ">positions<" in lib._repr_html_() and "(inout uint2 out)" in lib._repr_html_()
    )
    for shown in (lib.positions._repr_html_(), lib.positions.pipeline._repr_html_()):
        assert "&lt;Pipeline positions" in shown and ">uint2<" in shown and ">read_write<" in shown
    many = device.compile("".join(f"kernel void k{i}(device int *x) {{}}\n" for i in range(17)))
    assert "\n  k3\n" in repr(many) and not device.kernels.is_cached("k3")


def test_a_kernel_that_needs_constants_says_so(device: MlxDevice) -> None:
    lib = device.compile("constant int n [[function_constant(3)]];\nkernel void f(device int *x) { x[0] = n; }\n")
    assert "needs values for function constants 'n' (index 3)" in repr(lib)


def test_compile_errors_have_the_line(device: MlxDevice) -> None:
    with pytest.raises(ShaderCompilationError) as caught:
        device.compile("kernel void f(device float *x) {\n  x[0] = missing;\n}\n")
    assert ":2:10: error:" in str(caught.value) and "  x[0] = missing;\n         ^" in str(caught.value)


def test_templates(device: MlxDevice) -> None:
    lib = device.compile("""
        template <typename T> kernel void one(device T *x, uint i [[thread_position_in_grid]]) { x[i] = 1; }
        template [[host_name("one_int")]] kernel decltype(one<int>) one<int>;
        template [[host_name("one half")]] kernel decltype(one<half>) one<half>;
    """)
    x, y = np.zeros(2, np.int32), np.zeros(2, np.float16)
    lib.one_int(x)
    lib["one half"](y)
    assert x.tolist() == y.tolist() == [1, 1]


def test_the_name_of_a_file_is_no_source(device: MlxDevice) -> None:
    with pytest.raises(InvalidArgument, match=r"pass pathlib.Path\('axpy.metal'\)"):
        device.compile("axpy.metal")


@pytest.mark.parametrize("source", ["", "  \n", None, 3])
def test_a_source_is_text(device: MlxDevice, source: Any) -> None:
    with pytest.raises(InvalidArgument, match="a source is MSL text"):
        device.compile(source)


@pytest.mark.soft
def test_threads_share_a_kernel(lib: Library) -> None:
    def work(_: int) -> int:
        x = np.zeros(64, np.int32)
        for _ in range(20):
            lib.grow(x)
        return int(x.sum())

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(work, range(4))) == [64 * 20] * 4


@pytest.mark.soft
def test_without_a_device() -> None:
    source = "kernel void one(device int *x, uint i [[thread_position_in_grid]]) { x[i] = 1; }"
    x = np.zeros(3, np.int32)
    with settings.override(device="soft", soft_checked=False):
        mlx_native_py.kernel(source).one(x)
        first = mlx_native_py.default_device()
        assert first is mlx_native_py.default_device()
        with settings.override(soft_checked=True):
            assert mlx_native_py.default_device() is not first
        with settings.override(profile_cb=True):
            assert mlx_native_py.default_device() is first
        first.close()
        again = mlx_native_py.default_device()
        assert again is not first
        mlx_native_py.kernel(source).one(x)
    assert x.tolist() == [1, 1, 1]

"""Calls as people write them: names, dicts and records, kernels for pipelines, no threads at all, wrong languages."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import numpy as np
import pytest

import mlx_native_py
from mlx_native_py import InvalidArgument, MlxDevice, ShaderCompilationError, counters, fn, kernel
from mlx_native_py.calls.fast import metal_kernel

SOURCE = """
struct Light { packed_float3 colour; half weights[2]; };
struct Params { uint n; float3 offset; bool on; Light light; };  // padded as C pads
kernel void scale(device float *y, constant Params &p, device const float *x, constant float &a,
                  uint i [[thread_position_in_grid]]) {
  y[i] = p.on ? a * x[i] + p.offset.y + p.light.colour.z + float(p.light.weights[1]) + p.n : -1;
}
kernel void sums(device const Light *lights, device float *y, uint i [[thread_position_in_grid]]) {
  y[i] = lights[i].colour.x + lights[i].colour.y + float(lights[i].weights[0]);
}
"""
PARAMS: dict[str, Any] = {
    "n": 3,
    "offset": (1, 20, 3),
    "on": True,
    "light": {"colour": [0, 0, 100], "weights": [0, 0.5]},
}
LIGHT = np.dtype([("colour", np.float32, 3), ("weights", np.float16, 2)], align=True)
RECORD = np.dtype([("n", np.uint32), ("on", np.bool_), ("offset", np.float32, 3), ("light", LIGHT)])
RESULT = 2 * 5 + 20 + 100 + 0.5 + 3


@pytest.fixture
def lib(device: MlxDevice) -> Any:
    return device.compile(SOURCE)


def test_arguments_by_name(device: MlxDevice, lib: Any) -> None:
    y, x = device.zeros(2), device.full(2, 5)
    lib.scale(p=PARAMS, a=2.0, y=y, x=x)
    assert y.tolist() == [RESULT] * 2
    lib.scale(y, PARAMS, a=1.0, x=x)
    assert y.tolist() == [RESULT - 5] * 2
    array = np.zeros(2, np.float32)
    lib.scale(array, PARAMS, x, a=2)
    assert array.tolist() == [RESULT] * 2


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda lib, y: lib.scale(y, x=y, a=1.0), "'scale' lacks 'p'"),
        (lambda lib, y: lib.scale(y, PARAMS, y, a=1.0, y=y), "'y' is given twice"),
        (lambda lib, y: lib.scale(y, PARAMS, y, 1.0, colour=3), "no argument 'colour'; it takes y, p, x, a"),
        (lambda lib, y: lib.scale(y, PARAMS, y, aa=1.0), "no argument 'aa'; did you mean 'a'"),
        (lambda lib, y: lib.scale(y, PARAMS, y, 1.0, grid=4), "threads= counts threads, threadgroups= counts groups"),
        (lambda lib, y: lib.scale(y, PARAMS, y, 1.0, block=4), "group= is the size of a threadgroup"),
        (lambda lib, y: lib.scale(y, {**PARAMS, "n": -1}, y, 1.0), "'n' is -1, expected u32"),
        (lambda lib, y: lib.scale(y, {**PARAMS, "offset": 1}, y, 1.0), r"'offset' is 1, expected f32\[3\]"),
        (lambda lib, y: lib.scale(y, {"n": 1}, y, 1.0), "struct Params has n, offset, on, light.*lacks offset"),
        (lambda lib, y: lib.scale(y, {**PARAMS, "m": 1}, y, 1.0), "has no m"),
        (
            lambda lib, y: lib.scale(y, {**PARAMS, "light": 1}, y, 1.0),
            "not a dict with the members of struct Light",
        ),
        (lambda lib, y: lib.scale(y, PARAMS, [1.0, 2.0], 1.0), r"np.array\(\[...\], np.float32\).*device.buffer"),
        (lambda lib, y: lib.sums(np.zeros(2, [("a", "f4")]), y), "values of 16 bytes; .* records of 4.*align=True"),
    ],
)
def test_mistakes_are_named(device: MlxDevice, lib: Any, call: Any, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        call(lib, device.zeros(2))


def test_records_of_numpy_go_member_by_member(device: MlxDevice, lib: Any) -> None:
    record = np.zeros((), RECORD)[()]
    record["n"], record["on"], record["offset"] = 3, True, (1, 20, 3)
    record["light"] = ([0, 0, 100], [0, 0.5])
    y = device.zeros(1)
    lib.scale(y, record, device.full(1, 5), 2.0)
    assert y.item() == RESULT, "another order and other padding in numpy change nothing"


def test_structured_arrays_are_arrays_of_structs(device: MlxDevice, lib: Any) -> None:
    lights = np.zeros(3, LIGHT)
    lights["colour"][:, 0], lights["weights"][:, 0] = [1, 2, 3], 0.5
    y = np.zeros(3, np.float32)
    lib.sums(lights, y)
    assert y.tolist() == [1.5, 2.5, 3.5]


def test_a_struct_that_the_source_does_not_tell(device: MlxDevice) -> None:
    source = (
        "template <typename T> struct P { T a; };\nkernel void k(device float *y, constant P<float> &p) { y[0] = p.a; }"
    )
    lib = device.compile(source)
    with pytest.raises(InvalidArgument, match="members the source does not tell; pass bytes of 4"):
        lib.k(device.zeros(1), {"a": 1.0})
    y = device.zeros(1)
    lib.k(y, np.float32(3).tobytes())
    assert y.item() == 3


def test_a_dispatch_takes_a_kernel(device: MlxDevice, lib: Any) -> None:
    y, x = device.zeros(2), device.full(2, 5)
    with device.command_encoder() as enc:
        for _ in range(3):
            enc.dispatch(lib.scale, y, PARAMS, x, 2.0, threads=2)
    assert y.tolist() == [RESULT] * 2
    y.fill(0)
    with device.capture(y=y) as graph:
        graph.encoder.dispatch(lib.scale, y, PARAMS, x, 2.0, threads=2)
    graph.run()
    assert y.tolist() == [RESULT] * 2
    with device.command_encoder() as enc, pytest.raises(InvalidArgument, match="or a kernel of device.compile"):
        enc.dispatch("scale", y, threads=2)  # type: ignore[arg-type]


def test_the_device_is_that_of_the_buffers(device: MlxDevice) -> None:
    lib: Any = kernel("kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    x = device.ones(3)
    lib.twice(x)
    lib.twice(x[1:])
    with device.command_encoder() as enc:
        enc.dispatch(lib.twice, x, threads=3)
    lib.twice(x, encoder=(enc := device.command_encoder()))
    enc.commit_and_wait()
    assert x.tolist() == [8, 16, 16]
    assert fn.add(x, 1).device is device and fn.softmax(x, -1).device is device and fn.silu(x).device is device
    twice = metal_kernel("m", ["a"], ["o"], "o[0] = a[0] * 2;")
    (out,) = twice(inputs=[x], grid=(1, 1, 1), threadgroup=(1, 1, 1), output_shapes=[(1,)], output_dtypes=["f32"])
    assert out.tolist() == [16]


@pytest.mark.parametrize("launch", [{"threads": 0}, {"threads": (4, 0)}, {"threadgroups": 0}, {"threads": [0, 1]}])
def test_no_threads_are_no_work(device: MlxDevice, lib: Any, launch: dict[str, Any]) -> None:
    y = device.zeros(2)
    with counters.scope() as counted:
        with device.command_encoder() as enc:
            enc.dispatch(lib.scale, y, PARAMS, y, 2.0, **launch)
        lib.scale(y, PARAMS, y, 2.0, **launch).wait()
        with device.capture(y=y) as graph:
            graph.encoder.dispatch(lib.scale, y, PARAMS, y, 2.0, **launch)
    assert y.tolist() == [0, 0] and counted.dispatches == 0 and graph.dispatch_count() == 0


def test_empty_arrays_are_no_work(device: MlxDevice, lib: Any) -> None:
    empty = np.zeros(0, np.float32)
    ticket = lib.scale(empty, PARAMS, empty, 2.0)
    ticket.wait()
    assert ticket.done() and ticket.dispatch_count() == 0
    twice = metal_kernel("m", ["a"], ["o"], "o[0] = a[0] * 2;")
    launch: dict[str, Any] = {"grid": (0, 1, 1), "threadgroup": (1, 1, 1), "output_dtypes": ["f32"], "stream": device}
    (out,) = twice(inputs=[empty], output_shapes=[(0, 3)], **launch)
    assert out.shape == (0, 3)
    (out,) = twice(inputs=[empty], output_shapes=[(2,)], init_value=4, **launch)
    assert out.tolist() == [4, 4]


def test_a_source_without_a_kernel(device: MlxDevice) -> None:
    with pytest.raises(ShaderCompilationError, match="there is no kernel in this source; one begins with .kernel void"):
        device.compile("float twice(float x) { return 2 * x; }")


@pytest.mark.parametrize(
    ("source", "hints"),
    [
        (
            "__global__ void k(float *x) { __shared__ float t[4]; x[threadIdx.x] = 1; __syncthreads(); }",
            ["looks like CUDA", "__global__: kernel", "__shared__: threadgroup", "threadIdx: .*thread_position_in_thr"],
        ),
        (
            "__kernel void k(__global float *x) { x[get_global_id(0)] = 1; barrier(CLK_LOCAL_MEM_FENCE); }",
            ["looks like OpenCL C", "__global: device", "get_global_id: .*thread_position_in_grid", "barrier.CLK"],
        ),
    ],
)
def test_other_languages_get_a_hint(device: MlxDevice, source: str, hints: list[str]) -> None:
    for hint in hints:
        with pytest.raises(ShaderCompilationError, match=hint):
            device.compile(source)


def test_msl_with_such_words_in_comments_gets_none(device: MlxDevice) -> None:
    with pytest.raises(ShaderCompilationError) as caught:
        device.compile("// like threadIdx in CUDA\nkernel void k(device float *x) { x[0] = missing; }")
    assert "looks like" not in str(caught.value)


def test_dropped_work_is_told_and_nothing_else(device: MlxDevice, lib: Any) -> None:
    y = device.zeros(2)
    enc = device.command_encoder()
    enc.dispatch(lib.scale, y, PARAMS, y, 2.0, threads=2)
    with pytest.warns(ResourceWarning, match="1 dispatch was encoded and never committed, so it did not run"):
        del enc
        gc.collect()
    assert y.tolist() == [0, 0] and not device.submissions._open
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        device.command_encoder()
        enc = device.command_encoder()
        enc.dispatch(lib.scale, y, PARAMS, y, 2.0, threads=2)
        enc.discard()
        del enc
        gc.collect()


def test_one_rule_for_float64(device: MlxDevice, lib: Any) -> None:
    x = np.array([1, 2], np.float64)
    y = device.zeros(2)
    lib.scale(y, PARAMS, x, 1.0)
    assert y.tolist() == [RESULT - 10 + 1, RESULT - 10 + 2]
    assert device.buffer(x).dtype.name == fn.add(x, x).dtype.name == (device.zeros(2) + x).dtype.name == "F32"


def test_reprs_are_short(device: MlxDevice, lib: Any) -> None:
    things = [device, device.kernels, lib, lib.scale, lib.scale.pipeline, lib.scale.pipeline.origin[0]]
    things += [device.residency, device.submissions, device.recycler, device.zeros(9).allocation, device.buffer_pool()]
    things += [mlx_native_py.MemRanges(), device.kernels.shipped("elementwise")]
    for thing in things:
        assert len(repr(thing)) < 300 and " object at 0x" not in repr(thing), repr(thing)

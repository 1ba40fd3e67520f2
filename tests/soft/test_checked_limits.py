"""What checked mode must not report, and what it leaves alone when it does report."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_native_py.softmetal.checked import CheckedError, DataRace, OutOfBounds

from .checked_driver import buffer, contents, device, pipeline, submit
from .checked_programs import AB, HEAD, SYNC, VARIABLE, Program, floats, zeros

_SILENT = [
    ("bytes side by side", "threadgroup uchar c[64]; c[t] = t; b[i] = c[t];", AB, 64),
    ("halves side by side in device memory", "((device half*)b)[i] = a[i];", AB, 64),
    ("bytes side by side between groups", "((device uchar*)b)[i] = i;", (floats(256), zeros(256)), 256),
    ("private arrays", "float p[8]; for (uint k = 0; k < 8; k++) p[(k + t) % 8] = a[i] + k; b[i] = p[t % 8];", AB, 64),
    ("tables in the program", "const float table[4] = {1, 2, 3, 4}; b[i] = table[t % 4] + a[i];", AB, 64),
    ("one simdgroup in step", VARIABLE + "s[t] = a[i]; float v = simd_sum(s[t]); b[i] = s[t ^ 1] + v;", AB, 64),
    ("shuffles", "b[i] = simd_shuffle_xor(a[i], 1) + simd_prefix_inclusive_sum(a[i]);", AB, 64),
    ("early return of all", VARIABLE + f"s[t] = a[i]; if (a[63] < 5) return; {SYNC} b[i] = s[63 - t];", AB, 64),
    ("return after the last barrier", VARIABLE + f"s[t] = a[i]; {SYNC} if (t >= 40) return; b[i] = s[39 - t];", AB, 64),
    ("two rounds", VARIABLE + f"if (t == 1) s[0] = 1; {SYNC} if (t == 0) s[0] = 2; {SYNC} b[i] = s[0];", AB, 64),
    ("partial last group", "b[i] = a[i];", (floats(100), zeros(100)), 100),
    (
        "atomics by all groups",
        "atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed); a[i] = 0;",
        (floats(256), zeros(4)),
        256,
    ),
    (
        "a large threadgroup array",
        f"threadgroup float big[8192]; big[t * 128] = a[i]; {SYNC} b[i] = big[(63 - t) * 128];",
        AB,
        64,
    ),
    (
        "device memory across a barrier",
        "b[i] = a[i]; threadgroup_barrier(mem_flags::mem_device); a[i] = b[63 - t];",
        AB,
        64,
    ),
    (
        "structures by value",
        "struct S { float x[5]; int n; }; S s; s.x[t % 5] = a[i]; s.n = t; S u = s; b[i] = u.x[t % 5] + u.n;",
        AB,
        64,
    ),
]


@pytest.mark.parametrize(("name", "body", "args", "threads"), _SILENT, ids=[row[0] for row in _SILENT])
def test_right_kernels_are_silent(name: str, body: str, args: tuple[object, ...], threads: int) -> None:
    program = Program(name, body, args, CheckedError, [], threads=threads)
    commands = submit(program, program.source)
    commands.waitUntilCompleted()
    assert commands.error() is None


def test_a_bad_write_is_not_carried_out() -> None:
    source = HEAD + "kernel void k(device float* a, uint i [[thread_position_in_grid]]) { if (i == 3) a[8] = 7; }"
    state = pipeline(source, "k")
    buffer = device().newBufferWithLength_options_(64, 0)
    commands = device().newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    encoder.setBuffer_offset_atIndex_(buffer, 32 + 16, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((32, 1, 1), (32, 1, 1))
    encoder.endEncoding()
    commands.commit()
    with pytest.raises(OutOfBounds):
        commands.waitUntilCompleted()
    assert not contents(buffer, np.uint8).any()


def test_a_device_goes_on_after_a_report() -> None:
    bad = Program("bad", "b[i + 1] = a[i];", AB, OutOfBounds, [])
    for _ in range(20):
        with pytest.raises(OutOfBounds):
            submit(bad, bad.source).waitUntilCompleted()
    good = Program("good", "b[i] = a[i];", AB, OutOfBounds, [])
    commands = submit(good, good.source)
    commands.waitUntilCompleted()
    assert commands.error() is None


_BYTES = "((device uchar*)b)[i] = ((device uchar*)b)[64 + i]; threadgroup uchar c[64]; c[t] = t; "
_ATOMIC = "atomic_fetch_add_explicit((device atomic_uint*)b, 1u, memory_order_relaxed);"
_RACES = [
    ("bytes", "((device uchar*)b)[i / 2] = t;"),
    ("words", "b[i / 2] = t;"),
    ("shared bytes", "threadgroup uchar c[64]; c[t / 2] = t; b[i] = a[i];"),
    ("shared words", VARIABLE + "s[t / 2] = t; b[i] = a[i];"),
    ("atomic and plain", f"{_ATOMIC} if (t == 1) b[0] = 1;"),
]


@pytest.mark.parametrize(("name", "body"), _RACES, ids=[row[0] for row in _RACES])
def test_what_earlier_dispatches_did_changes_nothing(name: str, body: str) -> None:
    """Memory of bytes, words and atomics is noted differently, and notes are used again."""
    raced = Program(name, body, AB, DataRace, [])
    for before in (_BYTES, _ATOMIC, "b[i] = a[i];"):
        right = Program("right", before, AB, DataRace, [])
        commands = submit(right, right.source)
        commands.waitUntilCompleted()
        assert commands.error() is None
        with pytest.raises(DataRace):
            submit(raced, raced.source).waitUntilCompleted()


def test_every_place_is_reported_once() -> None:
    body = VARIABLE + "s[t] = a[i]; b[i] = s[63 - t] + s[(t + 1) % 64];"
    program = Program("twice", body, AB, DataRace, [])
    commands = submit(program, program.source)
    with pytest.raises(DataRace) as caught:
        commands.waitUntilCompleted()
    reports = [caught.value, *caught.value.others]
    assert 2 <= len(reports) <= 6
    assert commands.error().userInfo()["SoftMetalFinding"] is caught.value


def test_the_report_names_label_and_groups() -> None:
    source = HEAD + "kernel void spill(device float* out, uint i [[thread_position_in_grid]]) { out[i] = i; }"
    state = pipeline(source, "spill")
    result = buffer(zeros(100), "the output")
    commands = device().newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    encoder.setBuffer_offset_atIndex_(result, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((128, 1, 1), (8, 1, 1))
    encoder.endEncoding()
    commands.commit()
    with pytest.raises(OutOfBounds) as caught:
        commands.waitUntilCompleted()
    for text in ("'spill'", "label 'the output'", "400 bytes", "threadgroup (1"):
        assert text in str(caught.value)


def test_threadgroup_variables_take_the_room_that_they_take_elsewhere() -> None:
    """Though they lie apart in checked mode."""
    from mlx_native_py.softmetal.objects.device import MTLDevice
    from mlx_native_py.softmetal.options import SoftOptions

    body = (
        "threadgroup uchar a[3]; threadgroup float4 v; threadgroup short w[5]; threadgroup long z;\n"
        "a[t % 3] = t; v = t; w[t % 5] = t; z = t; out[i] = a[0] + v.x + w[1] + z;"
    )
    source = (
        f"{HEAD}kernel void k(device float* out, uint i [[thread_position_in_grid]],\n"
        f"uint t [[thread_index_in_threadgroup]]) {{ {body} }}"
    )
    plain = MTLDevice(SoftOptions())
    library, _ = plain.newLibraryWithSource_options_error_(source, None, None)
    state, _ = plain.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
    assert state.staticThreadgroupMemoryLength() == 56
    assert pipeline(source, "k").staticThreadgroupMemoryLength() == 56


@pytest.mark.parametrize("count", [225, 226])
def test_how_many_threadgroup_variables_there_may_be(count: int) -> None:
    names = [f"v{number}" for number in range(count)]
    body = "".join(f"threadgroup float {name}; {name} = i; out[i] += {name};\n" for name in names)
    source = f"{HEAD}kernel void k(device float* out, uint i [[thread_position_in_grid]]) {{ {body} }}"
    library, _ = device().newLibraryWithSource_options_error_(source, None, None)
    state, error = device().newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
    assert (state is None) == (count > 225)
    assert state is not None or "226 threadgroup variables" in error.localizedDescription()


def test_threadgroup_variables_with_long_names() -> None:
    name = "v" * 300
    program = Program(
        "long", f"threadgroup float {name}[4];\nthreadgroup float *p = {name};\nb[i] = p[t + 4];", AB, OutOfBounds, []
    )
    with pytest.raises(OutOfBounds, match=r"'v{119}' \(16 bytes\): byte offset 16"):
        submit(program, program.source).waitUntilCompleted()

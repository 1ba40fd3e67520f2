"""What the host sees of a kernel: include paths, argument buffers, limits and pipeline errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlx_native_py.softmetal.msl import open_library
from mlx_native_py.softmetal.program import CompileError, SourceOptions

from .harness import Rejected, buffer_of, library, pipeline, run

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


def test_argument_buffer() -> None:
    source = f"""{HEAD}
struct Table {{ device const float* a; device float* out; constant int* n; float scale; }};
kernel void k(constant Table& t [[buffer(0)]], uint i [[thread_position_in_grid]]) {{
  if (i < uint(t.n[0])) t.out[i] = t.a[i] * t.scale;
}}"""
    values = np.arange(16, dtype=np.float32)
    a, out, n = buffer_of(values), buffer_of(np.zeros_like(values)), buffer_of(np.array([12], np.int32))
    addresses = np.array([a.gpuAddress(), out.gpuAddress(), n.gpuAddress()], np.uint64)
    table = buffer_of(np.frombuffer(addresses.tobytes() + np.float32(2.5).tobytes() + bytes(4), np.uint8))
    run(source, "k", table, threads=16, group=16, resident=[a, out, n])
    got = np.frombuffer(bytes(out.contents().as_buffer(64)), np.float32)
    np.testing.assert_array_equal(got, np.where(np.arange(16) < 12, values * 2.5, 0))


def test_array_of_pointers() -> None:
    source = f"""{HEAD}
struct Rows {{ array<device float*, 3> rows; }};
kernel void k(device Rows& r [[buffer(0)]], uint i [[thread_position_in_grid]]) {{
  for (uint j = 0; j < 3; j++) r.rows[j][i] = float(10 * j + i);
}}"""
    rows = [buffer_of(np.zeros(4, np.float32)) for _ in range(3)]
    table = buffer_of(np.array([row.gpuAddress() for row in rows], np.uint64))
    run(source, "k", table, threads=4, group=4, resident=rows)
    for j, row in enumerate(rows):
        got = np.frombuffer(bytes(row.contents().as_buffer(16)), np.float32)
        np.testing.assert_array_equal(got, 10 * j + np.arange(4))


def test_own_headers(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "scale.h").write_text("#pragma once\ninline float scaled(float v) { return v * FACTOR; }\n")
    twice = '#include "inner/scale.h"\n#include "inner/scale.h"\n#define TWICE(v) (scaled(v) * 2)\n'
    (tmp_path / "outer.h").write_text(twice)
    source = f'{HEAD}#include "outer.h"\nkernel void k(device float* out) {{ out[0] = TWICE(out[0]); }}'
    options = SourceOptions(include_paths=(tmp_path,), macros=(("FACTOR", "3"),))
    assert set(open_library(source, options).kernels) == {"k"}


def test_error_inside_a_header(tmp_path: Path) -> None:
    (tmp_path / "broken.h").write_text("inline float f(float v) {\n  return w;\n}\n")
    source = f'{HEAD}#include "broken.h"\nkernel void k(device float* out) {{}}'
    with pytest.raises(CompileError) as refusal:
        open_library(source, SourceOptions(include_paths=(tmp_path,)))
    first = refusal.value.diagnostics[0]
    assert (Path(first.file).name, first.line) == ("broken.h", 2)


def test_max_total_threads() -> None:
    source = f"{HEAD}[[max_total_threads_per_threadgroup(96)]] kernel void k(device float* out) {{ out[0] = 1; }}"
    assert pipeline(source, "k").maxTotalThreadsPerThreadgroup() == 96


def test_static_threadgroup_memory() -> None:
    source = f"{HEAD}kernel void k(device float* out) {{ threadgroup float t[100]; t[0] = 1; out[0] = t[0]; }}"
    assert pipeline(source, "k").staticThreadgroupMemoryLength() >= 400


def test_threadgroup_memory_limit() -> None:
    body = "threadgroup float t[{}]; t[i] = i; threadgroup_barrier(mem_flags::mem_threadgroup); out[i] = t[31 - i];"
    parameters = "device float* out, uint i [[thread_position_in_threadgroup]]"
    fitting = f"{HEAD}kernel void k({parameters}) {{ {body.format(8192)} }}"
    assert pipeline(fitting, "k").staticThreadgroupMemoryLength() == 32768
    with pytest.raises(Rejected, match="32768"):
        pipeline(f"{HEAD}kernel void k({parameters}) {{ {body.format(8193)} }}", "k")


def test_missing_function_constant() -> None:
    source = f"{HEAD}constant int n [[function_constant(2)]];\nkernel void k(device int* out) {{ out[0] = n; }}"
    with pytest.raises(Rejected, match="n|constant"):
        pipeline(source, "k")


def test_function_names() -> None:
    source = f"""{HEAD}
template <typename T> kernel void f(device T* a) {{ a[0] = T(1); }}
template [[host_name("f_half")]] kernel void f<half>(device half*);
kernel void plain(device float* a) {{}}"""
    assert set(library(source).functionNames()) == {"f_half", "plain"}


def test_warning_does_not_refuse() -> None:
    assert library(f"{HEAD}kernel void k(device float* out) {{ int unused = 1; out[0] = 0; }}") is not None

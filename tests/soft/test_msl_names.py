"""Names of kernels: those of builtins, of functions beside them, and kernels that call kernels."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import rejections, run

HEADER = "#include <metal_stdlib>\nusing namespace metal;\n"
PARAMETERS = "(device float* a [[buffer(0)]], uint i [[thread_position_in_grid]])"
HALVE = f"{PARAMETERS} {{ a[i] = a[i] / 2; }}"


@pytest.mark.parametrize("name", ["divide", "exp", "min", "select", "vec", "array", "group", "lane", "local", "pipe"])
def test_kernel_named_like_something_known(name: str) -> None:
    source = f"{HEADER}kernel void {name}{HALVE}"
    assert run(source, name, np.full(8, 4, np.float32), threads=8)[0].tolist() == [2] * 8


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        (f"kernel void pow{PARAMETERS} {{ a[i] = pow(a[i], 2.0f); }}", "pow", 16),
        (f"kernel void exp2{PARAMETERS} {{ a[i] = exp2(a[i]); }}", "exp2", 16),
        (
            "template <typename T> kernel void min(device T* a, uint i [[thread_position_in_grid]])"
            ' { a[i] = min(a[i], T(3)); }\ntemplate [[host_name("min_float")]] kernel decltype(min<float>) min<float>;',
            "min_float",
            3,
        ),
        (
            f"float half_of(float x) {{ return x / 2; }}\nkernel void half_of{PARAMETERS} {{ a[i] = half_of(a[i]); }}",
            "half_of",
            2,
        ),
        (f"namespace own {{ kernel void divide{HALVE} }}", "own::divide", 2),
    ],
)
def test_kernel_beside_functions_of_its_name(source: str, name: str, expected: float) -> None:
    assert run(HEADER + source, name, np.full(8, 4, np.float32), threads=8)[0].tolist() == [expected] * 8


def test_kernels_call_no_kernels() -> None:
    errors = rejections(f"{HEADER}kernel void halve{HALVE}\nkernel void twice{PARAMETERS} {{ halve(a, i); }}")
    assert errors[0].line == 4
    assert "cannot be called" in errors[0].text

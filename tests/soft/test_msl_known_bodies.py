"""Libraries that begin with the same text: what was checked once is not checked again, and nothing wrong slips in."""

from __future__ import annotations

import pytest

from mlx_native_py.softmetal.msl.known_bodies import known_bodies, remember

from .lanes_kit import fresh
from .msl_kit import HEADER, manifest, refusals, translated

START = """float square(float x) { return x * x; }
template <typename T> T twice(T x) { return x + x; }
struct Sum { float operator()(float p, float q) { return p + hidden(q); } };
"""
HIDDEN = "float hidden(float x) { return x; }\n"
KERNELS = "kernel void a(device float* x) { x[0] = twice(x[0]); }\nkernel void b(device float* x) { x[1] = 2; }\n"
OTHERS = KERNELS.replace("x[1] = 2", "x[1] = square(3)")


def known(source: str, *before: str, setting: str = "fast", instantiations: bool = True) -> set[str]:
    """The functions of a source that need no check after others."""
    checked: set[bytes] = set()
    for each in before:
        remember(manifest(each), "fast", checked)
    return set(known_bodies(manifest(source), translated(source), setting, checked, instantiations=instantiations))


def test_functions_of_the_same_start_are_known() -> None:
    first = HIDDEN + START + KERNELS
    assert known(first) == set()
    assert known(first, first) == {"square", "twice", "a", "b"}  # a class mentions the other
    assert known(HIDDEN + START + OTHERS, first) == {"twice", "a"}
    assert known(HIDDEN + START + KERNELS.replace("x[0] =", "x[2] ="), first) == {"square"}


def test_what_another_text_or_setting_has_is_not_known() -> None:
    first = HIDDEN + START + KERNELS
    assert known("constant int n = 1;\n" + first, first) == set()
    assert known(first.replace("x * x", "x * x * x"), first) == set()
    assert known(first, first, setting="safe") == set()


def test_what_instantiations_name_is_looked_at_again() -> None:
    first = START + "template <typename T> kernel void k(device T* x) { x[0] = 1; }\n"
    one = first + 'template [[host_name("f")]] kernel void k<float>(device float*);\n'
    assert known(one, first) == {"square", "twice"}
    assert known(one, first, instantiations=False) == {"square", "twice", "k"}


@pytest.mark.parametrize(
    "later",
    [
        "template <> float twice<float>(float x) { return 3 * x; }\n",
        "template <> struct Op<float> { float operator()(float x) { return x; } };\n",
    ],
)
def test_specialisations_have_all_looked_at_again(later: str) -> None:
    start = "template <typename T> struct Op { T operator()(T x) { return x + x; } };\n" + HIDDEN + START
    first = start + KERNELS.replace("twice(x[0])", "twice(x[0]) + Op<float>()(x[0])")
    assert known(first, first) and known(first + later, first) == set()


def test_functions_after_one_without_its_body_are_looked_at_again() -> None:
    first = "float later(float);\nfloat now(float x) { return later(x); }\n"
    whole = first + "float later(float x) { return x; }\n" + KERNELS
    assert known(whole, whole) == set()


@pytest.mark.parametrize(
    "body",
    [
        "float wrong(float x) { return y; }",
        "kernel void c(device float* x) { x[0] = square(x); }",
        "kernel void c(device float* x) { x[0] = twice(1, 2); }",
        "kernel void c(device float* x) { nowhere(x); }",
    ],
)
def test_errors_after_a_known_start_stand_at_their_place(body: str) -> None:
    start = fresh(HEADER + HIDDEN + START + KERNELS)
    assert refusals(start) == ()
    (error, *_) = refusals(start + body)
    assert (error.line, error.source_line) == (start.count("\n") + 1, body)


def test_a_start_that_was_refused_is_refused_again() -> None:
    wrong = fresh(HEADER + "float f(float x) { return y; }")
    plain = KERNELS.replace("twice", "")
    assert refusals(wrong + plain) == refusals(wrong + plain) != ()
    assert refusals(wrong + plain.replace("2", "3")) != ()

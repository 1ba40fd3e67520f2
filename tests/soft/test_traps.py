"""What stops a processor, and would stop a GPU in no way that its process sees: it costs the command buffer."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mlx_native_py.softmetal.checked import CheckedError

from . import lanes_kit as kit

LEAST, LONG_LEAST = -(1 << 31), -(1 << 63)
DIVISION, ADDRESS, EITHER = "division by zero", "bad address", "division by zero|^$"  # some processors go on
# What a thread does with a and b, and their values.
FORMS: dict[str, tuple[str, int, int, str]] = {
    "int / 0": ("out[i] = int(a) / int(b);", 7, 0, DIVISION),
    "int % 0": ("out[i] = int(a) % int(b);", 7, 0, DIVISION),
    "uint / 0": ("out[i] = uint(a) / uint(b);", 7, 0, DIVISION),
    "uint % 0": ("out[i] = uint(a) % uint(b);", 7, 0, DIVISION),
    "long / 0": ("out[i] = a / b;", 7, 0, DIVISION),
    "ulong % 0": ("out[i] = ulong(a) % ulong(b);", 7, 0, DIVISION),
    "short / 0": ("out[i] = short(a) / short(b);", 7, 0, DIVISION),
    "uchar % 0": ("out[i] = uchar(a) % uchar(b);", 7, 0, DIVISION),
    "vector / 0": ("out[i] = (int4(int(a)) / int4(1, 2, int(b), 4)).z;", 7, 0, DIVISION),
    "one thread / 0": ("out[i] = i == 41 ? int(a) / int(b) : 1;", 7, 0, DIVISION),
    "least int / -1": ("out[i] = int(a) / int(b);", LEAST, -1, EITHER),
    "least int % -1": ("out[i] = int(a) % int(b);", LEAST, -1, EITHER),
    "least long / -1": ("out[i] = a / b;", LONG_LEAST, -1, EITHER),
    "shift by 200": ("out[i] = (int(a) << int(b)) + (uint(a) >> uint(b)) + (a << b);", 7, 200, "^$"),
    "float to int": ("out[i] = int(float(a) * 1e30f) + int(0.0f / float(b));", 7, 0, "^$"),
    "null read": ("out[i] = *(device int *)ulong(b);", 7, 0, ADDRESS),
    "null write": ("*(device int *)ulong(b) = int(a);", 7, 0, ADDRESS),
    "wild read": ("out[i] = *(device int *)ulong(b);", 7, 0x1234560, ADDRESS),
    "wild write": ("*(device int *)ulong(b) = int(a);", 7, 0x1234560, ADDRESS),
    "no address at all": ("out[i] = *(device int *)ulong(b);", 7, LONG_LEAST, ADDRESS),
    "one thread wild": ("if (i == 41) *(device int *)ulong(b) = int(a);", 7, 64, ADDRESS),
    "far index": ("out[a] = 1;", 1 << 26, 0, ADDRESS),
    "far index before": ("out[-a] = 1;", 1 << 26, 0, ADDRESS),
}
CASES = "\n".join(f"case {number}: {{ {text} break; }}" for number, (text, *_) in enumerate(FORMS.values()))
SOURCE = f"""kernel void k(device int *out, device const long *in, uint i [[thread_position_in_grid]]) {{
  long a = in[1], b = in[2];
  switch (in[0]) {{ {CASES} default: out[i] = int(i) + int(b); }}
}}"""


def told(state: object, number: int, a: int, b: int) -> tuple[str, list[int]]:
    """The error of a launch, or nothing, and what the launch wrote."""
    try:
        (out, _), commands = kit.launch(
            state, [np.zeros(64, np.int32), np.array([number, a, b], np.int64)], (64, 1, 1), (64, 1, 1)
        )
    except CheckedError as caught:
        return str(caught), []
    error = commands.error()
    return "" if error is None else error.localizedDescription(), out.tolist()


@pytest.mark.parametrize(("engine", "checked"), kit.EVERY)
def test_each_is_told_and_the_next_launch_is_right(engine: str, checked: bool) -> None:
    state = kit.pipeline(SOURCE, kit.device(engine, checked))
    for number, (name, (_, a, b, said)) in enumerate(FORMS.items()):
        text, _ = told(state, number, a, b)
        if checked and said == ADDRESS:
            assert text, name  # with more than the address
        else:
            assert re.search(said, text), f"{name}: {text!r}"
        assert told(state, -1, 0, 3) == ("", list(range(3, 67))), name


def test_there_are_enough() -> None:
    assert sum(said in (DIVISION, ADDRESS) for *_, said in FORMS.values()) >= 15

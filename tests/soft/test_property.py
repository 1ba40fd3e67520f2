"""Random programs: what a kernel computes is what Python computes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conformance.batch import Batch, Check, outcomes
from .conformance.expressions import INPUTS, Expression, Program, expression, stored
from .conformance.layout import INTEGERS

PER_PROGRAM = 6
EXAMPLES = max(1, settings.default.max_examples * 2 // 5) if settings.default else 20
BARRIER = "threadgroup_barrier(mem_flags::mem_none);"


@st.composite
def programs(draw: Any, kinds: tuple[str, ...]) -> tuple[list[Expression], list[str]]:
    """Several expressions and the statements before them; some programs synchronise, so both engines are met."""
    program = Program()
    results = [expression(draw, program, draw(st.sampled_from(kinds)), 3) for _ in range(PER_PROGRAM)]
    statements = [*program.statements, BARRIER] if draw(st.booleans()) else program.statements
    return results, statements


def _check(results: list[Expression], statements: list[str]) -> None:
    used = " ".join([*statements, *(r.text for r in results)])
    inputs = {name: value for name, value in INPUTS.items() if name in used}
    checks = [Check(str(n), r.text, r.kind, stored(r)) for n, r in enumerate(results)]
    batch = Batch("random", checks, inputs, before="\n".join(statements), threads=len(results[0].values), group=20)
    got = outcomes(batch)
    for n, result in enumerate(results):
        values = got[n]
        assert not isinstance(values, str), f"{result.text}: {values}"
        want = stored(result)
        wrong = result.certain & (values != want)
        lane = int(np.argmax(wrong))
        assert not wrong.any(), f"lane {lane} of {result.text}: got {values[lane]}, expected {want[lane]}"


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(programs(INTEGERS))
def test_integers(program: tuple[list[Expression], list[str]]) -> None:
    _check(*program)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(programs(("float", "float", "int", "uchar")))
def test_floats(program: tuple[list[Expression], list[str]]) -> None:
    _check(*program)

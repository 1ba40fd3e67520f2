"""Many checks in one kernel: each writes to its own slot and is judged by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ..harness import Rejected, run
from .compare import mismatch
from .layout import layout

Array = NDArray[Any]
Expected = Callable[[Any], Any] | Array | float | int | bool

_ALIGNMENT = 64


@dataclass(frozen=True, eq=False)
class Check:
    """An MSL expression of type `result` (after optional statements) and the values it must give."""

    name: str
    expression: str
    result: str
    expected: Expected
    ulp: float | None = None
    atol: float = 0.0
    before: str = ""


@dataclass(frozen=True, eq=False)
class Batch:
    """Checks over the same inputs; thread i sees element i of each input under the input's name."""

    name: str
    checks: Sequence[Check]
    inputs: dict[str, tuple[str, Array]] = field(default_factory=dict)
    prelude: str = ""
    parameters: str = ""
    before: str = ""
    threads: int = 0
    group: int = 32
    math_mode: int | None = None
    shared: Sequence[int] = ()

    @property
    def count(self) -> int:
        return self.threads or max((len(values) for _, values in self.inputs.values()), default=1)


@dataclass(frozen=True)
class _Source:
    text: str
    lines: dict[int, int]  # line -> check
    offsets: dict[int, int]  # check -> byte offset of its slot
    size: int


def _source(batch: Batch, chosen: Sequence[int]) -> _Source:
    head = ["#include <metal_stdlib>", "#include <metal_simdgroup_matrix>", "using namespace metal;"]
    head += batch.prelude.splitlines()
    params = ["device uchar* out [[buffer(0)]]"]
    params += [
        f"device const {kind}* in_{name} [[buffer({slot})]]"
        for slot, (name, (kind, _)) in enumerate(batch.inputs.items(), 1)
    ]
    params += [*filter(None, [batch.parameters]), "uint i [[thread_position_in_grid]]"]
    head += [f"kernel void checks({', '.join(params)}) {{"]
    head += [f"  {kind} {name} = in_{name}[i];" for name, (kind, _) in batch.inputs.items()]
    head += batch.before.splitlines()
    lines, offsets, end = {}, {}, 0
    for index in chosen:
        check = batch.checks[index]
        offsets[index] = end
        slot = f"((device {check.result}*)(out + {end}))[i]"
        head.append(f"  {{ {_one_line(check.before)} {slot} = {_one_line(check.expression)}; }}")
        lines[len(head)] = index
        end += -(-layout(check.result).size * batch.count // _ALIGNMENT) * _ALIGNMENT
    return _Source("\n".join([*head, "}", ""]), lines, offsets, end)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@functools.lru_cache(maxsize=8)
def outcomes(batch: Batch) -> dict[int, Array | str]:
    """Values by check; checks that the compiler refuses get its message, and the rest run without them."""
    refused: dict[int, str] = {}
    for _ in range(6):
        chosen = [n for n in range(len(batch.checks)) if n not in refused]
        if not chosen:
            break
        source = _source(batch, chosen)
        try:
            return {**refused, **_run(batch, source)}
        except Rejected as refusal:
            blamed = {source.lines[e.line]: e.text for e in refusal.errors if e.line in source.lines}
            refused.update(blamed or dict.fromkeys(chosen, str(refusal)))
    return {n: refused.get(n, "too many refused checks in this batch") for n in range(len(batch.checks))}


def _run(batch: Batch, source: _Source) -> dict[int, Array]:
    inputs = [layout(kind).encode(values) for kind, values in batch.inputs.values()]
    out = np.full(max(source.size, _ALIGNMENT), 0xA5, dtype=np.uint8)
    raw = run(
        source.text,
        "checks",
        out,
        *inputs,
        threads=batch.count,
        group=batch.group,
        math_mode=batch.math_mode,
        shared=batch.shared,
    )[0].tobytes()
    values = {}
    for index, offset in source.offsets.items():
        kind = layout(batch.checks[index].result)
        values[index] = kind.decode(raw[offset : offset + kind.size * batch.count], batch.count)
    return values


def verify(batch: Batch, index: int) -> None:
    """Fails the running test when check `index` of the batch does not hold."""
    check, got = batch.checks[index], outcomes(batch)[index]
    if isinstance(got, str):
        pytest.fail(f"{check.expression}: does not compile: {got}", pytrace=False)
    inputs = SimpleNamespace(**{name: values for name, (_, values) in batch.inputs.items()})
    with np.errstate(all="ignore"):
        want = check.expected(inputs) if callable(check.expected) else check.expected
        problem = mismatch(got, np.asarray(want), check.ulp, check.atol)
    if problem is not None:
        pytest.fail(f"{check.result} {check.expression}: {problem}", pytrace=False)


def parametrised(batches: Sequence[Batch]) -> pytest.MarkDecorator:
    """One test per check, named batch-check."""
    rows = [
        pytest.param(batch, index, id=f"{batch.name}-{check.name}")
        for batch in batches
        for index, check in enumerate(batch.checks)
    ]
    return pytest.mark.parametrize(("batch", "index"), rows)

"""A whole kernel written by hand, with several named results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ..harness import Size, run

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Program:
    """`results` by name: (number of the array argument, its expected contents[, index of the first element])."""

    name: str
    body: str
    args: Sequence[Any]
    results: Mapping[str, tuple[int, Any] | tuple[int, Any, int]]
    threads: Size | None = None
    threadgroups: Size | None = None
    group: Size = 32
    kernel: str = "k"
    constants: Mapping[int | str, Any] | None = None
    shared: Sequence[int] = ()
    macros: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"#include <metal_stdlib>\nusing namespace metal;\n{self.body}"


@functools.lru_cache(maxsize=4)
def _outputs(program: Program) -> list[Array]:
    return run(
        program.source,
        program.kernel,
        *program.args,
        threads=program.threads,
        threadgroups=program.threadgroups,
        group=program.group,
        constants=program.constants,
        shared=program.shared,
        macros=program.macros,
    )


def verify(program: Program, result: str) -> None:
    """Fails the running test when a named result differs."""
    slot, want, first = (*program.results[result], 0)[:3]
    got = _outputs(program)[slot]
    expected = np.asarray(want)
    part = got.reshape(-1)[first : first + expected.size].reshape(expected.shape) if expected.ndim else got
    np.testing.assert_array_equal(part, np.broadcast_to(expected, part.shape))


def parametrised(programs: Sequence[Program]) -> pytest.MarkDecorator:
    """One test per named result."""
    rows = [pytest.param(p, result, id=f"{p.name}-{result}") for p in programs for result in p.results]
    return pytest.mark.parametrize(("program", "result"), rows)


def zeros(count: int, dtype: Any = np.float32) -> Array:
    """An output array."""
    return np.zeros(count, dtype=dtype)

"""Every collective against numpy, over random shapes, types and views; rank 0 draws the cases for all."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_native_py import DType, MlxDevice
from mlx_native_py import distributed as d

group = d.init(strict=True)
device = MlxDevice()
Array = np.ndarray[Any, np.dtype[Any]]
VIEWS = ("array", "strided", "buffer", "part of a buffer")


def values(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Floats that all types add without rounding; whole numbers that overflow."""
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        return rng.integers(-16, 17, shape).astype(dtype.numpy)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.size), dtype.numpy).reshape(shape)


def placed(data: Array, view: str) -> Any:
    """The same elements in memory of another kind."""
    if view == "array":
        return data.copy()
    if view == "strided":
        room = np.zeros((*data.shape[:-1], data.shape[-1] * 2), data.dtype)
        room[..., ::2] = data
        return room[..., ::2]
    if view == "buffer":
        return device.buffer(data)
    around = np.zeros((data.shape[0] + 3, *data.shape[1:]), data.dtype)
    around[2:-1] = data
    return device.buffer(around)[2:-1]


def expected(name: str, parts: list[Array], root: int) -> Array:
    with np.errstate(all="ignore"):
        match name:
            case "all_sum":
                return np.sum(parts, axis=0, dtype=parts[0].dtype)
            case "all_max":
                return np.asarray(np.max(parts, axis=0))
            case "all_min":
                return np.asarray(np.min(parts, axis=0))
            case "all_gather":
                return np.concatenate(parts)
            case "sum_scatter":
                return np.split(np.sum(parts, axis=0, dtype=parts[0].dtype), group.size)[group.rank]
    return parts[root]


@dataclass(frozen=True)
class Case:
    name: str
    dtype: DType
    shape: tuple[int, ...]
    view: str
    out: str
    behind: bool
    seed: int

    def run(self) -> None:
        shape = (self.shape[0] * group.size, *self.shape[1:]) if self.name == "sum_scatter" else self.shape
        rng = np.random.default_rng(self.seed)
        parts = [values(rng, self.dtype, shape) for _ in range(group.size)]
        root = int(rng.integers(group.size))
        x = placed(parts[group.rank], self.view)
        if self.name == "send":
            passed_on(x, parts, root)
            return
        want = expected(self.name, parts, root)
        options: dict[str, Any] = {"root": root} if self.name == "broadcast" else {}
        if self.out == "itself" and want.shape == shape:
            options["out"] = x
        elif self.out in VIEWS:
            options["out"] = placed(np.zeros(want.shape, want.dtype), self.out)
        collective = getattr(d, self.name)
        got = d.begin(collective, x, **options).wait() if self.behind else collective(x, **options)
        assert type(got) is type(options.get("out", x))
        assert np.asarray(got).dtype == self.dtype.numpy and np.array_equal(got, want), (got, want)
        if options.get("out") is not x:
            assert np.array_equal(x, parts[group.rank]), "the input has changed"


def passed_on(x: Any, parts: list[Array], root: int) -> None:
    """From one rank to the next."""
    after = (root + 1) % group.size
    if group.rank == root != after:
        assert d.send(x, after) is x
    elif group.rank == after != root:
        got = d.recv_like(x, root)
        assert type(got) is type(x) and np.array_equal(got, parts[root])


def outcomes(case: Case) -> list[str]:
    """What went wrong on each rank."""
    try:
        case.run()
        found = ""
    except Exception:
        found = traceback.format_exc()
    return group.gather_objects(found)


SUMS = ("all_sum", "sum_scatter")
CASES = st.builds(
    Case,
    name=st.sampled_from([*SUMS, "all_max", "all_min", "all_gather", "broadcast", "send"]),
    dtype=st.sampled_from(list(DType)),
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3).map(tuple),
    view=st.sampled_from(VIEWS),
    out=st.sampled_from(["new", "itself", *VIEWS]),
    behind=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
).filter(lambda case: case.dtype is not DType.BOOL or case.name not in SUMS)


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(CASES)
def check(case: Case) -> None:
    group.gather_objects(case)
    result = outcomes(case)
    assert not any(result), "\n".join(result)


if group.rank == 0:
    try:
        check()
    finally:
        group.gather_objects(None)
else:
    while (case := group.gather_objects(None)[0]) is not None:
        outcomes(case)

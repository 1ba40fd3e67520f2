"""Comparison of profiles: a change counts where it exceeds the noise of the calls."""

from __future__ import annotations

import random

import pytest

from mlx_native_py.errors import InvalidArgument
from mlx_native_py.profiling.compare import compare
from mlx_native_py.profiling.records import CommandBufferRecord, DispatchRecord


def run(*, seed: int, mean_us: float, noise: float = 0.05, calls: int = 20, kernel: str = "k") -> CommandBufferRecord:
    """A command buffer whose first call is far off, as first calls are."""
    source = random.Random(seed)
    times = [1e6, *(source.gauss(mean_us, noise * mean_us) * 1e3 for _ in range(calls))]
    dispatches = [
        DispatchRecord(index, kernel, "", "", ("region",), 64, 64, 0, gpu_ns=ns, warm_up=index == 0)
        for index, ns in enumerate(times)
    ]
    return CommandBufferRecord(1, "cb", "device", 1, 0, 1, 2, 3, 4, "measured", dispatches=dispatches)


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (run(seed=2, mean_us=100), "same"),
        (run(seed=2, mean_us=130), "slower"),
        (run(seed=2, mean_us=70), "faster"),
        (run(seed=2, mean_us=130, noise=0.8), "same"),
        (run(seed=2, mean_us=130, calls=2), "too few calls"),
    ],
)
def test_verdicts(after: CommandBufferRecord, verdict: str) -> None:
    result = compare([run(seed=1, mean_us=100)], [after], "kernel")
    (change,) = result.changes
    assert change.verdict == verdict
    assert bool(result.slower) == (verdict == "slower")
    assert verdict in result.table().text()


def test_new_and_gone() -> None:
    result = compare([run(seed=1, mean_us=1)], [run(seed=1, mean_us=1, kernel="other")], "kernel")
    assert {change.name: change.verdict for change in result.changes} == {"k": "gone", "other": "new"}


def test_sizes_are_compared_with_their_own() -> None:
    """Twice as many small calls would halve the mean, and say nothing."""
    small, large = run(seed=1, mean_us=1), run(seed=1, mean_us=100)
    for dispatch in large.dispatches:
        dispatch.bytes_read = 1 << 20
    more = [small, small, large]
    (change,) = compare([small, large], more, "kernel").changes
    assert change.verdict == "same" and change.before_ns == change.after_ns


def test_what_costs_most_comes_first() -> None:
    before = [run(seed=1, mean_us=1, kernel="a"), run(seed=1, mean_us=100, kernel="b")]
    after = [run(seed=2, mean_us=2, kernel="a"), run(seed=2, mean_us=150, kernel="b")]
    assert [change.name for change in compare(before, after, "kernel").changes] == ["b", "a"]


@pytest.mark.parametrize("by", ["label", "op", "region"])
def test_by_other_things(by: str) -> None:
    record = run(seed=1, mean_us=1)
    (change,) = compare([record], [record], by).changes  # type: ignore[arg-type]
    assert change.name == {"label": "cb", "op": "k", "region": "region"}[by]
    with pytest.raises(InvalidArgument, match="by='file'"):
        compare([record], [record], "file")  # type: ignore[arg-type]

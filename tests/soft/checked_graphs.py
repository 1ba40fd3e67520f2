"""Graphs of ops as models run them, each recorded with what its dispatches declare and what they touch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Dispatch, MlxBuffer, MlxDevice, ops
from mlx_native_py.hazards.ranges import Span
from mlx_native_py.hazards.tracker import MemRanges
from mlx_native_py.softmetal.checked import DispatchCheck, DispatchName, Footprint, HazardCheck


@dataclass(frozen=True)
class Step:
    """What a dispatch declares, and what it touched; without its buffers, which would slow down later graphs."""

    kernel: str
    reads: list[Span]
    writes: list[Span]
    touched: Footprint


def _weights(device: MlxDevice, *shape: int) -> MlxBuffer:
    return device.buffer(np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32) / 8)


def _mlp(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    gate, down = _weights(d, x.shape[-1], width), _weights(d, width, x.shape[-1])
    scale = d.ones(x.shape[-1])
    for _ in range(layers):
        normed = ops.rms_norm(enc, x, scale)
        hidden = ops.silu(enc, ops.matmul(enc, normed, gate))
        x = ops.add(enc, x, ops.matmul(enc, hidden, down))


def _in_place(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """Two buffers that are overwritten again and again, so that writes wait for reads."""
    y = d.zeros(x.shape)
    for _ in range(layers):
        ops.add(enc, x, x, y)
        ops.mul(enc, y, y, x)
        ops.scalar_mul(enc, x, 0.25, y)
        ops.add(enc, y, x, x)


def _views(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """Halves of one buffer: some meet and some do not."""
    half = x.shape[0] // 2
    for _ in range(layers):
        ops.scalar_mul(enc, x[:half], 0.5, x[half:])
        ops.add(enc, x[half:], x[half:], x[:half])
        ops.softmax(enc, x, out=x)


def _attention(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    weights = [_weights(d, x.shape[-1], x.shape[-1]) for _ in range(3)]
    for _ in range(layers):
        q, k, v = (ops.matmul(enc, x, each) for each in weights)
        scores = ops.softmax(enc, ops.matmul(enc, q, ops.transpose_2d(enc, k)))
        x = ops.add(enc, x, ops.matmul(enc, scores, v))


def _sampling(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    for _ in range(layers):
        chances = ops.softmax(enc, x)
        ops.argsort(enc, chances)
        ops.argmax(enc, chances)
        x = ops.cumsum(enc, chances)
        ops.row_sum(enc, x)


def _overwritten(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """A write waits for a read alone, then for a write alone, then a read for a write."""
    y, z = d.zeros(x.shape), d.ones(x.shape)
    for _ in range(layers):
        ops.scalar_mul(enc, x, 0.5, y)
        ops.scalar_mul(enc, z, 0.5, x)
        ops.scalar_mul(enc, z, 0.25, x)


def _quarters(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """Parts of one buffer that touch, and so need no barrier, until one is read that was written."""
    quarter = x.shape[0] // 4
    one, two, three, four = (x[at * quarter : (at + 1) * quarter] for at in range(4))
    for _ in range(layers):
        ops.scalar_mul(enc, one, 0.5, two)
        ops.scalar_mul(enc, four, 0.5, three)
        ops.add(enc, two, three, one)


def _slices(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """Ops on random rows of three buffers."""
    chosen, buffers = random.Random(f"{x.shape} {layers}"), (x, d.ones(x.shape), d.ones(x.shape))
    for _ in range(layers):
        random_op(enc, chosen, buffers)


def _experts(enc: Any, d: MlxDevice, x: MlxBuffer, layers: int, width: int) -> None:
    """Layers of a mixture of experts, in which tokens are sorted by theirs and put back."""
    experts, hidden = 4, x.shape[-1]
    router, scale = _weights(d, experts, hidden), d.ones(hidden)
    both, down = _weights(d, experts, 2 * width, hidden), _weights(d, experts, hidden, width)
    for _ in range(layers):
        ids, shares = ops.moe_gate(enc, x, router, scale, top_k=2)
        _, _, order, places = ops.moe_sort(enc, ids, experts=experts)
        sorted_ids = ops.gather(enc, ids.reshape(ids.size, 1), order)
        rows = ops.moe_permute(enc, x, order, top_k=2)
        inner = ops.moe_swiglu(enc, ops.matmul_id(enc, rows.reshape(rows.shape[0], 1, hidden), both, sorted_ids))
        out = ops.matmul_id(enc, inner, down, sorted_ids).reshape(rows.shape)
        x = ops.moe_unpermute(enc, out, places, shares, x)


def random_op(enc: Any, chosen: random.Random, buffers: Sequence[MlxBuffer]) -> None:
    """Its result is one of its operands, or has no row in common with them."""
    total = buffers[0].shape[0]
    rows = chosen.randint(1, total // 3)

    def part() -> tuple[int, int]:
        return chosen.randrange(len(buffers)), chosen.randint(0, total - rows)

    out, operands = part(), [part() for _ in range(2)]
    operands = [out if at[0] == out[0] and abs(at[1] - out[1]) < rows else at for at in operands]
    a, b, c = (buffers[which][first : first + rows] for which, first in (*operands, out))
    runs: list[Callable[[], object]] = [
        lambda: ops.add(enc, a, b, c),
        lambda: ops.mul(enc, a, b, c),
        lambda: ops.scalar_mul(enc, a, 0.5, c),
        lambda: ops.softmax(enc, a, out=c),
    ]
    chosen.choice(runs)()


FORMS: dict[str, Callable[..., None]] = {
    "mlp": _mlp,
    "in place": _in_place,
    "views": _views,
    "attention": _attention,
    "sampling": _sampling,
    "experts": _experts,
    "overwritten": _overwritten,
    "quarters": _quarters,
    "slices": _slices,
}
Graph = tuple[str, int, int]
"""A form, its rows, and its layers."""
SHORT: list[Graph] = [
    *((form, rows, 4) for form in ("overwritten", "quarters") for rows in (8, 12)),
    *(("slices", rows, 60) for rows in (16, 24)),
]
LONG: list[Graph] = [
    *((form, rows, layers) for form in list(FORMS)[:6] for rows, layers in ((8, 2), (12, 3), (16, 4))),
    *(("slices", rows, 150) for rows in (17, 25, 32, 48)),
]


def of_form(device: MlxDevice, graph: Graph) -> Callable[[Any], None]:
    """What encodes a graph."""
    form, rows, layers = graph
    x = device.buffer(np.random.default_rng(rows).standard_normal((rows, 32), dtype=np.float32))
    return lambda enc: FORMS[form](enc, device, x, layers, 24)


def recorded(device: MlxDevice, encode: Callable[[Any], None], patch: pytest.MonkeyPatch) -> list[Step]:
    """Runs a graph on a checked device, which has nothing to complain about."""
    seen: list[Footprint] = []
    plain = DispatchCheck.footprint

    def footprint(self: DispatchCheck) -> Footprint:
        seen.append(plain(self))
        return seen[-1]

    with patch.context() as patched, device.command_encoder() as enc:
        patched.setattr(DispatchCheck, "footprint", footprint)
        enc.start_capture()
        encode(enc)
        nodes = [node for node in enc.take_capture() or [] if isinstance(node, Dispatch)]
        for node in nodes:
            enc.replay_dispatch(node)
        enc.commit_and_wait()
    assert len(seen) == len(nodes)
    return [Step(node.pipeline.label, *node.spans, touched) for node, touched in zip(nodes, seen, strict=True)]


def needed(steps: list[Step]) -> set[int]:
    """Before which steps a barrier must be, by every pair of dispatches and their bytes."""
    places: set[int] = set()
    for at, step in enumerate(steps):
        since = max(places, default=0)
        if any(conflict(earlier, step) for earlier in steps[since:at]):
            places.add(at)
    return places


def conflict(one: Step, two: Step) -> bool:
    """Whether what they declare keeps them from running side by side."""
    pairs = [*product(one.writes, (*two.reads, *two.writes)), *product(one.reads, two.writes)]
    return any(a[0] is b[0] and a[1] < b[2] and b[1] < a[2] for a, b in pairs)


def barriers(steps: list[Step], tracker: MemRanges | None = None) -> set[int]:
    """Before which steps a tracker wants one."""
    ranges = MemRanges() if tracker is None else tracker  # an empty one is false
    return {at for at, step in enumerate(steps) if ranges.track(step.reads, step.writes, by=at) is not None}


def hazards(steps: list[Step], places: set[int]) -> int:
    """How many pairs of dispatches a checked device finds, with barriers at these places."""
    check, found = HazardCheck(lambda address: ("buffer", 0)), 0
    for at, step in enumerate(steps):
        if at in places:
            check.barrier()
        found += len(check.dispatch(DispatchName(at, step.kernel), step.touched))
    return found

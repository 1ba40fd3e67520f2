"""Graphs of ops as models run them, each recorded with what its dispatches declare and what they touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Dispatch, MlxBuffer, MlxDevice, ops
from mlx_native_py.hazards.tracker import MemRanges
from mlx_native_py.softmetal.checked import DispatchCheck, DispatchName, Footprint, HazardCheck


@dataclass(frozen=True)
class Step:
    """A dispatch with what it declares, and what it touched."""

    node: Dispatch
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


FORMS: dict[str, Callable[..., None]] = {
    "mlp": _mlp,
    "in place": _in_place,
    "views": _views,
    "attention": _attention,
    "sampling": _sampling,
}
GRAPHS = [(form, rows, layers) for form in FORMS for rows, layers in ((8, 2), (12, 3), (16, 4))]


def recorded(device: MlxDevice, form: str, rows: int, layers: int, patch: pytest.MonkeyPatch) -> list[Step]:
    """Runs a graph on a checked device, which has nothing to complain about."""
    seen: list[Footprint] = []
    plain = DispatchCheck.footprint

    def footprint(self: DispatchCheck) -> Footprint:
        seen.append(plain(self))
        return seen[-1]

    with patch.context() as patched, device.command_encoder() as enc:
        patched.setattr(DispatchCheck, "footprint", footprint)
        enc.start_capture()
        x = device.buffer(np.random.default_rng(rows).standard_normal((rows, 32), dtype=np.float32))
        FORMS[form](enc, device, x, layers, 24)
        nodes = [node for node in enc.take_capture() or [] if isinstance(node, Dispatch)]
        for node in nodes:
            enc.replay_dispatch(node)
        enc.commit_and_wait()
    assert len(seen) == len(nodes)
    return [Step(node, touched) for node, touched in zip(nodes, seen, strict=True)]


def barriers(steps: list[Step], tracker: MemRanges | None = None) -> set[int]:
    """Before which steps a tracker wants one."""
    ranges = MemRanges() if tracker is None else tracker  # an empty one is false
    return {at for at, step in enumerate(steps) if ranges.track(*step.node.spans, by=at) is not None}


def hazards(steps: list[Step], places: set[int]) -> int:
    """How many pairs of dispatches a checked device finds, with barriers at these places."""
    check, found = HazardCheck(lambda address: ("buffer", 0)), 0
    for at, step in enumerate(steps):
        if at in places:
            check.barrier()
        found += len(check.dispatch(DispatchName(at, step.node.pipeline.label), step.touched))
    return found

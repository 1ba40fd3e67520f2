"""The decode trace: dispatches, pipeline changes, buffers and barriers in the proportions of one LLM token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..device import MlxDevice
from ..encoder import Encoder
from ..graph import ComputeGraph
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline

__all__ = ["BARRIERS", "DISPATCHES", "TracedCall", "calls", "captured", "encode"]

DISPATCHES = 1070
BARRIERS = 440
PIPELINE_CHANGES = 762
FOUR_BUFFERS = 310
WEIGHTS, ACTIVATIONS = 30, 16
SIZE = 32  # elements of a buffer: what the kernels do does not matter here
KERNELS = 6


@dataclass(frozen=True)
class TracedCall:
    """One dispatch: a kernel, its inputs and output, and its inline number."""

    pipeline: Pipeline
    reads: tuple[MlxBuffer, ...]
    out: MlxBuffer
    number: int


def _source() -> str:
    parts = ["#include <metal_stdlib>\nusing namespace metal;\n"]
    for index in range(KERNELS):
        three = "device const float *c [[buffer(2)]], " if index % 2 else ""
        at = 3 if index % 2 else 2
        value = "a[i] + b[i] + c[i]" if index % 2 else "a[i] + b[i]"
        parts.append(
            f"kernel void step_{index}(device const float *a [[buffer(0)]], device const float *b [[buffer(1)]], "
            f"{three}device float *out [[buffer({at})]], constant uint &n [[buffer({at + 1})]], "
            f"uint i [[thread_position_in_grid]]) {{ if (i < n) out[i] = 0.5f * ({value}); }}\n"
        )
    return "".join(parts)


def calls(device: MlxDevice, dispatches: int = DISPATCHES) -> list[TracedCall]:
    """The trace, or one of another length in the same proportions; deterministic."""
    rng = np.random.default_rng(1070)
    library = device.kernels.library(_source())
    pipelines = [device.kernels.get_pipeline(f"step_{index}", library=library) for index in range(KERNELS)]
    weights = [device.buffer(np.ones(SIZE, np.float32)) for _ in range(WEIGHTS)]
    activations = [device.buffer(np.ones(SIZE, np.float32)) for _ in range(ACTIVATIONS)]
    kinds = _kinds(rng, dispatches)
    starts = _group_starts(rng, dispatches)
    traced: list[TracedCall] = []
    group: set[int] = set()
    previous = last = 0
    for index in range(dispatches):
        if index in starts:
            last, group = previous, set()
        out = int(rng.choice([n for n in range(ACTIVATIONS) if n not in group and n != last]))
        reads = [activations[last], *(weights[int(n)] for n in rng.integers(0, WEIGHTS, 1 + kinds[index] % 2))]
        traced.append(TracedCall(pipelines[kinds[index]], tuple(reads), activations[out], int(rng.integers(1, SIZE))))
        group.add(out)
        previous = out
    return traced


def _kinds(rng: np.random.Generator, dispatches: int) -> list[int]:
    """A kernel for each dispatch, with the right shares of four-buffer kernels and of pipeline changes."""
    four = set(rng.choice(dispatches, dispatches * FOUR_BUFFERS // DISPATCHES, replace=False).tolist())
    changes = dispatches * PIPELINE_CHANGES // DISPATCHES
    kinds = [int(index in four) for index in range(dispatches)]
    forced = {index for index in range(1, dispatches) if kinds[index] != kinds[index - 1]}
    rest = [index for index in range(1, dispatches) if index not in forced]
    forced |= set(rng.choice(rest, changes - len(forced), replace=False).tolist())
    family = 0
    for index in range(dispatches):
        if index in forced:
            family = (family + 1) % (KERNELS // 2)
        kinds[index] += 2 * family
    return kinds


def _group_starts(rng: np.random.Generator, dispatches: int) -> set[int]:
    """Where a dispatch reads the result of the previous one."""
    barriers = dispatches * BARRIERS // DISPATCHES
    starts, limit = {0}, ACTIVATIONS - 2
    starts |= set(range(limit, dispatches, limit))
    rest = [index for index in range(1, dispatches) if index not in starts]
    return starts | set(rng.choice(rest, barriers + 1 - len(starts), replace=False).tolist())


def encode(enc: Encoder, trace: list[TracedCall]) -> None:
    """Encodes the trace by `dispatch`."""
    for call in trace:
        enc.dispatch(call.pipeline, *call.reads, call.out, call.number, threads=SIZE)


def captured(device: MlxDevice, trace: list[TracedCall]) -> ComputeGraph:
    """The trace as a graph."""
    with device.capture() as graph:
        encode(graph.encoder, trace)
    return graph

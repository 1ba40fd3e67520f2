"""Random programs over a few buffers, exact on whole numbers, and ways to run them that must all agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mlx_native_py import CapturedOpKind, ComputeGraph, MlxBuffer, MlxDevice, Out

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void mix(device const uint *a [[buffer(0)]], device const uint *b [[buffer(1)]], device uint *out [[buffer(2)]],
                constant uint &k [[buffer(3)]], uint i [[thread_position_in_grid]]) {
  out[i] = a[i] * 3 + b[i] * 5 + k; }
kernel void bump(device uint *x [[buffer(0)]], constant uint &k [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  x[i] = x[i] * 7 + k; }
kernel void spread(device const uint *a [[buffer(0)]], device uint *out [[buffer(1)]], constant uint &n [[buffer(2)]],
                   threadgroup uint *part [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]]) {
  part[i] = a[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = part[(i * 5 + 3) % n] + i; }
"""
SIZE = 64  # 256 bytes, so that temporaries fill what memory is shared in
KINDS = (CapturedOpKind.Other, CapturedOpKind.ElemAdd, CapturedOpKind.Sdpa)


@dataclass(frozen=True)
class Call:
    """A kernel on places: numbers below `externals` are buffers that exist before, others are made on the way."""

    kernel: str
    places: tuple[int, ...]
    halves: tuple[int, ...]
    """For each place: 0 the whole, 1 the first half, 2 the second half."""
    k: int
    kind: CapturedOpKind
    barrier: bool


@dataclass(frozen=True)
class Program:
    externals: int
    temporaries: int
    calls: tuple[Call, ...]
    results: tuple[int, ...]
    """Temporaries that somebody wants to see."""


@st.composite
def programs(draw: Any, longest: int = 24) -> Program:
    """Mostly of the kind that ops record: temporaries are written whole before they are read."""
    externals, temporaries = draw(st.integers(1, 3)), draw(st.integers(2, 6))
    every = list(range(externals + temporaries))
    written = list(range(externals))
    calls = []
    for _ in range(draw(st.integers(1, longest))):
        tidy = draw(st.integers(0, 9)) > 0
        read = st.sampled_from(written if tidy else every)
        kernel = draw(st.sampled_from(["mix", "mix", "spread", "bump"]))
        target = draw(read if kernel == "bump" else st.sampled_from(every))
        places = (*(draw(read) for _ in range({"mix": 2, "bump": 0, "spread": 1}[kernel])), target)
        whole = tidy and target not in written or draw(st.booleans())
        halves = tuple(0 if whole else draw(st.sampled_from([1, 2])) for _ in places)
        kind, barrier = draw(st.sampled_from(KINDS)), draw(st.integers(0, 9)) == 0
        calls.append(Call(kernel, places, halves, draw(st.integers(0, 9)), kind, barrier))
        written = sorted({*written, target})
    results = draw(st.sets(st.sampled_from(every[externals:]), max_size=2))
    return Program(externals, temporaries, tuple(calls), tuple(sorted(results)))


class Recorded:
    """A program as a graph, with the state that its buffers begin in."""

    def __init__(self, device: MlxDevice, program: Program) -> None:
        self.device = device
        rng = np.random.default_rng(len(program.calls))
        self.start = [rng.integers(0, 1 << 30, SIZE, dtype=np.uint32) for _ in range(program.externals)]
        externals = [device.buffer(values) for values in self.start]
        library = device.kernels.library(SOURCE)
        with device.capture(**{f"x{index}": buffer for index, buffer in enumerate(externals)}) as graph:
            temporaries = [graph.encoder.empty(SIZE, "u32") for _ in range(program.temporaries)]
            places = [*externals, *temporaries]
            for call in program.calls:
                if call.barrier:
                    graph.encoder.memory_barrier()
                pipeline = device.kernels.get_pipeline(call.kernel, library=library)
                _encode(graph, pipeline, call, places)
            graph.keep(**{f"t{index}": places[index] for index in program.results})
        self.graph = graph
        self._clean = temporaries

    def result(self, run: Callable[[], None], names: dict[str, MlxBuffer] | None = None) -> list[bytes]:
        """The bytes of every named buffer after a run from the beginning."""
        named = names or self.graph.names
        for index, values in enumerate(self.start):
            named[f"x{index}"].copy_from(values)
        for buffer in {*self._clean, *(buffer for name, buffer in named.items() if name[0] == "t")}:
            buffer.fill(0)
        run()
        return [named[name].to_bytes() for name in sorted(named)]


def _encode(graph: ComputeGraph, pipeline: Any, call: Call, places: list[MlxBuffer]) -> None:
    half = SIZE // 2
    views = []
    for place, part in zip(call.places, call.halves, strict=True):
        buffer = places[place]
        views.append(buffer if part == 0 else buffer[:half] if part == 1 else buffer[half:])
    count = views[-1].size
    enc = graph.encoder
    if call.kernel == "mix":
        a, b, out = views
        enc.dispatch(pipeline, a, b, _only(out, a, b), call.k, threads=count, kind=call.kind)
    elif call.kernel == "bump":
        enc.dispatch(pipeline, views[0], call.k, threads=count, kind=call.kind)
    else:
        a, out = views
        enc.dispatch(pipeline, a, _only(out, a), count, threadgroups=1, group=count, shared=SIZE * 4, kind=call.kind)


def _only(out: MlxBuffer, *others: MlxBuffer) -> Any:
    """Marked as written only, which does not hold for a buffer that is read at another argument."""
    memory, start, end = out.span
    shared = any(o.span[0] is memory and o.span[1] < end and start < o.span[2] for o in others)
    return out if shared else Out(out)

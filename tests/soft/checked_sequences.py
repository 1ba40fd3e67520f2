"""Correct programs of several dispatches in one concurrent encoder; every barrier in them is needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

N = 256
SOURCE = """
#include <metal_stdlib>
using namespace metal;
#define IO device const float* a [[buffer(0)]], device float* b [[buffer(1)]], uint i [[thread_position_in_grid]]
kernel void twice(IO) { b[i] = 2 * a[i]; }
kernel void plus_one(IO) { b[i] = a[i] + 1; }
kernel void reverse(IO) { b[i] = a[255 - i]; }
kernel void smooth(IO) { b[i] = (a[(i + 255) % 256] + a[i] + a[(i + 1) % 256]) / 3; }
kernel void add_to(IO) { b[i] += a[i]; }
kernel void clear(device float* b [[buffer(0)]], uint i [[thread_position_in_grid]]) { b[i] = 0; }
kernel void sum_groups(IO, uint g [[threadgroup_position_in_grid]], uint t [[thread_index_in_threadgroup]],
                       uint s [[simdgroup_index_in_threadgroup]]) {
  threadgroup float part[2];
  float v = simd_sum(a[i]);
  if (t % 32 == 0) part[s] = v;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (t == 0) b[g] = part[0] + part[1];
}
kernel void sum_four(IO) { if (i == 0) b[0] = a[0] + a[1] + a[2] + a[3]; }
kernel void quotient(device const float* a [[buffer(0)]], device const float* d [[buffer(1)]],
                     device float* b [[buffer(2)]], uint i [[thread_position_in_grid]]) { b[i] = a[i] / d[0]; }
kernel void count(device const float* a [[buffer(0)]], device atomic_uint* bins [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&bins[uint(a[i]) % 4], 1u, memory_order_relaxed);
}
kernel void ranks(device const uint* bins [[buffer(0)]], device uint* starts [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) {
  if (i >= 4) return;
  uint before = 0;
  for (uint j = 0; j < i; j++) before += bins[j];
  starts[i] = before;
}
kernel void place(device const float* a [[buffer(0)]], device atomic_uint* starts [[buffer(1)]],
                  device float* b [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  b[atomic_fetch_add_explicit(&starts[uint(a[i]) % 4], 1u, memory_order_relaxed)] = float(uint(a[i]) % 4);
}
"""


@dataclass(frozen=True)
class Run:
    """A dispatch of N threads with buffers by name."""

    kernel: str
    buffers: Sequence[str]


@dataclass(frozen=True)
class Barrier:
    """For all buffers, or for those named."""

    only: Sequence[str] = ()


BARRIER = Barrier()


@dataclass(frozen=True)
class Sequenced:
    """Steps, and what the named buffer holds in the end."""

    name: str
    steps: Sequence[Run | Barrier]
    result: str
    expected: Callable[[Mapping[str, Any]], Any]

    @property
    def barriers(self) -> list[int]:
        return [index for index, step in enumerate(self.steps) if isinstance(step, Barrier)]


def start() -> dict[str, Any]:
    """The buffers that every sequence finds."""
    zero = np.zeros(N, np.float32)
    return {"x": np.arange(N, dtype=np.float32), **{name: zero.copy() for name in ("y", "z", "w", "bins", "starts")}}


def _smooth(values: Any, rounds: int) -> Any:
    for _ in range(rounds):
        values = ((np.roll(values, 1) + values + np.roll(values, -1)) / np.float32(3)).astype(np.float32)
    return values


SEQUENCES = [
    Sequenced(
        "a chain",
        [Run("twice", "xy"), BARRIER, Run("plus_one", "yz"), BARRIER, Run("reverse", "zw")],
        "w",
        lambda b: 2 * b["x"][::-1] + 1,
    ),
    Sequenced(
        "back and forth",
        [Run("smooth", "xy"), BARRIER, Run("smooth", "yx"), BARRIER, Run("smooth", "xy"), BARRIER, Run("smooth", "yx")],
        "x",
        lambda b: _smooth(b["x"], 4),
    ),
    Sequenced(
        "two branches that meet",
        [Run("twice", "xy"), Run("plus_one", "xz"), BARRIER, Run("add_to", "yz"), BARRIER, Run("reverse", "zw")],
        "w",
        lambda b: (3 * b["x"] + 1)[::-1],
    ),
    Sequenced(
        "a mean in two steps",
        [Run("sum_groups", "xy"), BARRIER, Run("sum_four", "yz"), BARRIER, Run("quotient", "xzw")],
        "w",
        lambda b: b["x"] / b["x"].sum(),
    ),
    Sequenced(
        "written twice",
        [Run("clear", "y"), BARRIER, Run("add_to", "xy"), BARRIER, Run("add_to", "xy")],
        "y",
        lambda b: 2 * b["x"],
    ),
    Sequenced(
        "read, then overwritten",
        [Run("twice", "xy"), BARRIER, Run("clear", "x"), BARRIER, Run("add_to", "yx")],
        "x",
        lambda b: 2 * b["x"],
    ),
    Sequenced(
        "a sort by counting",
        [
            Run("count", ("x", "bins")),
            BARRIER,
            Run("ranks", ("bins", "starts")),
            BARRIER,
            Run("place", ("x", "starts", "w")),
        ],
        "w",
        lambda b: np.sort(b["x"] % 4),
    ),
    Sequenced(
        "barriers for one buffer",
        [
            Run("twice", "xy"),
            Run("plus_one", "xz"),
            Barrier("y"),
            Run("reverse", "yw"),
            Barrier("yz"),
            Run("add_to", "zy"),
            Barrier("yw"),
            Run("add_to", "yw"),
        ],
        "w",
        lambda b: 2 * b["x"][::-1] + 3 * b["x"] + 1,
    ),
]

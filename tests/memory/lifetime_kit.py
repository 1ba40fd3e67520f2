"""Programs that let go of things while the GPU is at work: each leaves right numbers, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlx_native_py import MlxBuffer, MlxDevice, Out

COUNT, TURNS = 256, 25_000_000
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void spin(device uint *x, constant uint &turns, uint i [[thread_position_in_grid]]) {
  uint v = x[i];
  for (uint k = 0; k < turns; ++k) v = v * 1664525u + 1013904223u;
  x[i] = v;
}
kernel void add(device const uint *a, device uint *out, constant uint &k, uint i [[thread_position_in_grid]]) {
  out[i] = a[i] + k;
}
kernel void next(texture2d<uint, access::read_write> image, uint2 at [[thread_position_in_grid]]) {
  image.write(image.read(at) + 1, at);
}
"""
PATTERNS: dict[str, Callable[[Scene], None]] = {}


@dataclass
class Scene:
    """A device with work in front of whatever is submitted next, so that it is in flight for a while."""

    device: MlxDevice
    library: Any
    folder: Path

    def behind_work(self) -> None:
        busy = self.device.zeros(1, "u32")
        enc = self.device.command_encoder()
        enc.dispatch(self.library.spin, busy, TURNS, threads=1)
        enc.commit()

    def numbers(self, start: int = 0) -> MlxBuffer:
        return self.device.buffer(np.arange(start, start + COUNT, dtype=np.uint32))

    def room(self) -> MlxBuffer:
        return self.device.empty(COUNT, "u32")

    def add(self, enc: Any, a: MlxBuffer, out: MlxBuffer, k: int = 1) -> None:
        enc.dispatch(self.library.add, a, Out(out), k, threads=a.size)

    def submitted(self, a: MlxBuffer, out: MlxBuffer, k: int = 1, **options: Any) -> Any:
        self.behind_work()
        enc = self.device.command_encoder(**options)
        self.add(enc, a, out, k)
        return enc.commit()

    def recorded(self, a: MlxBuffer, out: MlxBuffer, **names: MlxBuffer) -> Any:
        with self.device.capture(**names) as graph:
            self.add(graph.encoder, a, out)
        return graph

    def overwrite(self, number: int = 8) -> list[MlxBuffer]:
        """Memory of the same size, written by the CPU: what was given back too early would now hold it."""
        taken = [self.room() for _ in range(number)]
        for each in taken:
            each.numpy(wait=False)[...] = 0xDEAD
        return taken


def is_sum(out: MlxBuffer, start: int = 0, k: int = 1) -> bool:
    return bool((out.numpy().ravel() == np.arange(start, start + COUNT, dtype=np.uint32) + np.uint32(k)).all())


def pattern(function: Callable[[Scene], None]) -> Callable[[Scene], None]:
    PATTERNS[function.__name__] = function
    return function

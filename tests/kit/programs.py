"""Small exact programs for the core: kernels on whole numbers, and what numpy says that they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlx_native_py import MlxBuffer, MlxDevice
from mlx_native_py.encoder import CapturedBarrier, CommandEncoder, Dispatch, Out

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void fill(device uint *out [[buffer(0)]], constant uint &value [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) { out[i] = value + i; }
kernel void add(device const uint *a [[buffer(0)]], device const uint *b [[buffer(1)]], device uint *out [[buffer(2)]],
                uint i [[thread_position_in_grid]]) { out[i] = a[i] + b[i]; }
kernel void axpy(device const uint *x [[buffer(0)]], device uint *y [[buffer(1)]], constant uint &a [[buffer(2)]],
                 uint i [[thread_position_in_grid]]) { y[i] += a * x[i]; }
kernel void twist(device uint *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = x[i] * 5 + 1; }
kernel void box(device uint *x [[buffer(0)]], uint3 i [[thread_position_in_grid]], uint3 n [[threads_per_grid]]) {
  x[i.x + n.x * (i.y + n.y * i.z)] += 1; }
kernel void total(device const uint *in [[buffer(0)]], device uint *out [[buffer(1)]],
                  threadgroup uint *part [[threadgroup(0)]], uint i [[thread_position_in_threadgroup]],
                  uint n [[threads_per_threadgroup]]) {
  part[i] = in[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (i == 0) { uint sum = 0; for (uint j = 0; j < n; j++) sum += part[j]; out[0] = sum; }
}
kernel void table(constant uint *t [[buffer(0)]], device uint *out [[buffer(1)]],
                  uint i [[thread_position_in_grid]]) { out[i] = t[i]; }
kernel void gap(device uint *out [[buffer(0)]], constant uint3 &v [[buffer(2)]]) { out[0] = v.x + v.y * v.z; }
kernel void wide(device uint4 *out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = uint4(i); }
constant uint N [[function_constant(0)]];
kernel void special(device uint *out [[buffer(0)]]) { out[0] = N; }
[[max_total_threads_per_threadgroup(64)]] kernel void narrow(device uint *out [[buffer(0)]],
                  uint i [[thread_position_in_grid]]) { out[i] = i; }
kernel void slow(device volatile uint *out [[buffer(0)]], constant uint &rounds [[buffer(1)]]) {
  for (uint i = 0; i < rounds; i++) out[0] += i; }
"""


def pipelines(device: MlxDevice, *names: str) -> Any:
    """The kernel, or the kernels, of `SOURCE` by name."""
    library = device.kernels.library(SOURCE)
    loaded = [device.kernels.get_pipeline(name, library=library) for name in names]
    return loaded[0] if len(loaded) == 1 else loaded


def numbers(device: MlxDevice, *values: int) -> MlxBuffer:
    return device.buffer(np.array(values, np.uint32))


@dataclass
class Run:
    """A device and the way to encode on it; `barrier()` stands where a chain needs one."""

    device: MlxDevice
    auto_barrier: bool = True
    unretained: bool = False
    by_hand: bool = False
    made: list[CommandEncoder] = field(default_factory=list)

    def encoder(self) -> CommandEncoder:
        self.made.append(self.device.command_encoder(auto_barrier=self.auto_barrier, unretained_refs=self.unretained))
        return self.made[-1]

    def barrier(self, encoder: CommandEncoder) -> None:
        if self.by_hand:
            encoder.memory_barrier()

    def kernels(self, *names: str) -> Any:
        return pipelines(self.device, *names)


Result = list[list[int]]


def chain(run: Run) -> Result:
    """Read after write, write after read, write after write, over one grid after another."""
    fill, add, twist = run.kernels("fill", "add", "twist")
    a, b, c = (run.device.empty(64, "u32") for _ in range(3))
    enc = run.encoder()
    for step in range(4):
        enc.dispatch(fill, a, step, threads=64)
        enc.dispatch(fill, b, 100 * step, threads=64)  # nothing to do with the one before
        run.barrier(enc)
        enc.dispatch(add, a, b, c, threads=64)
        run.barrier(enc)
        enc.dispatch(fill, a, 7, threads=64)
        run.barrier(enc)
        enc.dispatch(fill, a, step + 1, threads=64)
        run.barrier(enc)
        enc.dispatch(add, a, c, b, threads=64)
        run.barrier(enc)
    enc.dispatch(twist, c, threads=64)
    enc.commit_and_wait(label="chain")
    return [a.numpy().tolist(), b.numpy().tolist(), c.numpy().tolist()]


def expected_chain() -> Result:
    i = np.arange(64, dtype=np.uint32)
    a, b, c = i + 4, i * 0, i * 0
    for step in range(4):
        c = (i + step) + (i + 100 * step)
        b = (i + step + 1) + c
    return [a.tolist(), b.tolist(), (c * 5 + 1).tolist()]


def in_place(run: Run) -> Result:
    """The same buffer in and out, many times."""
    twist, axpy = run.kernels("twist", "axpy")
    x, y = numbers(run.device, *range(32)), numbers(run.device, *range(32))
    enc = run.encoder()
    for _ in range(5):
        enc.dispatch(twist, x, threads=32)
        run.barrier(enc)
        enc.dispatch(axpy, x, y, 3, threads=32)
        run.barrier(enc)
    enc.commit_and_wait()
    return [x.numpy().tolist(), y.numpy().tolist()]


def expected_in_place() -> Result:
    x = np.arange(32, dtype=np.uint32)
    y = x.copy()
    for _ in range(5):
        x = x * np.uint32(5) + np.uint32(1)
        y = y + np.uint32(3) * x
    return [x.tolist(), y.tolist()]


def slices(run: Run) -> Result:
    """Views of one parent: neighbours run together, those that overlap do not."""
    fill, add, total = run.kernels("fill", "add", "total")
    parent = run.device.alloc_buffer(256, "u32", 64)
    quarters = [parent[16 * k : 16 * k + 16] for k in range(4)]
    enc = run.encoder()
    for k, quarter in enumerate(quarters):
        enc.dispatch(fill, quarter, 10 * k, threads=16)
    run.barrier(enc)
    enc.dispatch(add, parent[8:24], parent[32:48], Out(quarters[3]), threads=16)
    run.barrier(enc)
    enc.dispatch(total, quarters[3], parent[1:2], threads=16, group=16, shared=64)
    run.barrier(enc)
    enc.dispatch(fill, parent[0:1], 5, threads=1)
    enc.commit_and_wait()
    return [parent.numpy().tolist()]


def expected_slices() -> Result:
    p = np.concatenate([np.arange(16) + 10 * k for k in range(4)])
    p[48:] = p[8:24] + p[32:48]
    p[1], p[0] = p[48:].sum(), 5
    return [p.tolist()]


def session(run: Run) -> Result:
    """Three stages behind fences, each of which reads what the one before wrote."""
    fill, axpy = run.kernels("fill", "axpy")
    x, y = run.device.empty(16, "u32"), run.device.alloc_buffer(64, "u32", 16)
    chained = run.device.encoder_session(auto_barrier=run.auto_barrier, unretained_refs=run.unretained)
    for stage in range(3):
        enc = chained.encoder()
        enc.dispatch(fill, x, stage, threads=16)
        run.barrier(enc)
        enc.dispatch(axpy, x, y, 1 + stage, threads=16)
        chained.fence_stage(f"stage {stage}")
        chained.reset_for_next_stage()
    chained.commit_and_wait()
    return [x.numpy().tolist(), y.numpy().tolist()]


def expected_session() -> Result:
    i = np.arange(16)
    return [(i + 2).tolist(), np.sum([(1 + stage) * (i + stage) for stage in range(3)], axis=0).tolist()]


def replay(run: Run) -> Result:
    """A captured chain, replayed twice by another encoder."""
    twist, axpy = run.kernels("twist", "axpy")
    x, y = numbers(run.device, *range(8)), numbers(run.device, *range(8))
    with run.encoder() as recorder:
        recorder.start_capture()
        recorder.dispatch(twist, x, threads=8)
        run.barrier(recorder)
        recorder.dispatch(axpy, x, y, 2, threads=8)
        run.barrier(recorder)
        nodes = recorder.take_capture()
    enc = run.encoder()
    for node in (nodes or []) * 2:
        if isinstance(node, CapturedBarrier):
            enc.memory_barrier()
        elif isinstance(node, Dispatch):
            enc.replay_dispatch(node)
    enc.commit_and_wait()
    return [x.numpy().tolist(), y.numpy().tolist()]


def expected_replay() -> Result:
    x = y = np.arange(8)
    for _ in range(2):
        x = x * 5 + 1
        y = y + 2 * x
    return [x.tolist(), y.tolist()]


def pool(run: Run) -> Result:
    """Blocks of a pool go round while earlier work with them is still on its way."""
    fill, axpy = run.kernels("fill", "axpy")
    lender, y = run.device.buffer_pool(), run.device.alloc_buffer(128, "u32", 32)
    for step in range(6):
        enc = run.encoder()
        scratch = lender.alloc(128, "u32", 32)
        enc.dispatch(fill, scratch, step, threads=32)
        run.barrier(enc)
        enc.dispatch(axpy, scratch, y, step, threads=32)
        ticket = enc.commit()
        lender.release(scratch)
    ticket.wait()
    return [y.numpy().tolist()]


def expected_pool() -> Result:
    i = np.arange(32)
    return [np.sum([step * (i + step) for step in range(6)], axis=0).tolist()]


PROGRAMS: dict[str, tuple[Callable[[Run], Result], Callable[[], Result]]] = {
    "chain": (chain, expected_chain),
    "in_place": (in_place, expected_in_place),
    "slices": (slices, expected_slices),
    "session": (session, expected_session),
    "replay": (replay, expected_replay),
    "pool": (pool, expected_pool),
}

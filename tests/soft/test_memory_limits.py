"""Device memory where addresses, mappings or memory are few: it works, says when it cannot, and comes back."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from mlx_native_py.softmetal import memory
from mlx_native_py.softmetal.pages import PrivatePages

PAGE = mmap.PAGESIZE
ROOT = str(Path(__file__).parents[2])


def _child(script: str) -> subprocess.CompletedProcess[str]:
    whole = f"import sys; sys.path.insert(0, {ROOT!r})\n{script}"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=120, check=False)


def test_reserved_addresses_grow_in_steps() -> None:
    arena = memory.MemoryArena(most=1 << 30, step=16 * PAGE, gap=PAGE)
    found = [arena.allocate(PAGE) for _ in range(1000)]
    assert None not in found and len(set(found)) == 1000
    assert all(address in arena for address in found if address is not None)
    assert 1 not in arena


def test_small_allocations_share_mappings_where_those_are_few() -> None:
    arena = memory.MemoryArena(guarded=4)
    sizes = [1 + 997 * i % (3 * PAGE) for i in range(1000)]
    made = [(arena.allocate(size) or 0, size) for size in sizes]
    spans = sorted((address, address + memory.pages(size)) for address, size in made)
    assert spans[0][0] and all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for address, size in made:
        assert not any(memory.view(address, size))
        memory.view(address, size)[:] = bytes([7]) * size
    for address, size in made[1:]:
        arena.free(address, size)
    again = arena.allocate(PAGE) or 0
    assert not any(memory.view(again, PAGE))
    assert memory.view(made[0][0], 1)[0] == 7


def test_what_cannot_be_closed_is_not_used_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = memory.MemoryArena(most=4 * PAGE, step=4 * PAGE, gap=PAGE)
    first = arena.allocate(PAGE)
    assert first is not None and arena.allocate(PAGE) is not None
    memory.view(first, 1)[0] = 9
    with monkeypatch.context() as patch:
        patch.setattr(PrivatePages, "close", lambda source, address, length: False)
        arena.free(first, PAGE)
        assert arena.allocate(PAGE) is None
    assert arena.allocate(PAGE) == first
    assert memory.view(first, 1)[0] == 0


MAPPINGS = """
from mlx_native_py.softmetal import memory
def maps(): return sum(1 for _ in open("/proc/self/maps"))
before = maps()
shared = [memory.allocate(100) for _ in range(70_000)]
assert None not in shared
for each in shared: each.release()
assert maps() < before + 100, maps()
arena = memory.MemoryArena(guarded=1 << 40)
alone = []
while (address := arena.allocate(2 << 20)) is not None:
    memory.view(address, 1)[0] = 1
    alone.append(address)
assert len(alone) > 10_000, len(alone)
for address in alone: arena.free(address, 2 << 20)
assert maps() < before + 200, maps()
assert memory.view(arena.allocate(2 << 20), 1)[0] == 0
"""


def test_memory_comes_back_when_the_process_ran_out_of_mappings() -> None:
    result = _child(MAPPINGS)
    assert result.returncode == 0, result.stderr


PROGRAM = """
import numpy as np
from mlx_native_py import MlxDevice, MlxError
SOURCE = '''
#include <metal_stdlib>
using namespace metal;
kernel void k(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float one[1];
  one[0] = 1;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] += simd_max(one[0]);
}'''
device = MlxDevice()
ones = device.buffer(np.zeros(64, np.float32))
device.compile(SOURCE).k(ones, threads=64)
assert (ones.numpy() == 1).all()
held = []
try:
    while len(held) < 100:
        held.append(device.empty(1 << 24))
except MlxError as error:
    print(type(error).__name__)
assert len(held) >= 4, len(held)
held.clear()
assert device.empty(1 << 24).numpy()[0] == 0
"""


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_a_process_with_few_addresses_works_and_says_when_it_cannot(limit: str) -> None:
    assert _child(PROGRAM).returncode == 0  # fills the cache: the compiler needs more than the program
    result = _child(f"import resource; resource.setrlimit(resource.{limit}, (2 << 30, 2 << 30)){PROGRAM}")
    assert (result.returncode, result.stdout) == (0, "BufferAllocationError\n"), result.stderr

"""Device memory where addresses, mappings or memory are few: it works, says when it cannot, and comes back."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from mlx_native_py.softmetal import memory, pages
from mlx_native_py.softmetal.execution.inline_bytes import CHUNK, Constants
from mlx_native_py.softmetal.pages import PrivatePages

PAGE = mmap.PAGESIZE
ROOT = str(Path(__file__).parents[2])


def _child(script: str) -> subprocess.CompletedProcess[str]:
    whole = f"import sys; sys.path.insert(0, {ROOT!r})\n{script}"
    return subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=120, check=False)


def test_reserved_addresses_grow_in_steps() -> None:
    arena = memory.MemoryArena(most=1 << 30, step=16 * PAGE, gap=PAGE)
    found = [made for _ in range(1000) if (made := arena.memory(PAGE)) is not None]
    assert len({each.address for each in found}) == 1000
    assert all(each.address in arena for each in found)
    assert 1 not in arena


def test_small_allocations_share_mappings_where_those_are_few() -> None:
    arena = memory.MemoryArena(guarded=4)
    sizes = [1 + 997 * i % (3 * PAGE) for i in range(1000)]
    made = [found for size in sizes if (found := arena.memory(size)) is not None]
    spans = sorted((each.address, each.address + memory.pages(each.length)) for each in made)
    assert len(made) == 1000 and all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for each in made:
        assert not any(each.view())
        each.view()[:] = bytes([7]) * each.length
    del each, made[1:]
    again = arena.memory(PAGE)
    assert again is not None and not any(again.view())
    assert made[0].view()[0] == 7


def test_pages_that_were_read_only_are_written_by_their_next_owner() -> None:
    arena = memory.MemoryArena(guarded=1)
    held = arena.memory(PAGE), arena.memory(CHUNK)
    constants = Constants(arena)  # in a mapping that it shares
    place = constants.add(b"once")
    del constants
    made = [found for _ in range(64) if (found := arena.memory(CHUNK)) is not None]
    again = {each.address: each for each in made}[place or 0]
    again.view()[:4] = b"anew"
    assert all(held) and bytes(again.view()[:8]) == b"anew\0\0\0\0"


def test_what_cannot_be_closed_is_not_used_before_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = memory.MemoryArena(most=4 * PAGE, step=4 * PAGE, gap=PAGE)
    first, second = arena.memory(PAGE), arena.memory(PAGE)
    assert first is not None and second is not None
    first.view()[0], address = 9, first.address
    del first
    with monkeypatch.context() as patch:
        patch.setattr(PrivatePages, "close", lambda source, address, length: False)
        assert arena.memory(PAGE) is None
    again = arena.memory(PAGE)
    assert again is not None and (again.address, again.view()[0]) == (address, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the mappings that Linux tells")
def test_pages_are_closed_where_no_mapping_is_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their memory is given back, they are zero when they are opened again, and until then they fault."""
    source, libc = PrivatePages(), pages.libc()
    address = source.reserve(3 * PAGE)
    assert address is not None and source.open(address, PAGE)
    memory.view(address, PAGE)[:] = b"x" * PAGE

    class Short:
        mprotect, madvise = libc.mprotect, libc.madvise

        @staticmethod
        def mmap(*_: object) -> int | None:
            return pages.MAP_FAILED

    with monkeypatch.context() as patch:
        patch.setattr(pages, "libc", Short)
        assert source.close(address, PAGE)
    mapped = next(line for line in Path("/proc/self/maps").read_text().splitlines() if _holds(line, address))
    assert mapped.split()[1] == "---p"
    assert source.open(address, PAGE) and not any(memory.view(address, PAGE))


def _holds(line: str, address: int) -> bool:
    first, _, end = line.split()[0].partition("-")
    return int(first, 16) <= address < int(end, 16)


MAPPINGS = """
from mlx_native_py.softmetal import memory
from mlx_native_py.softmetal.execution.inline_bytes import CHUNK, Constants
def maps(): return sum(1 for _ in open("/proc/self/maps"))
before = maps()
shared = [memory.allocate(100) for _ in range(70_000)]
assert None not in shared
del shared
memory.arena().settle()
assert maps() < before + 100, maps()
arena = memory.MemoryArena(guarded=1 << 40)
alone = []
while (found := arena.memory(2 << 20)) is not None:
    found.view()[0] = 1
    alone.append(found)
assert len(alone) > 10_000, len(alone)
alone.clear()
found = arena.memory(2 << 20)
assert maps() < before + 200, maps()
assert found.view()[0] == 0
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


IDLE = """
import os, time
from pathlib import Path
from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.memory import arena
device = Metal.open_device()
queue, held = device.newCommandQueue(), device.newBufferWithLength_options_(1 << 20, 0)
commands = queue.commandBuffer()
commands.commit()
commands.waitUntilCompleted()

def waken():  # how often the other threads were
    folders = [each for each in Path("/proc/self/task").iterdir() if each.name != str(os.getpid())]
    lines = [line for each in folders for line in (each / "status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))
"""


@pytest.mark.parametrize("kept", ["queue", "none"])
def test_what_is_dropped_is_given_back_by_an_idle_process(kept: str) -> None:
    """Also when the last queue is gone, which had a thread."""
    script = f"""{IDLE}
del commands
{"del queue" if kept == "none" else ""}
time.sleep(0.5)
del held
end = time.monotonic() + 20
while arena().waiting and time.monotonic() < end:
    time.sleep(0.1)
print(arena().waiting)
"""
    done = _child(script)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_no_thread_of_an_idle_process_wakes() -> None:
    script = f"""{IDLE}
from mlx_native_py import MlxDevice, fn
device = MlxDevice("soft")
fn.add(device.ones(1 << 20), device.ones(1 << 20)).numpy()
time.sleep(1.5)
before = waken()
time.sleep(2.5)
print(waken() - before)
"""
    done = _child(script)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr

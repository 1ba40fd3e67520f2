"""A finaliser may still use what the garbage collector drops together with its object, and may keep it."""

from __future__ import annotations

import ctypes
import gc
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mlx_native_py import MlxDevice
from mlx_native_py import softmetal as Metal
from mlx_native_py.hazards.ranges import Memory
from mlx_native_py.softmetal.execution.inline_bytes import Constants
from mlx_native_py.softmetal.memory import arena
from mlx_native_py.softmetal.objects.system import may_capture
from mlx_native_py.softmetal.signs import sign

ROOT = str(Path(__file__).parents[2])
START = f"""
import gc, sys
sys.path.insert(0, {ROOT!r})
import numpy as np
import mlx_native_py
from mlx_native_py import softmetal as Metal
gc.disable()

class InCycle:
    def __init__(self, device, *given):
        self.device, self.given, self.me = device, given, self
    def __del__(self):
        use(self)

"""
BUFFER = """
def use(it):
    print(it.device.zeros(1 << 20).numpy().sum(), it.given[0].numpy().sum())
    it.device.zeros(1 << 20)
    kept.append(it.given[0])

kept = []
device = mlx_native_py.MlxDevice("soft")
InCycle(device, device.buffer(np.full(1 << 16, 3, np.float32)))
gc.collect()
device.zeros(1 << 20)
print(kept[0].numpy().sum())
"""
TEXTURE = """
def use(it):
    others.append(it.device.texture(np.zeros((64, 64), np.float32)))
    print(it.given[0].mtl.state.handle != others[0].mtl.state.handle)

others = []
device = mlx_native_py.MlxDevice("soft")
InCycle(device, device.texture(np.zeros((4, 4), np.float32)))
gc.collect()
"""
QUEUE = """
import time
SOURCE = "kernel void count(device uint *x) { for (uint n = 0; n < x[1]; n++) x[0] += n & 1; }"

def use(it):
    time.sleep(0.2)  # for the queue's thread
    function, x = it.given
    x.numpy()[1] = 1000
    print(function(x, threads=1) is not None, x.numpy()[0])

device = mlx_native_py.MlxDevice("soft")
function, x = device.compile(SOURCE).count, device.zeros(2, "u32")
function(x, threads=1)
made = InCycle(device, function, x)
del device, function, x, made
gc.collect()
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param(BUFFER, "0.0 196608.0\n196608.0\n", id="buffer"),
        pytest.param(TEXTURE, "True\n", id="texture"),
        pytest.param(QUEUE, "True 500\n", id="queue"),
    ],
)
def test_a_finaliser_uses_what_goes_with_it(script: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START + script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_the_garbage_collector_does_not_track_signs() -> None:
    assert not gc.is_tracked(sign())


def _buffers() -> tuple[Any, Callable[[], Any], Callable[[], object]]:
    device: Any = Metal.open_device()
    return device, lambda: device.newBufferWithLength_options_(1 << 12, 0), device.currentAllocatedSize


def _parts() -> tuple[Any, Callable[[], Any], Callable[[], object]]:
    device: Any = Metal.open_device()
    descriptor = Metal.MTLHeapDescriptor.alloc().init()
    descriptor.setSize_(1 << 20)
    heap = device.newHeapWithDescriptor_(descriptor)
    return device, lambda: heap.newBufferWithLength_options_(256, 32), heap.usedSize


def _devices() -> tuple[Any, Callable[[], Any], Callable[[], object]]:
    return None, Metal.open_device, may_capture


def _ranges() -> tuple[Any, Callable[[], Any], Callable[[], object]]:
    places = itertools.count(1 << 50, 1 << 12)
    return None, lambda: Memory(next(places), 1 << 12), lambda: Memory(next(places), 1 << 12)


def _residents() -> tuple[Any, Callable[[], Any], Callable[[], object]]:
    device = MlxDevice("soft")
    return device, lambda: device.empty(16).allocation, device.residency.flush


def _cycle(held: object) -> list[Any]:
    cycle = [held]
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize("kind", [_buffers, _parts, _devices, _ranges, _residents])
def test_what_lives_is_listed_while_the_garbage_collector_drops_some(kind: Any) -> None:
    keep, make, count = kind()
    before = gc.get_threshold()
    try:
        for distance in range(25):
            gc.collect()
            gc.disable()
            held = [_cycle(make()) for _ in range(60)]
            del held[::2]
            gc.set_threshold(gc.get_count()[0] + distance)
            gc.enable()
            count()
    finally:
        gc.set_threshold(*before)
        gc.enable()
    del keep


def test_memory_is_counted_once_at_every_step() -> None:
    device: Any = Metal.open_device()
    made: list[Any] = []
    most = most_at_every_step(
        lambda: made.append(device.newBufferWithLength_options_(1 << 12, 0)), device.currentAllocatedSize
    )
    assert most == made[0].allocatedSize()


def test_a_signal_handler_may_add_constants_at_every_step() -> None:
    constants = Constants(arena())
    names = itertools.count(1)

    def add() -> int:
        name = next(names).to_bytes(4, "little")
        place = constants.add(name)
        assert place is not None and ctypes.string_at(place, 4) == name
        return 0

    most_at_every_step(add, add)
    assert len(constants.places) == next(names) - 1 > 10


def most_at_every_step(act: Callable[[], object], ask: Callable[[], int]) -> int:
    """The largest answer, asked for between any two bytecodes."""
    answers = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            answers.append(ask())
        return trace

    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(None)
    return max(answers)


NESTED = """
import signal, time
import mlx_native_py
from mlx_native_py.softmetal.memory import arena

def act(*_):
    held.append(device.empty(64))
    held[-1].fill(1)
    del held[:-50]

class InCycle:
    def __init__(self):
        self.me = self
    def __del__(self):
        act()

held = []
device = mlx_native_py.MlxDevice("soft")
signal.signal(signal.SIGALRM, act)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for threshold in (3, 5, 7):
    gc.set_threshold(threshold)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        InCycle()
        device.empty(64)
signal.setitimer(signal.ITIMER_REAL, 0)
print(all(each.numpy().all() for each in held))
"""


def test_finalisers_and_signal_handlers_allocate_in_the_middle_of_an_allocation() -> None:
    script = f"import gc, sys\nsys.path.insert(0, {ROOT!r})\n{NESTED}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr[-2000:]

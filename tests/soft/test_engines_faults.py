"""Kernels that go wrong: the process lives, the fault is told, and the next launch runs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mlx_native_py.softmetal.engines import KernelFault

from .engine_driver import build, launch, run, runtime

ENTRY = "SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_IN(thread_position_in_grid))"
FINE = f"static void k(device int* out, const device int* in, uint i) {{ out[i] = int(i) + in[0]; }} {ENTRY}"
DIVIDE = f"static void k(device int* out, const device int* in, uint i) {{ out[i] = int(i) / in[i]; }} {ENTRY}"
WILD = f"""static void k(device int* out, const device int* in, uint i) {{
  if (i == 70) out = (device int*)0x10; *out = in[i]; }} {ENTRY}"""
ENDLESS = f"""static void k(device int* out, const device int* in, uint i) {{
  volatile device int* p = out; while (p[0] == 0) {{}} }} {ENTRY}"""
DEEP = f"""static __attribute__((noinline)) int down(const device int* in, int n) {{
  volatile int keep[64]; keep[n % 64] = n; return in[0] == 1 ? 0 : down(in, n + 1) + keep[n % 64]; }}
static void k(device int* out, const device int* in, uint i) {{ out[i] = down(in, 0); }} {ENTRY}"""

DEEP_ONCE = f"""static __attribute__((noinline)) int down(const device int* in, int n) {{
  volatile int keep[64]; keep[n % 64] = n; return n == in[0] ? n : down(in, n + 1) + keep[n % 64]; }}
static void k(device int* out, const device int* in, uint i) {{ if (in[i] == 0) out[i] = down(in, 0); }} {ENTRY}"""
LATE = f"""static void k(device int* out, const device int* in, uint i) {{
  volatile device const int* p = in; int x = p[1];
  for (int n = 0; n < p[0]; n++) x += p[1];
  if (x) out = (device int*)0x10; *out = x; }} {ENTRY}"""
CHATTY = f"""constexpr __global os_log logger("a", "b");
static void k(device int* out, const device int* in, uint i) {{
  volatile device int* p = out; while (p[0] == 0) {{ logger.log("%f", 1.5f); }} }} {ENTRY}"""


def _buffers(n: int = 4096) -> list[np.ndarray]:
    return [np.zeros(n, np.int32), np.ones(n, np.int32)]


def _fault(source: str, engine: str, buffers: list[np.ndarray], deadline: float = 30.0) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        run(source, buffers, 4096, 64, engine=engine, deadline=deadline)
    fresh = _buffers()
    run(FINE, fresh, 4096, 64, engine=engine)
    np.testing.assert_array_equal(fresh[0], np.arange(4096) + 1)
    return caught.value


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_division_by_zero(engine: str) -> None:
    buffers = _buffers()
    buffers[1][1000] = 0
    fault = _fault(DIVIDE, engine, buffers)
    assert (fault.kind, fault.launch, fault.group) == ("division by zero", 0, (15, 0, 0))
    assert fault.thread == ((40, 0, 0) if engine == "fibers" else None)


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_wild_pointer(engine: str) -> None:
    fault = _fault(WILD, engine, _buffers())
    assert (fault.kind, fault.address, fault.group) == ("bad address", 0x10, (1, 0, 0))


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_endless_kernels_meet_the_watchdog(engine: str) -> None:
    started = time.monotonic()
    assert _fault(ENDLESS, engine, _buffers(), deadline=0.2).kind == "timeout"
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_endless_recursion_is_a_stack_overflow(engine: str) -> None:
    buffers = _buffers()
    buffers[1][:] = 0
    assert _fault(DEEP, engine, buffers).kind == "stack overflow"


def test_an_overflow_of_one_thread_leaves_its_neighbours_alone() -> None:
    buffers = _buffers()
    buffers[1][0], buffers[1][40] = 10, 0
    run(DEEP_ONCE, buffers, 4096, 64)
    assert buffers[0][40] == sum(range(11)) and not buffers[0][:40].any()
    for depth in (700, 1 << 20):  # the first would end in the neighbour's stack, if nothing were between
        buffers[1][0] = depth
        fault = _fault(DEEP_ONCE, "fibers", buffers)
        assert (fault.kind, fault.thread) == ("stack overflow", (40, 0, 0))


def test_the_watchdog_leaves_the_c_library_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """A lock of the C library that a stopped kernel kept would stop everybody who prints or allocates."""
    for deadline in (0.001, 0.003, 0.01, 0.03):
        assert _fault(CHATTY, "fibers", _buffers(), deadline=deadline).kind == "timeout"
    assert "[a:b] 1.500000" in caplog.messages


def test_faults_and_deadlines_from_all_sides() -> None:
    bad = _buffers()
    bad[1][1000] = 0
    problems: list[str] = []

    def work(number: int) -> None:
        for turn in range(40):
            engine = ("flat", "fibers")[(turn + number) % 2]
            source, deadline, kind = (
                (FINE, 30.0, ""),
                (DIVIDE, 30.0, "division by zero"),
                (ENDLESS, 0.0003 * (turn + 1), "timeout"),
                (WILD, 30.0, "bad address"),
            )[(turn + number) % 4]
            try:
                run(source, bad if source is DIVIDE else _buffers(), 4096, 64, engine=engine, deadline=deadline)
                result = ""
            except KernelFault as fault:
                result = fault.kind
            if result != kind:
                problems.append(f"{result!r}, expected {kind!r}")

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert problems == []


def test_later_launches_do_not_begin() -> None:
    first, bad, good = _buffers(), _buffers(), _buffers()
    bad[1][:] = 0
    chain = [launch(build(FINE, "flat"), first, 64, 64), launch(build(DIVIDE, "flat"), bad, 64, 64)]
    with pytest.raises(KernelFault) as caught:
        runtime().run([*chain, launch(build(FINE, "flat"), good, 4096, 64)], 30.0)
    assert caught.value.launch == 1
    assert not good[0].any()


def test_a_fault_leaves_other_runs_alone() -> None:
    bad = _buffers()
    bad[1][:] = 0
    stop = threading.Event()

    def keep_failing() -> None:
        while not stop.is_set():
            with pytest.raises(KernelFault):
                run(DIVIDE, bad, 4096, 64, engine="flat")

    worker = threading.Thread(target=keep_failing)
    worker.start()
    try:
        for _ in range(50):
            fresh = _buffers()
            run(FINE, fresh, 4096, 64, engine="fibers")
            np.testing.assert_array_equal(fresh[0], np.arange(4096) + 1)
    finally:
        stop.set()
        worker.join()


SCRIPT = """
import ctypes, faulthandler, threading, sys
faulthandler.enable()
from soft.test_engines_faults import ENDLESS, FINE, WILD, _buffers, _fault
from soft.engine_driver import run
run(FINE, _buffers(), 4096, 64, engine="flat")
def spin():
    run(ENDLESS, _buffers(), 64, 64, engine="flat", deadline=20)
if sys.argv[1].startswith("covering"):
    faulthandler.disable()
    faulthandler.enable()
    for engine in ("flat", "fibers"):
        _fault(WILD, engine, _buffers())
if sys.argv[1].endswith("during"):
    threading.Thread(target=spin, daemon=True).start()
    import time; time.sleep(1)
ctypes.string_at(0)
"""


@pytest.mark.parametrize("when", ["after", "during", "covering after", "covering during"])
def test_faults_of_the_host_stay_the_host_s(when: str) -> None:
    path = [p for p in sys.path if p]
    script = f"import sys; sys.path[:0] = {path!r}\n{SCRIPT}"
    result = subprocess.run(
        [sys.executable, "-c", script, when], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == -11
    assert result.stderr.count("Fatal Python error: Segmentation fault") == 1


def _alone(script: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own, to whose threads nobody else gives a stack for handlers."""
    path = [p for p in sys.path if p]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{script}"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)


OVERFLOWS = """
import threading
from soft.test_engines_faults import DEEP, _buffers, _fault
def overflow():
    buffers = _buffers()
    buffers[1][:] = 0
    for engine in ("flat", "fibers"):
        print(_fault(DEEP, engine, buffers).kind, flush=True)
overflow()
thread = threading.Thread(target=overflow)
thread.start()
thread.join()
"""


def test_a_stack_overflow_finds_a_stack_for_its_handler_on_every_thread() -> None:
    result = _alone(OVERFLOWS)
    assert (result.returncode, result.stdout.splitlines()) == (0, ["stack overflow"] * 4), result.stderr


LOGS = """
import logging
from soft.test_engines_faults import CHATTY, _buffers, _fault
logging.disable()
long = CHATTY.replace('"%f"', '"' + 400 * "x" + '%f"')  # most of the time is spent on keeping them
for turn in range(100):
    assert _fault(long, "fibers", _buffers(), deadline=0.0001 * (turn % 10 + 1)).kind == "timeout"
print("end")
"""


def test_the_watchdog_never_leaves_the_lock_of_the_log_taken() -> None:
    result = _alone(LOGS)
    assert (result.returncode, result.stdout) == (0, "end\n"), result.stderr


AT_ONCE = """
import random, time
from soft.engine_driver import build, launch, runtime
from soft.test_engines_faults import KernelFault, LATE, _buffers
buffers, told, chance = _buffers(64), {}, random.Random(1)
buffers[1][0] = 400_000
late = launch(build(LATE, "flat"), buffers, 64, 64)
def seconds(deadline):
    start = time.perf_counter()
    try:
        runtime().run([late], deadline)
    except KernelFault as fault:
        told[fault.kind] = told.get(fault.kind, 0) + 1
    return time.perf_counter() - start
usual = min(seconds(10.0) for _ in range(50))
for _ in range(8000):
    seconds(usual * chance.uniform(0.6, 1.6))
assert told["bad address"] > 100 < told["timeout"], told
print("end")
"""


def test_deadlines_that_pass_while_a_fault_is_handled() -> None:
    """The signal of a fault must not stay blocked, or the next one would end the process."""
    result = _alone(AT_ONCE)
    assert (result.returncode, result.stdout) == (0, "end\n"), result.stderr

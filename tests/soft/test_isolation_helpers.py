"""The helpers of isolated devices between command buffers: when they sleep and wake, and that none is lost."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from interrupts import raise_at_every_bytecode, work_at_every_bytecode

from mlx_native_py import CommandBufferError, MlxDevice
from mlx_native_py.softmetal.isolation import runtime as isolation
from mlx_native_py.softmetal.isolation.process import Helper

from .test_isolation import KERNELS, runtime, still_works


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with MlxDevice("soft", isolated=True) as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device: MlxDevice) -> Any:
    return device.compile(KERNELS)


def until(reached: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.0002)


def idle_helper(device: MlxDevice, kernels: Any) -> Helper:
    """The one that the next command buffer gets."""
    assert still_works(device, kernels)
    runtime(device).reclaim()
    return runtime(device)._idle[-1]


def _turn_ns(pid: int) -> int:
    """How long the system lets a process run before others; 0 where it does not say."""
    number = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
    attributes = (ctypes.c_uint64 * 7)()  # struct sched_attr, whose runtime is the fourth word
    asked = number and ctypes.CDLL(None).syscall(number, pid, attributes, ctypes.sizeof(attributes), 0)
    return 0 if asked != 0 else attributes[3]


NO_CORE = 1 << 20
SLOW = """
kernel void slow(device uint *x) {
  uint noise = x[0];
  for (uint k = 0; k < 400000000; k++) noise = noise * 1664525u + (noise >> 7);
  x[0] = noise;
}
"""


def test_a_helper_runs_on_the_core_of_its_caller_and_may_leave_it_when_it_takes_long(
    device: MlxDevice, kernels: Any
) -> None:
    own, x = os.sched_getaffinity(0), device.zeros(1, "u32")
    helper = idle_helper(device, kernels)
    for _ in range(5):
        assert still_works(device, kernels)
        assert len(os.sched_getaffinity(helper.pid)) == 1
    with device.command_encoder() as enc:
        enc.dispatch(device.compile(SLOW).slow.pipeline, x, threads=1)
    x.numpy()
    assert os.sched_getaffinity(helper.pid) == own == os.sched_getaffinity(0)


def test_a_helper_whose_core_cannot_be_chosen_works_where_it_is(device: MlxDevice, kernels: Any) -> None:
    helper = idle_helper(device, kernels)
    channel, lifeline, _ = helper._where
    own, nobody = os.sched_getaffinity(0), 1 << 22  # there are no processes of such numbers
    helper.submit, before = (helper.submit[0], channel, lifeline, nobody), helper.submit
    helper.channel.helper_core = NO_CORE
    assert still_works(device, kernels) and os.sched_getaffinity(0) == own
    helper.submit = before
    assert still_works(device, kernels)


def test_an_idle_helper_takes_no_time(device: MlxDevice, kernels: Any) -> None:
    helper = idle_helper(device, kernels)
    before = _processor_ticks(helper.pid)
    time.sleep(0.5)
    assert _processor_ticks(helper.pid) - before <= 2


def _processor_ticks(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_the_system_notes_the_end_of_a_helper(device: MlxDevice, kernels: Any) -> None:
    helper = idle_helper(device, kernels)
    assert helper.is_idle()
    os.kill(helper.pid, signal.SIGKILL)
    until(lambda: not helper.is_idle())
    assert still_works(device, kernels)


@pytest.mark.skipif(not _turn_ns(0), reason="this Linux has no turns of a thread's own length")
def test_a_helper_takes_short_turns(device: MlxDevice, kernels: Any) -> None:
    assert _turn_ns(idle_helper(device, kernels).pid) == 100_000 < _turn_ns(0)


def _helpers() -> list[int]:
    """The helpers that this process has."""
    found = subprocess.run(
        ["ps", "-wwo", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout
    return sorted(int(line.split()[0]) for line in found.splitlines() if "isolation/helper.py" in line)


LIES = {"holder": 0, "helper_core": NO_CORE, "log_size": 1 << 63, "answer": 7}


@pytest.mark.parametrize("field", LIES)
def test_a_helper_that_lies_about_itself_costs_nobody_anything(device: MlxDevice, kernels: Any, field: str) -> None:
    helper = idle_helper(device, kernels)
    setattr(helper.channel, field, LIES[field])
    assert still_works(device, kernels)
    runtime(device).reclaim()
    assert Path(f"/proc/{helper.pid}").exists() == (field not in ("holder", "answer"))


def is_settled(device: MlxDevice) -> bool:
    """Whether nothing is lent, and all helpers are idle ones in which no kernel was stopped."""
    runtime(device).reclaim()
    idle = list(runtime(device)._idle)
    unspoilt = not any(helper.channel.fault.kind for helper in idle)
    return unspoilt and not runtime(device)._lent and sorted(helper.pid for helper in idle) == _helpers()


def run_here(kernel: Any, *arguments: Any, **size: Any) -> None:
    """Runs a kernel until its code is the one that it keeps, so that from now on the thread that waits runs it."""
    until(lambda: kernel(*arguments, **size) and kernel.pipeline.mtl.soft_settled())
    kernel(*arguments, **size)


INSIDE = Path(isolation.__file__).parent


def test_an_exception_at_any_bytecode_loses_no_helper(device: MlxDevice, kernels: Any) -> None:
    def check(x: Any) -> None:
        assert x.numpy()[0] in (1, 2) and x.numpy()[-1] == x.numpy()[0]
        kernels.twice(x)
        assert x.numpy()[0] in (2, 4) and x.numpy()[-1] == x.numpy()[0]
        until(lambda: is_settled(device), 10)

    def fresh() -> Any:
        run_here(kernels.twice, device.ones(1 << 18))
        return device.ones(1 << 18)  # which the helper has to map

    assert raise_at_every_bytecode(fresh, lambda x: kernels.twice(x), check, inside=INSIDE) > 150


def test_an_exception_at_any_bytecode_keeps_no_helper_whose_kernel_was_stopped(device: MlxDevice, kernels: Any) -> None:
    x = device.zeros(64)

    def quick() -> None:
        run_here(kernels.far, x, 0, threads=64)

    def fault(_: None) -> None:
        with suppress(CommandBufferError):
            kernels.far(x, 100_000, threads=64)

    def check(_: None) -> None:
        with suppress(CommandBufferError):  # of the one before, that nobody has heard of
            kernels.far(x, 0, threads=64)
        assert still_works(device, kernels)
        until(lambda: is_settled(device), 10)

    assert raise_at_every_bytecode(quick, fault, check, inside=INSIDE / "runtime.py", step=3) > 50


def test_what_is_lent_again_meanwhile_is_not_taken_back(device: MlxDevice, kernels: Any) -> None:
    """As another thread does it, between two bytecodes of the one that takes back what was dropped."""
    isolated = runtime(device)
    lent: list[tuple[Helper, Any]] = []

    def dropped() -> None:
        idle_helper(device, kernels)
        isolated.lend(isolation._User())

    def lend_and_run() -> None:
        isolated.reclaim()
        user = isolation._User()
        helper = isolated.lend(user)
        helper.channel.answer -= 1  # as if it ran
        lent.append((helper, user))

    def check(_: None) -> None:
        while lent:
            helper = lent.pop()[0]
            assert helper._process.poll() is None
            helper.channel.answer += 1
        until(lambda: is_settled(device), 10)

    act = lambda _: isolated.reclaim()  # noqa: E731
    assert work_at_every_bytecode(dropped, act, lend_and_run, check, inside=INSIDE / "runtime.py") > 3


FORKS = """
    import os, sys, time
    from mlx_native_py import MlxDevice
    from mlx_native_py.softmetal.isolation import runtime

    device = MlxDevice("soft", isolated=True)
    x = device.ones(64)
    twice = device.compile("kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    twice.twice(x)
    if not os.fork():
        sys.exit(0)
    os.wait()
    twice.twice(x)
    assert x.numpy()[0] == 4
    helper, = runtime._opened._idle
    if not (child := os.fork()):
        os.close(1)
        time.sleep(600)
    print(helper.pid, child, flush=True)
    os._exit(0)
"""


def test_helpers_end_with_their_own_process_and_not_with_its_children() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKS)], stdout=subprocess.PIPE, timeout=120, check=True
    )
    helper, child = map(int, ran.stdout.split())
    try:
        until(lambda: not _lives(helper), 10)
        assert _lives(child)
    finally:
        os.kill(child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.kill(helper, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

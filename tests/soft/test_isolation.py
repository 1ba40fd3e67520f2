"""Isolated devices: kernels in processes without rights, which die alone; the same bits as in this process."""

from __future__ import annotations

import errno
import logging
import os
import platform
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import CommandBufferError, InvalidArgument, MlxDevice, SettingsError, settings
from mlx_native_py.softmetal.engines import KernelFault, abi
from mlx_native_py.softmetal.isolation import runtime as isolation
from mlx_native_py.softmetal.isolation.images import ImageDamaged
from mlx_native_py.softmetal.isolation.space import shared_arena

from .engine_driver import toolchain
from .test_engines_agree import EXPRESSIONS, SOURCE

KERNELS = """
#include <metal_stdlib>
#include <metal_logging>
using namespace metal;
kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }
kernel void spin(device atomic_uint *x, device uint *go) {
  while (!go[0]) atomic_fetch_add_explicit(x, 1, memory_order_relaxed);
}
kernel void far(device float *x, constant uint &by, uint i [[thread_position_in_grid]]) { x[i + by] = 1; }
kernel void say(device float *x, uint i [[thread_position_in_grid]]) { if (!i) os_log_default.log("here %d", 7); }
kernel void turn(device float *x, uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup float kept[256];
  kept[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  x[i] = kept[n - 1 - i] + simd_sum(kept[i]);
}
"""
# Machine code that no source could become: it asks the system for things by itself.
HOSTILE = """
typedef unsigned long u64;
static long ask(long number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0, u64 f = 0) {
#if defined(__x86_64__)
  register u64 r10 asm("r10") = d; register u64 r8 asm("r8") = e; register u64 r9 asm("r9") = f;
  long answer;
  asm volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return answer;
#else
  register long x8 asm("x8") = number; register u64 x0 asm("x0") = a; register u64 x1 asm("x1") = b;
  register u64 x2 asm("x2") = c; register u64 x3 asm("x3") = d; register u64 x4 asm("x4") = e;
  register u64 x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#endif
}
#include <sys/syscall.h>
extern "C" __attribute__((visibility("default"))) void soft_entry_point(void ***group, void *) {
  volatile long *out = (volatile long *)group[0][0];
  (void)out;
  %s
}
"""


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with settings.override(soft_timeout=1.0), MlxDevice("soft", isolated=True) as device:
        yield device


@pytest.fixture(scope="module")
def kernels(device: MlxDevice) -> Any:
    return device.compile(KERNELS)


def runtime(device: MlxDevice) -> isolation.IsolatedRuntime:
    found: isolation.IsolatedRuntime = device.mtl.state.runtime
    return found


def attack(device: MlxDevice, body: str, seconds: float = 5.0) -> int:
    """Runs machine code in a helper; the answer is what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        source, target, image = Path(folder, "k.cpp"), Path(folder, "k.o"), Path(folder, "k.so")
        source.write_text(HOSTILE % body)
        toolchain().run(toolchain().compile_runtime(source, target))
        toolchain().run(toolchain().link([target], image))
        placed = runtime(device).load(image)
    memory = shared_arena().memory(4096)
    assert memory is not None
    launch = abi.SoftLaunch()
    launch.buffers[:] = [memory.address] * abi.SLOTS
    launch.threads[:] = launch.groups[:] = launch.group[:] = (1, 1, 1)
    launch.engine, launch.entry = abi.FLAT, placed.address("soft_entry_point")
    runtime(device).run([launch], seconds)
    return int(memory.view().cast("q")[0])


def still_works(device: MlxDevice, kernels: Any) -> bool:
    x = device.buffer(np.arange(64, dtype=np.float32))
    kernels.twice(x)
    return bool((x.numpy() == 2 * np.arange(64)).all())


@pytest.mark.parametrize("what", EXPRESSIONS)
def test_the_same_bits_as_in_this_process(device: MlxDevice, what: str) -> None:
    chance = np.random.default_rng(7)
    a, b = (chance.normal(scale=scale, size=512).astype(np.float32) for scale in (10, 3))
    source = "#include <metal_stdlib>\nusing namespace metal;\n" + SOURCE.format(expression=EXPRESSIONS[what])
    found = []
    for each in (device, MlxDevice("soft")):
        out = each.zeros(512)
        each.compile(source).k(each.buffer(a), each.buffer(b), out, threads=512, group=64)
        found.append(out.numpy().copy())
    here, there = found
    np.testing.assert_array_equal(here.view(np.uint32), there.view(np.uint32))


@pytest.mark.parametrize("engine", ["fibers", "lanes", "auto"])
def test_barriers_and_threadgroup_memory(engine: str) -> None:
    x = np.arange(256, dtype=np.float32)
    with settings.override(soft_engine=engine), MlxDevice("soft", isolated=True) as device:
        y = device.buffer(x)
        device.compile(KERNELS).turn(y, threads=256, group=256)
        np.testing.assert_array_equal(y.numpy(), x[::-1] + np.repeat(x.reshape(8, 32).sum(1), 32))


FORBIDDEN = {
    "a file": 'ask(SYS_openat, -100, (u64)"/etc/passwd", 0);',
    "a socket": "ask(SYS_socket, 2, 1, 0);",
    "a program": 'ask(SYS_execve, (u64)"/bin/true", 0, 0);',
    "another process": "ask(SYS_ptrace, 16, 1, 0);",
    "a kill": "ask(SYS_kill, (u64)-1, 9);",
    "a signal to another process": "ask(SYS_tgkill, 1, 1, 9);",
    "writing to what is open": 'ask(SYS_write, 2, (u64)"x", 1);',
    "reading what is open": "ask(SYS_read, 0, (u64)out, 1);",
    "a larger file of device memory": "for (int i = 3; i < 64; i++) ask(SYS_ftruncate, i, 1ul << 40);",
    "other limits": "u64 all[2] = {~0ul, ~0ul}; ask(SYS_prlimit64, 0, 2, (u64)all, 0);",
    "a way out of the filter": "ask(SYS_prctl, 22, 0, 0, 0, 0);",
    "io_uring": "ask(425, 8, (u64)out);",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_system_call_ends_the_helper_alone(device: MlxDevice, kernels: Any, what: str) -> None:
    with pytest.raises(KernelFault, match="forbidden system call"):
        attack(device, FORBIDDEN[what])
    assert still_works(device, kernels)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one way to ask")
def test_the_calls_of_another_machine_end_the_helper_too(device: MlxDevice, kernels: Any) -> None:
    """Their numbers mean other things: 20 is an allowed one here, and harmless there."""
    with pytest.raises(KernelFault):
        attack(device, 'long answer = 20; asm volatile("int $0x80" : "+a"(answer) : : "memory"); out[0] = answer;')
    assert still_works(device, kernels)


def test_no_process_and_no_thread_can_be_started(device: MlxDevice) -> None:
    assert attack(device, "out[0] = ask(SYS_clone, 17, 0, 0, 0, 0);") == -errno.EAGAIN
    assert attack(device, "out[0] = ask(SYS_clone3, (u64)out, 88);") == -errno.ENOSYS


def test_code_cannot_be_changed(device: MlxDevice) -> None:
    change = "out[0] = ask(SYS_mprotect, (u64)soft_entry_point & ~4095ul, 4096, 7);"
    assert attack(device, change) == -errno.EACCES


def test_memory_of_its_own_has_an_end(device: MlxDevice, kernels: Any) -> None:
    take = "while (out[0] < 4096 && ask(SYS_mmap, 0, 1ul << 30, 3, 0x22, -1, 0) > 0) out[0] += 1;"
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert attack(device, take) <= memory // 2 >> 30
    assert still_works(device, kernels)


DEATHS = {
    "SIGSEGV": "u64 usual[4] = {}; ask(SYS_rt_sigaction, 11, (u64)usual, 0, 8); *(volatile int *)8 = 1;",
    "SIGABRT": "u64 usual[4] = {}; ask(SYS_rt_sigaction, 6, (u64)usual, 0, 8);"
    "ask(SYS_tgkill, ask(SYS_getpid), ask(SYS_gettid), 6);",
    "status 0": "ask(SYS_exit_group, 0);",
}


@pytest.mark.parametrize("how", DEATHS)
def test_a_death_costs_one_run(device: MlxDevice, kernels: Any, how: str) -> None:
    with pytest.raises(KernelFault, match=f"end of its process.*{how}"):
        attack(device, DEATHS[how])
    assert still_works(device, kernels)


def test_who_switches_the_watchdog_off_is_ended_from_outside(device: MlxDevice, kernels: Any) -> None:
    deaf = "u64 all = ~0ul; ask(SYS_rt_sigprocmask, 2, (u64)&all, 0, 8); for (;;) out[0] += 1;"
    with pytest.raises(KernelFault, match="timeout"):
        attack(device, deaf, 0.2)
    assert still_works(device, kernels)


def test_a_helper_killed_while_idle_is_replaced(device: MlxDevice, kernels: Any) -> None:
    assert still_works(device, kernels)
    for helper in runtime(device)._idle:
        os.kill(helper.pid, signal.SIGKILL)
    assert still_works(device, kernels)


def test_a_helper_killed_in_a_kernel_costs_that_command_buffer(kernels: Any, device: MlxDevice) -> None:
    with settings.override(soft_timeout=60.0), MlxDevice("soft", isolated=True) as patient:
        go, x = patient.zeros(1, "u32"), patient.zeros(1, "u32")
        spin = patient.compile(KERNELS).spin.pipeline
        encoder = patient.command_encoder()
        encoder.dispatch(spin, x, go, threads=1)
        ticket = encoder.commit()
        while not x.numpy(wait=False)[0]:
            time.sleep(0.001)
        (busy,) = (each for each in runtime(device)._lent.values() if each.channel.answer != each.channel.request)
        os.kill(busy.pid, signal.SIGKILL)
        with pytest.raises(CommandBufferError, match="kernel spin: end of its process by SIGKILL"):
            ticket.wait()
    assert still_works(device, kernels)


def test_a_helper_is_not_used_again_after_a_fault(device: MlxDevice, kernels: Any) -> None:
    assert still_works(device, kernels)
    runtime(device).reclaim()
    before = {helper.pid for helper in runtime(device)._idle}
    with pytest.raises(CommandBufferError, match="timeout after 1 s"):
        kernels.spin(device.zeros(1, "u32"), device.zeros(1, "u32"), threads=1).wait()
    after = {helper.pid for helper in runtime(device)._idle}
    assert after < before and not any(Path(f"/proc/{pid}").exists() for pid in before - after)
    assert still_works(device, kernels)


def test_faults_name_the_argument(device: MlxDevice, kernels: Any) -> None:
    with pytest.raises(CommandBufferError, match=r"kernel far: bad address .* a write; nearest is byte \d+ of 'x'"):
        kernels.far(device.zeros(64), 100_000, threads=64).wait()


def test_freed_memory_faults(device: MlxDevice) -> None:
    gone = shared_arena().memory(4096)
    assert gone is not None
    attack(device, f"*(volatile char *){gone.address:#x} = 1;")
    address = gone.address
    del gone
    with pytest.raises(KernelFault, match="bad address"):
        attack(device, f"*(volatile char *){address:#x} = 1;")


def test_memory_that_is_freed_comes_back_empty() -> None:
    arena = shared_arena()
    for size in (4096, 1 << 20, 3 << 20):
        first = arena.memory(size)
        assert first is not None
        first.view()[:] = b"x" * size
        arena.discard(first)
        assert not any(first.view())
        first.view()[-1] = 7
        del first
        second = arena.memory(size)
        assert second is not None and not any(second.view())


def test_messages_of_kernels_arrive(device: MlxDevice, kernels: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mlx_native_py.os_log"):
        kernels.say(device.zeros(4)).wait()
    assert "here 7" in [record.getMessage() for record in caplog.records]


def test_many_command_buffers_from_several_threads(device: MlxDevice, kernels: Any) -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            x = device.buffer(np.ones(256, np.float32))
            for _ in range(20):
                kernels.twice(x)
            assert (x.numpy() == 2.0**20).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_more_launches_than_one_request_takes(device: MlxDevice, kernels: Any) -> None:
    x = device.zeros(1)
    one = device.compile("kernel void one(device float *x) { x[0] += 1; }").one.pipeline
    encoder = device.command_encoder()
    for _ in range(1200):
        encoder.dispatch(one, x, threads=1)
    encoder.commit_and_wait()
    assert x.numpy()[0] == 1200


def test_what_cannot_be_isolated_is_said(device: MlxDevice, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="checked and isolated exclude each other"):
        with settings.override(soft_checked=True):
            MlxDevice("soft", isolated=True)
    with pytest.raises(InvalidArgument, match="must be given when a backend is opened"):
        MlxDevice(device.backend, isolated=True)
    import mmap

    pages = np.frombuffer(mmap.mmap(-1, 8192), np.float32)
    with pytest.raises(InvalidArgument, match="do not see memory of the caller"):
        device.buffer(pages, copy=False)
    assert device.buffer(pages, copy=None).numpy().sum() == 0
    damaged = tmp_path / "k.so"
    for content in (b"", b"\x7fELF", bytes(200)):
        damaged.write_bytes(content)
        with pytest.raises(ImageDamaged, match="not a whole shared object"):
            runtime(device).load(damaged)


def test_helpers_end_with_the_process() -> None:
    program = """
        import os, signal, sys
        import numpy as np
        from mlx_native_py import MlxDevice
        device = MlxDevice("soft", isolated=True)
        device.compile("kernel void f(device float *x) { x[0] = 1; }").f(device.zeros(1), threads=1).wait()
        print(*[helper.pid for helper in device.mtl.state.runtime._idle], flush=True)
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    """
    for ending in ("quietly", "killed"):
        command = [sys.executable, "-c", textwrap.dedent(program), ending]
        pids = subprocess.run(command, capture_output=True, text=True).stdout.split()
        assert pids
        end = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in pids):
            assert time.monotonic() < end, "a helper outlived its process"
            time.sleep(0.05)


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.parametrize("first", ["shared_space().start", "zones().start"])
def test_checked_mode_has_its_zones_beside_isolated_memory(first: str) -> None:
    lines = (
        "from mlx_native_py.softmetal.checked.zones import zones",
        "from mlx_native_py.softmetal.isolation.space import shared_space",
        first,
        "print(zones() is not None, shared_space().size)",
    )
    shown = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", str(1 << 43)]

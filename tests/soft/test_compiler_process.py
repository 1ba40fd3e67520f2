"""Compilers that misbehave: slow, greedy, talkative, silent, or with children that stay."""

from __future__ import annotations

import gc
import os
import signal
import stat
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from interrupts import Countdown

from mlx_native_py.softmetal import compiler_process, time_limit
from mlx_native_py.softmetal.compiler_process import (
    CompileLimits,
    CompilerFailed,
    LimitExceeded,
    StepLimitExceeded,
    ToolchainError,
    in_time,
    run_compiler,
)
from mlx_native_py.softmetal.msl.image import ImageRefused, check_image, is_allowed, source_name
from mlx_native_py.softmetal.msl.library import open_library
from mlx_native_py.softmetal.program import SourceOptions
from mlx_native_py.softmetal.system import ends_within
from mlx_native_py.softmetal.time_limit import stopped_in_time
from mlx_native_py.softmetal.toolchain import find_toolchain

SMALL = CompileLimits(seconds=1.0, memory_mib=512, output_mib=1)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return [str(path), "-c"]


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("sleep 300", LimitExceeded, "did not end within 1 s; MLX_SOFT_COMPILE_TIMEOUT"),
        ("while true; do :; done", LimitExceeded, "MLX_SOFT_COMPILE_TIMEOUT"),
        ("exec dd if=/dev/zero of=/dev/stdout bs=65536", LimitExceeded, "more than 1 MiB; MLX_SOFT_COMPILE_OUTPUT"),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", LimitExceeded, "512 MiB; MLX_SOFT_COMPILE_MEMORY"),
        ("exit 3", ToolchainError, "status 3 and said nothing; MLX_SOFT_CLANG"),
        ("kill -SEGV $$", ToolchainError, "ended by SIGSEGV; it may work when tried again$"),
        (
            "echo 'x: error: clang frontend command failed with exit code 139 (use -v)\n/place' >&2; exit 1",
            CompilerFailed,
            r"error: the compiler crashed \(SIGSEGV\); the source may be nested too deeply$",
        ),
        ("echo 'fatal: No space left on device' >&2; exit 1", ToolchainError, "no space left"),
        ("echo 'error: IO failure on output stream: Bad file' >&2; exit 1", ToolchainError, "not write its output"),
        ("echo 'x.cpp:1:1: error: no' >&2; exit 1", CompilerFailed, "error: no"),
    ],
    ids=[
        "sleeps",
        "spins",
        "writes",
        "eats",
        "silent",
        "crashes",
        "front-end-crashes",
        "full-disk",
        "writes-nothing",
        "refuses",
    ],
)
def test_how_it_ends(tmp_path: Path, text: str, kind: type[Exception], message: str) -> None:
    begin = time.monotonic()
    with pytest.raises(kind, match=message):
        run_compiler(script(tmp_path, text), "", SMALL)
    assert time.monotonic() - begin < 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("while true; do :; done", "took more than 1 s of processor time"),
        ("kill -SEGV $$", "needed more than 64 MiB"),
        ("echo 'LLVM ERROR: out of memory' >&2; exit 1", "needed more than 64 MiB"),
    ],
)
def test_one_step_can_be_held_to_less(tmp_path: Path, text: str, message: str) -> None:
    limits = CompileLimits(seconds=60.0, cpu_seconds=1, data_mib=64)
    with pytest.raises(StepLimitExceeded, match=message):
        run_compiler(script(tmp_path, text), "", limits)


def test_steps_of_one_compilation_share_its_time(tmp_path: Path) -> None:
    step = partial(run_compiler, script(tmp_path, "sleep 0.4"), "", SMALL)
    with pytest.raises(LimitExceeded, match="did not end within 1 s"):
        in_time(SMALL, lambda: [step() for _ in range(4)])
    for _ in range(3):
        step()


def test_a_source_and_a_kernel_are_compilations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two kernels: the source is read and checked in one, and each kernel is made in one of its own."""
    left: list[float] = []

    def note(process: subprocess.Popen[bytes], seconds: float) -> bool:
        if seconds < CompileLimits().seconds:  # else it prepares the compiler on a thread of its own
            left.append(seconds)
        return ends_within(process, seconds)

    kernels = "".join(f"kernel void {name}(device float *x) {{ x[0] = 1; }}\n" for name in "ab")
    source = f"// {tmp_path}\n{kernels}"  # never seen before
    monkeypatch.setattr(compiler_process, "ends_within", note)
    library = open_library(source, SourceOptions())
    assert len(left) > 1 and left == sorted(left, reverse=True) and left[-1] < left[0] - 0.001
    for name in "ab":
        earlier = left.copy()
        left.clear()
        library.build(name, {})
        assert left[0] > earlier[-1] and left == sorted(left, reverse=True) and len(left) > 1


def test_a_compiler_that_writes_nothing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="ended well and wrote nothing; MLX_SOFT_CLANG"):
        run_compiler([*script(tmp_path, "exit 0"), "-o", str(tmp_path / "k.o")], "", SMALL)


def test_a_compiler_without_a_version_is_refused(tmp_path: Path) -> None:
    (command, _) = script(tmp_path, "exit 0")
    with pytest.raises(ToolchainError, match="expected clang"):
        find_toolchain(command)


def test_children_are_gone(tmp_path: Path) -> None:
    note = tmp_path / "child"
    run_compiler(script(tmp_path, f"sleep 600 & echo $! > {note}; exit 0"), "", SMALL)
    child = int(note.read_text())
    end = time.monotonic() + 10
    while (alive := is_alive(child)) and time.monotonic() < end:
        time.sleep(0.01)
    if alive:
        os.kill(child, signal.SIGKILL)
    assert not alive


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may stay until its new parent looks at it."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


EATS = """import sys
try: taken = bytearray(1 << 30)
except MemoryError: sys.exit("LLVM ERROR: out of memory")"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not hold a process to these limits")
@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (CompileLimits(seconds=60.0, memory_mib=512), "more than 512 MiB; MLX_SOFT_COMPILE_MEMORY"),
        (CompileLimits(seconds=60.0, data_mib=256), "needed more than 256 MiB"),
    ],
    ids=["memory", "data"],
)
def test_memory_is_really_refused(tmp_path: Path, limits: CompileLimits, message: str) -> None:
    with pytest.raises(LimitExceeded, match=message):
        run_compiler(script(tmp_path, f"exec {sys.executable} -c '{EATS}'"), "", limits)


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_compiler(script(tmp_path, f"echo $$ > {note}; sleep 60"), "", CompileLimits(seconds=30))
    timer.join()
    assert not Path(f"/proc/{note.read_text().strip()}").exists()


def test_what_it_is_told_and_says(tmp_path: Path) -> None:
    done = run_compiler(script(tmp_path, "cat; echo said >&2; echo $HOME"), "given\n", SMALL)
    assert (done.stdout, done.stderr) == ("given\n\n", "said\n")


@pytest.mark.parametrize("name", ["expf", "memcpy", "soft_meet", "__tsan_read4", "_ZGVdN8v_expf", "_ZGVeN16vv_powf"])
def test_allowed_imports(name: str) -> None:
    assert is_allowed(name)


@pytest.mark.parametrize("name", ["system", "abort", "exp", "_Z1ff", "_ZSt9terminatev", "dlopen", "_ZGVdN8v_systemf"])
def test_other_imports(name: str) -> None:
    assert not is_allowed(name)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z1ff", "f"),
        ("_ZSt9terminatev", "terminate"),
        ("_ZN1a1b3fooEi", "foo"),
        ("_ZL3barv", "bar"),
        ("_ZNU9CLgenericK1S1fEv", "f"),
        ("_ZNVU3AS11S1gEv", "g"),
        ("exit", "exit"),
    ],
)
def test_names_of_symbols(symbol: str, name: str) -> None:
    assert source_name(symbol) == name


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, bytes(4096)])
def test_what_is_no_shared_object_is_refused(data: bytes) -> None:
    with pytest.raises(ImageRefused):
        check_image(data)


@pytest.mark.skipif(sys.platform != "linux", reason="objects of macOS: test_macos.py")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int f(void) { return 1; }", ""),
        (
            "__attribute__((constructor)) void f(void) { *(volatile int *)16 = 1; }",
            "code that runs when the kernel is loaded",
        ),
        ("__attribute__((destructor)) void f(void) {}", "fini_array|when the kernel is loaded"),
        ("int kept = 1; int f(void) { return kept++; }", r"variables that all threads could write to \(.data\)"),
        ("int system(const char *); int f(void) { return system(0); }", "undefined function 'system'"),
        ('static void *g(void) { return 0; } void *f(void) __attribute__((ifunc("g")));', "'f' is chosen by code"),
        (
            """static void *g(void) { return 0; }
            __attribute__((visibility("hidden"))) int h(void) __attribute__((ifunc("g")));
            int f(void) { return h(); }""",
            "worked out by code when the kernel is loaded",
        ),
    ],
    ids=["plain", "constructor", "destructor", "variable", "import", "ifunc", "hidden ifunc"],
)
def test_objects_that_do_more_than_compute_are_refused(tmp_path: Path, text: str, message: str) -> None:
    tools, source, target, linked = find_toolchain(None), tmp_path / "k.c", tmp_path / "k.o", tmp_path / "k.so"
    source.write_text(text)
    tools.run([*tools.compiler, *tools.target, "-x", "c", "-fPIC", "-O1", "-c", str(source), "-o", str(target)])
    tools.run(tools.link([target], linked))
    if not message:
        return check_image(linked.read_bytes())
    with pytest.raises(ImageRefused, match=message):
        check_image(linked.read_bytes())


def test_damaged_objects_are_refused_or_harmless() -> None:
    """Whatever bytes change, there is an answer and no other exception."""
    from .msl_kit import opened

    built = opened("kernel void k(device float* o) { o[0] = exp(o[1]); }").build("k", {})
    whole = Path(built.image._name).read_bytes()  # type: ignore[attr-defined]
    check_image(whole)
    for place in range(0, len(whole) - 8, max(len(whole) // 400, 1)):
        for value in (0xFFFFFFFF, 0):
            changed = bytearray(whole)
            struct.pack_into("<I", changed, place, value)
            try:
                check_image(bytes(changed))
            except ImageRefused:
                pass


def test_work_of_this_process_ends_in_time() -> None:
    begin = time.monotonic()
    with pytest.raises(LimitExceeded, match="translation of the source did not end within 0.3 s"):
        stopped_in_time(CompileLimits(seconds=0.3), lambda: sum(0 for _ in iter(int, 1)))
    assert time.monotonic() - begin < 30
    assert stopped_in_time(SMALL, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        stopped_in_time(SMALL, lambda: 1 // 0)


def test_work_that_swallows_its_end_is_ended_all_the_same() -> None:
    ended = threading.Event()

    def stubborn() -> None:
        try:
            for _ in range(3):
                with suppress(SystemExit):
                    while True:
                        time.sleep(0.001)
            while True:
                time.sleep(0.001)
        finally:
            ended.set()

    with pytest.raises(LimitExceeded):
        stopped_in_time(CompileLimits(seconds=0.2), stubborn)
    assert ended.wait(10)


def test_the_garbage_collector_does_not_swallow_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    unheard: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)

    def slow(phase: str, info: dict[str, int]) -> None:
        time.sleep(0.01)

    before = gc.get_threshold()
    gc.callbacks.append(slow)
    gc.set_threshold(100)
    try:
        for _ in range(5):
            with pytest.raises(LimitExceeded):
                stopped_in_time(CompileLimits(seconds=0.1), lambda: [[()] for _ in iter(int, 1)])
    finally:
        gc.callbacks.remove(slow)
        gc.set_threshold(*before)
    assert gc.isenabled() and not unheard


def test_work_may_be_ended_anywhere_on_its_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it any longer then, and no thread is ended that came after it and has its number."""
    strangers: list[int] = []

    def end(ident: int, reason: object) -> None:
        strangers.extend({ident} - {thread.ident for thread in threading.enumerate()})

    monkeypatch.setattr(time_limit, "_raise_in", end)
    tried = 0
    while where := _ended_at(tried):
        assert not strangers, where
        tried += 1
    assert tried > 2


def _ended_at(point: int) -> str:
    """Ends work at a place where CPython looks for such ends, once it is done; nothing if there are not so many."""

    def arrive(where: str) -> None:
        raise time_limit._Stopped(where)

    countdown = Countdown((Path(time_limit.__file__), Path(threading.__file__)), point, True, arrive)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if event == "return" and frame.f_code is time_limit._Doing._do.__code__:
            sys.settrace(None)
        return trace if countdown(frame, event, argument) else None

    def work() -> None:
        outer = sys._getframe().f_back
        assert outer is not None and outer.f_code is time_limit._Doing._do.__code__
        outer.f_trace = trace
        outer.f_trace_opcodes = True
        sys.settrace(trace)

    with suppress(LimitExceeded):
        stopped_in_time(CompileLimits(seconds=0.2), work)
    return countdown.where


def test_an_interrupt_ends_work_of_this_process() -> None:
    rounds = iter(range(1 << 62))
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        stopped_in_time(CompileLimits(seconds=60), lambda: sum(0 for _ in rounds))
    timer.join()
    came = next(rounds)
    time.sleep(0.1)
    assert next(rounds) == came + 1

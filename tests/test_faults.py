"""Whatever fails, and whichever of its kind: an exception of ours or the right result, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlx_native_py import CommandBufferError, InvalidArgument, MlxDevice, MlxError, Out, counters, settings
from mlx_native_py.errors import COMMAND_BUFFER_CODES
from mlx_native_py.softmetal.memory import MemoryArena
from mlx_native_py.testing import FaultKind, fail
from mlx_native_py.weights import open_safetensors

pytestmark = pytest.mark.soft
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void mix(device const uint *a, device const uint *b, device uint *out, constant uint &k,
                uint i [[thread_position_in_grid]]) { out[i] = a[i] * 31 + b[i] * 7 + k; }
kernel void flip(texture2d<uint, access::read> from, texture2d<uint, access::write> to,
                 uint2 at [[thread_position_in_grid]]) {
  to.write(from.read(uint2(from.get_width() - 1 - at.x, at.y)), at);
}
"""
KINDS = get_args(FaultKind)


class Bench:
    """A device and a pool that outlive all faults, and work that asks for everything that can fail."""

    def __init__(self, device: MlxDevice, folder: Path) -> None:
        self.device = device
        self.pool = device.buffer_pool()
        self.file = folder / "w.safetensors"
        save_file({"w": np.arange(2048, dtype=np.uint32)}, self.file)

    def work(self, salt: str) -> list[bytes]:
        """Results of a command buffer, a session, a plan, a texture and a model file; a new salt compiles anew."""
        device = self.device
        library = device.compile(SOURCE + f"// {salt}")
        mix, flip = library.mix.pipeline, library.flip.pipeline
        a = device.buffer(np.arange(2048, dtype=np.uint32))
        try:
            b, c = self.pool.alloc(8192, "u32", 2048), self.pool.alloc(8192, "u32", 2048)
            with device.command_encoder() as enc:
                enc.dispatch(mix, a, a, Out(b), 1, threads=2048)
                enc.dispatch(mix, a, b, Out(c), 2, threads=2048)
            found = [c.numpy().tobytes()]
            found += [self._session(mix, a), self._plan(mix, a), self._texture(flip), self._file(mix, a)]
            return found
        finally:
            self.pool.reset()

    def _session(self, mix: Any, a: Any) -> bytes:
        first, second = self.device.empty(2048, "u32"), self.device.empty(2048, "u32")
        with self.device.encoder_session() as session:
            session.encoder().dispatch(mix, a, a, Out(first), 3, threads=2048)
            session.fence_stage("first")
            session.reset_for_next_stage()
            session.encoder().dispatch(mix, a, first, Out(second), 4, threads=2048)
        return second.numpy().tobytes()

    def _plan(self, mix: Any, a: Any) -> bytes:
        first, second = self.device.zeros(2048, "u32"), self.device.zeros(2048, "u32")
        with self.device.capture() as graph:
            graph.encoder.dispatch(mix, a, second, Out(first), 5, threads=2048)
            graph.encoder.dispatch(mix, a, first, Out(second), 6, threads=2048)
        plan = graph.plan()
        plan.run()
        plan.run()
        return second.numpy().tobytes()

    def _texture(self, flip: Any) -> bytes:
        image = np.arange(64, dtype=np.uint8).reshape(4, 4, 4)
        from_, to = (self.device.texture(image, format="RGBA8Uint") for _ in range(2))
        with self.device.command_encoder() as enc:
            enc.dispatch(flip, from_, to, threads=(4, 4))
        return to.numpy().tobytes()

    def _file(self, mix: Any, a: Any) -> bytes:
        out = self.device.empty(2048, "u32")
        with open_safetensors(self.file) as tensors, self.device.command_encoder() as enc:
            enc.dispatch(mix, a, tensors["w"].buffer(self.device), Out(out), 7, threads=2048)
        return out.numpy().tobytes()

    def state(self) -> tuple[Any, ...]:
        """All accounts, once what is only waiting to be used again is let go."""
        device = self.device
        gc.collect()
        self.pool.trim()
        device.recycler.clear()
        device.residency.flush()
        now = self.pool.statistics()
        pool = now.in_use_count, now.waiting_count, now.held_bytes
        return repr(device.submissions), pool, device.residency.count, int(device.mtl.currentAllocatedSize())

    def counted(self, salt: str) -> tuple[list[bytes], tuple[Any, ...]]:
        """The results and what they took."""
        with counters.scope() as scope:
            found = self.work(salt)
        return found, (scope.dispatches, scope.barriers, scope.cmd_bufs, scope.syncs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def bench(folder: Path) -> Iterator[Bench]:
    # Settings of its own give it a device of its own, on whose account nothing of other tests is.
    with settings.override(soft_timeout=9.5), MlxDevice("soft") as device:
        yield Bench(device, folder)


def attempt(bench: Bench, what: FaultKind) -> list[bytes]:
    """Work that asks for what is to fail: compilers run for sources that nobody has seen, and a new device needs
    pipelines and a thread."""
    if what == "compile":
        return bench.work(f"{what} {time.time_ns()}")
    if what in ("pipeline", "thread"):
        with MlxDevice("soft") as device:
            return Bench(device, bench.file.parent).work("kept" if what == "pipeline" else f"{what} {time.time_ns()}")
    return bench.work("kept")


NOTHING_LEFT = "<Submissions: 0 open, 0 in flight>", (0, 0, 0), 0, 0


def settled(bench: Bench) -> None:
    """Nothing is open, in use, resident or allocated; a thread may hold what it ran for a moment longer."""
    end = time.monotonic() + 30
    while (now := bench.state()) != NOTHING_LEFT and time.monotonic() < end:
        time.sleep(0.01)
    assert now == NOTHING_LEFT


def fails(bench: Bench, what: FaultKind, right: list[bytes], **fault: Any) -> tuple[bool, bool]:
    """Whether something failed, and whether there was an exception, of ours; without one the results are right."""
    with fail(what, **fault) as injected:
        try:
            assert attempt(bench, what) == right
        except MlxError as error:
            assert str(error)
            return injected.happened, True
    return injected.happened, False


MOST = 10  # places of a kind that the normal run tries


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("what", KINDS)
def test_any_of_them_fails_and_nothing_is_left(
    bench: Bench, what: FaultKind, lasting: bool, request: pytest.FixtureRequest
) -> None:
    expected = bench.counted("kept")
    with fail(what, 0) as fault:
        assert attempt(bench, what) == expected[0]
    settled(bench)
    assert fault.asked and not fault.happened
    outcomes = []
    step = 1 if request.config.getoption("--full") else -(-fault.asked // MOST)
    for nth in range(1, fault.asked + 1, step):
        outcomes.append(fails(bench, what, expected[0], nth=nth, lasting=lasting))
        settled(bench)
        assert bench.counted("kept") == expected
    happened, raised = map(any, zip(*outcomes, strict=True))
    assert happened and (raised or what in ("wait", "mapping"))


@pytest.mark.parametrize("kind", ["soft_checked", "soft_isolated"])
def test_mappings_fail_on_every_kind_of_device(kind: str) -> None:
    with settings.override(**{kind: True}), MlxDevice("soft") as device:
        with fail("mapping", lasting=True) as fault, pytest.raises(MemoryError):
            device.zeros(1 << 26)
        assert fault.happened
        assert device.zeros(1 << 26).nbytes


def test_every_error_of_a_command_buffer_is_told_by_its_name(bench: Bench) -> None:
    expected = bench.counted("kept")
    settled(bench)
    for code, name in COMMAND_BUFFER_CODES.items():
        with fail("commit", 2, code=code), pytest.raises(CommandBufferError, match=f"{name}.*code {code}") as caught:
            bench.work("kept")
        assert caught.value.code == code and caught.value.dispatches == ("mix",)
        del caught
        settled(bench)
        assert bench.counted("kept") == expected


def test_the_error_of_a_command_buffer_has_its_label_and_the_words_of_metal(bench: Bench) -> None:
    mix, x = bench.device.compile(SOURCE + "// kept").mix.pipeline, bench.device.zeros(16, "u32")
    for code, name in COMMAND_BUFFER_CODES.items():
        enc = bench.device.command_encoder()
        enc.dispatch(mix, x, x, x, 1, threads=16)
        with fail("commit", code=code), pytest.raises(CommandBufferError) as caught:
            enc.commit("layer 3").wait()
        told = rf"Command buffer error: {name} \(code {code}\) in 'layer 3': .*injected by fail; dispatches: mix"
        assert re.fullmatch(told, str(caught.value)), str(caught.value)
        assert (caught.value.code_name, caught.value.label) == (name, "layer 3")


def test_a_file_of_kernels_that_cannot_be_read(bench: Bench, folder: Path) -> None:
    (folder / "k.metal").write_text('#include "k.h"\n')
    (folder / "k.h").write_text("kernel void k(device float *x) { x[0] = 1; }")
    for nth, name in ((1, "k.metal"), (2, "k.h")):
        with fail("read", nth), pytest.raises(MlxError, match=f"{name} cannot be read: Input/output error"):
            bench.device.compile(folder / "k.metal")
    assert list(bench.device.compile(folder / "k.metal")) == ["k"]


# How pathlib opens files, where it is a package.
OPEN = """
import io
def open(path, mode="r", buffering=-1, encoding=None, errors=None, newline=None):
    return io.open(path, mode, buffering, encoding, errors, newline)
"""


def test_files_are_read_through_any_python_s_pathlib(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.metal").write_text("kernel void k(device float *x) { x[0] = 1; }")
    scope: dict[str, Any] = {"__name__": "pathlib._local"}
    exec(compile(OPEN, "/lib/python3.13/pathlib/_local.py", "exec"), scope)
    monkeypatch.setattr(Path, "open", scope["open"])
    with fail("read") as fault, pytest.raises(MlxError, match="k.metal cannot be read"):
        bench.device.compile(tmp_path / "k.metal")
    assert fault.happened
    with fail("read") as fault:
        assert (tmp_path / "k.metal").read_text(), "others read as ever"
    assert not fault.asked


def test_device_memory_without_a_thread_that_gives_it_back() -> None:
    arena = MemoryArena()
    with fail("thread", lasting=True) as fault:
        first = arena.memory(4096)
    assert first is not None and fault.happened and fault.asked == 1
    address = first.address
    del first
    assert arena.waiting == 1
    second = arena.memory(4096)  # gives back what was dropped, and starts the thread
    assert second is not None and second.address != address
    del second
    end = time.monotonic() + 30
    while arena.waiting and time.monotonic() < end:
        time.sleep(0.01)
    assert not arena.waiting


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"what": "luck"}, "there is no 'luck'; there are: allocation, "),
        ({"what": "commit", "nth": -1}, "nth is -1"),
        ({"what": "commit", "code": 5}, "code is 5, and Metal has: 1, 2, 3"),
    ],
)
def test_what_cannot_fail_is_said(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said), fail(**options):
        pass


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="loads a library before the system's")
def test_malloc_mmap_and_threads_fail(tmp_path: Path) -> None:
    tests, library = Path(__file__).parent, tmp_path / "faults.so"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", "-O1", "-o", str(library)]
    subprocess.run([*compiler, str(tests / "memory_faults.c")], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": f"{tests.parent}:{tests}"}
    command = [sys.executable, str(tests / "memory_faults.py"), "200"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1800)
    assert (done.returncode, done.stdout.split()[-1:]) == (0, ["end"]), (done.stdout[-300:], done.stderr[-3000:])
    totals = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("=")]
    assert {name: sum(int(tried) for kind, tried, _ in totals if kind == name) for name, *_ in totals}["malloc"] > 100

"""Plans and command buffers can run for as long as one likes: memory, objects, files and threads stay as they are."""

from __future__ import annotations

import gc
import resource
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin import install

from mlx_native_py import ComputeGraph, MlxDevice, Out, counters

from .random_graphs import SOURCE

pytestmark = pytest.mark.soft
DISPATCHES = 1000
EACH = 50  # dispatches of an eager command buffer


def chain(device: MlxDevice) -> ComputeGraph:
    mix = device.kernels.get_pipeline("mix", library=device.kernels.library(SOURCE))
    buffers = [device.buffer(np.zeros(64, np.uint32)) for _ in range(4)]
    with device.capture() as graph:
        for index in range(DISPATCHES):
            a, b, out = (buffers[(index + step) % 4] for step in range(3))
            graph.encoder.dispatch(mix, a, b, Out(out), index, threads=64)
    return graph


def resident_bytes() -> int:
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def replay(device: MlxDevice, dispatches: int, **options: bool) -> int:
    """How much the process has grown after so many replayed dispatches."""
    plan = chain(device).plan(scalars=["k"], **options)
    numbers = plan.scalars("k")
    # By then every kernel runs on the engine that it will stay on.
    for _ in range(200):
        plan.run()
    gc.collect()
    before = resident_bytes()
    for index in range(dispatches // DISPATCHES):
        numbers.set(index)
        plan.run()
    gc.collect()
    return resident_bytes() - before


@pytest.fixture
def plain() -> Iterator[MlxDevice]:
    """The software device: a played Mac writes down every message."""
    with MlxDevice("soft") as opened:
        yield opened


@pytest.mark.full
@pytest.mark.parametrize("indirect", [True, False])
def test_a_million_dispatches(plain: MlxDevice, indirect: bool) -> None:
    assert replay(plain, 1_000_000, indirect=indirect) <= 1_000_000


def test_a_hundred_thousand(plain: MlxDevice) -> None:
    assert replay(plain, 100_000) <= 1 << 20


@dataclass(frozen=True)
class Held:
    """What the process has."""

    resident: int
    objects: int
    files: int
    threads: int


def held() -> Held:
    gc.collect()
    own = Path("/proc/self")
    files, threads = (len(list((own / name).iterdir())) if own.exists() else 0 for name in ("fd", "task"))
    return Held(resident_bytes(), len(gc.get_objects()), files, threads)


def eager(device: MlxDevice, command_buffers: int) -> None:
    """Command buffers of all kinds: encoders with and without retained references, sessions, results of ops."""
    mix = device.kernels.get_pipeline("mix", library=device.kernels.library(SOURCE))
    buffers = [device.buffer(np.zeros(64, np.uint32)) for _ in range(3)]
    for number in range(command_buffers):
        a, b, out = (buffers[(number + step) % 3] for step in range(3))
        if number % 4 == 3:
            with device.encoder_session() as session:
                dispatches(session.encoder(), mix, a, b, out)
        else:
            with device.command_encoder(unretained_refs=number % 2 == 0) as enc:
                dispatches(enc, mix, a, b, out)


def dispatches(enc: Any, mix: Any, *buffers: Any) -> None:
    a, b, out = buffers
    for index in range(EACH):
        enc.dispatch(mix, a, b, Out(out), index, threads=64)


def slope(samples: list[Held], step: int) -> float:
    """Bytes for each dispatch."""
    return float(np.polyfit(np.arange(len(samples)) * step, [each.resident for each in samples], 1)[0])


def soak(device: MlxDevice, command_buffers: int) -> list[Held]:
    """What the process has from a tenth of the way on, in twenty steps."""
    eager(device, command_buffers // 10)
    samples = [held()]
    for _ in range(18):
        eager(device, command_buffers // 20)
        samples.append(held())
    return samples


def assert_flat(samples: list[Held], step: int, bytes_each: float) -> None:
    first, last = samples[0], samples[-1]
    assert slope(samples, step) <= bytes_each
    # Which of the last results still wait to be used again changes from moment to moment; the least does not.
    early, late = (min(each.objects for each in part) for part in (samples[:9], samples[-9:]))
    assert late - early <= 50
    assert last.files == first.files and last.threads == first.threads


@pytest.mark.full
def test_a_million_dispatches_in_twenty_thousand_command_buffers(plain: MlxDevice) -> None:
    with counters.scope() as scope:
        samples = soak(plain, 20_000)
    assert scope.cmd_bufs >= 20_000 and scope.dispatches >= 1_000_000
    assert_flat(samples, 50_000, 1.0)


def test_a_thousand_command_buffers(plain: MlxDevice) -> None:
    eager(plain, 200)  # by then the kernel runs on the engine that it will stay on
    # Short runs see the steps in which allocators grow.
    assert_flat(soak(plain, 1_000), 2_500, 20.0)


def test_nothing_is_autoreleased_outside_a_pool(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    bridge = install(monkeypatch)
    with MlxDevice("metal") as device:
        for _ in range(100 if request.config.getoption("--full") else 5):
            eager(device, 8)
            thread = threading.Thread(target=eager, args=(device, 4))
            thread.start()
            thread.join()
            replay(device, DISPATCHES)
            assert bridge.loose == 0 and bridge.leaked == []
            bridge.sent.clear()

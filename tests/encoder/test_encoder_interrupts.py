"""Ctrl-C wherever Python looks for it: in encoding, submitting, waiting, lending, freeing. All accounts stay right."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import raise_at_every_bytecode

import mlx_native_py
from mlx_native_py import MlxBuffer, MlxDevice
from mlx_native_py.memory.pool import MlxBufferPool

INSIDE = (Path(mlx_native_py.__file__).parent, Path(contextlib.__file__))
pytestmark = [pytest.mark.soft, pytest.mark.filterwarnings("ignore::ResourceWarning")]
SOURCE = "kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"


@dataclass
class Scene:
    """A device with a pool, one block of which is lent, and an encoder with work."""

    device: MlxDevice
    pool: MlxBufferPool
    kernel: Any
    x: MlxBuffer
    enc: Any = None
    ticket: Any = None
    made: list[Any] = field(default_factory=list)


@pytest.fixture(scope="module")
def device() -> Any:
    with MlxDevice("soft") as device:
        yield device


@pytest.fixture(scope="module")
def scene(device: MlxDevice) -> Callable[[], Scene]:
    kernel = device.compile(SOURCE).count.pipeline
    pool = device.buffer_pool()

    def make() -> Scene:
        pool.reset()
        return Scene(device, pool, kernel, device.zeros(8, "u32"))

    return make


def encoding(found: Scene) -> Scene:
    found.enc = found.device.command_encoder()
    found.enc.dispatch(found.kernel, found.x, threads=8)
    return found


def submitted(found: Scene) -> Scene:
    found.ticket = encoding(found).enc.commit()
    return found


def returned(found: Scene) -> Scene:
    """Blocks that were given back, one of them while the GPU used it."""
    used, idle = found.pool.alloc(32, "u32", 8), found.pool.alloc(64, "u8", 64)
    with found.device.command_encoder() as enc:
        enc.dispatch(found.kernel, used, threads=8)
    found.pool.release(used)
    found.pool.release(idle)
    return found


def lent(found: Scene) -> Scene:
    found.made = [found.pool.alloc(32, "u32", 8), found.pool.alloc(64, "u8", 64)]
    return found


def plain(found: Scene) -> Scene:
    return found


def begin(found: Scene) -> None:
    found.device.command_encoder()


def dispatch(found: Scene) -> None:
    found.enc.dispatch(found.kernel, found.x, threads=8)


def commit(found: Scene) -> None:
    found.enc.commit()


def commit_and_wait(found: Scene) -> None:
    found.enc.commit_and_wait()


def discard(found: Scene) -> None:
    found.enc.discard()


def whole(found: Scene) -> None:
    with found.device.command_encoder() as enc:
        enc.dispatch(found.kernel, found.x, threads=8)


def wait(found: Scene) -> None:
    found.ticket.wait()


def look(found: Scene) -> None:
    found.ticket.done()


def read(found: Scene) -> None:
    found.x.numpy()


def allocate(found: Scene) -> None:
    found.device.empty(1000)


def drop(found: Scene) -> None:
    del found.x


def lend(found: Scene) -> None:
    found.pool.alloc(32, "u32", 8)


def lend_fresh(found: Scene) -> None:
    found.pool.trim()
    found.pool.alloc(32, "u32", 8)


def lend_several(found: Scene) -> None:
    found.pool.alloc_batch([(32, "u32", 8), (64, "u8", 64), (128, "u8", 128)])


def give_back(found: Scene) -> None:
    found.pool.release(found.made[0])


def trim(found: Scene) -> None:
    found.pool.trim()


def later_work_is_right(found: Scene) -> None:
    """Nothing is left in flight or open, no block is lost, and the next command buffer runs."""
    device, pool = found.device, found.pool
    used = getattr(found, "x", None)
    found.enc = found.ticket = None
    found.made.clear()
    if used is not None:
        assert set(used.numpy().tolist()) in ({0}, {1}, {2})
    x = device.zeros(8, "u32")
    for _ in range(2):
        with device.command_encoder() as enc:
            enc.dispatch(found.kernel, x, threads=8)
            enc.dispatch(found.kernel, x, threads=8)
        assert len(enc.barriers) == 1
    np.testing.assert_array_equal(x.numpy(), 4)
    assert repr(device.submissions) == "<Submissions: 0 open, 0 in flight>"
    pool.reset()
    now = pool.statistics()
    assert (now.in_use_count, now.waiting_count) == (0, 0)
    assert now.held_bytes == now.free_bytes == sum(block.nbytes for block in pool._blocks)
    assert pool.trim() == now.free_bytes and pool.statistics().held_bytes == 0
    found.x = x
    del x, used
    device.residency.flush()
    assert device.residency.count <= 40, device.residency.count


@pytest.mark.parametrize(
    ("setup", "act"),
    [
        (plain, begin),
        (encoding, dispatch),
        (encoding, commit),
        (encoding, commit_and_wait),
        (encoding, discard),
        (plain, whole),
        (submitted, wait),
        (submitted, look),
        (submitted, read),
        (plain, allocate),
        (plain, drop),
        (plain, lend_fresh),
        (returned, lend),
        (returned, lend_several),
        (lent, give_back),
        (returned, trim),
    ],
    ids=lambda each: each.__name__,
)
def test_ctrl_c_anywhere_leaves_all_accounts_right(
    scene: Any, setup: Any, act: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    lost: list[object] = []  # what comes in a finaliser, Python itself drops
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: lost.append(unraisable.exc_type))
    tried = raise_at_every_bytecode(
        lambda: setup(scene()),
        act,
        later_work_is_right,
        inside=INSIDE,
        only_checked=True,
        step=1 if request.config.getoption("--full") else 5,
        swallowed=lambda where: bool(lost),
    )
    assert tried

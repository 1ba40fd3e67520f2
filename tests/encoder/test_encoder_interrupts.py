"""Ctrl-C wherever Python looks for it: in encoding, submitting, waiting, lending, freeing. All accounts stay right."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import raise_at_every_bytecode, work_at_every_bytecode

import mlx_native_py
from mlx_native_py import MlxBuffer, MlxDevice, softmetal
from mlx_native_py.memory.pool import MlxBufferPool

INSIDE = (Path(mlx_native_py.__file__).parent, Path(contextlib.__file__))
pytestmark = [pytest.mark.soft, pytest.mark.filterwarnings("ignore::ResourceWarning")]
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void count(device uint *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }
kernel void next(texture2d<uint, access::read_write> image, uint2 at [[thread_position_in_grid]]) {
  image.write(image.read(at) + 1, at);
}
"""
IMAGE = np.zeros((4, 4), np.uint32)


@dataclass
class Scene:
    """A device with a pool, one block of which is lent, and an encoder with work."""

    device: MlxDevice
    pool: MlxBufferPool
    kernel: Any
    x: MlxBuffer
    enc: Any = None
    ticket: Any = None
    session: Any = None
    plan: Any = None
    image: Any = None
    next: Any = None
    call: Any = None
    encoded: Any = None  # the ticket of the encoder with work, and its command buffer
    before: tuple[int, int] = (0, 0)
    made: list[Any] = field(default_factory=list)


@pytest.fixture(scope="module")
def device() -> Any:
    with MlxDevice("soft") as device:
        yield device


def held(device: MlxDevice) -> tuple[int, int]:
    """Allocations and bytes of the device, but for those that only wait to be used again."""
    device.recycler.clear()
    device.residency.flush()
    return device.residency.count, int(device.mtl.currentAllocatedSize())


@pytest.fixture(scope="module")
def scene(device: MlxDevice) -> Callable[[], Scene]:
    library = device.compile(SOURCE)
    kernel, texture_kernel = library.count.pipeline, library.next.pipeline
    pool = device.buffer_pool()

    def make() -> Scene:
        pool.reset()
        pool.trim()
        x = device.zeros(8, "u32")
        return Scene(device, pool, kernel, x, next=texture_kernel, call=library.count, before=held(device))

    return make


def encoding(found: Scene) -> Scene:
    found.enc = found.device.command_encoder()
    found.enc.dispatch(found.kernel, found.x, threads=8)
    found.encoded = found.enc.ticket, found.enc.ticket.mtl
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


def in_session(found: Scene) -> Scene:
    found.session = found.device.encoder_session()
    found.session.encoder().dispatch(found.kernel, found.x, threads=8)
    return found


def fenced(found: Scene) -> Scene:
    in_session(found).session.fence_stage("first")
    return found


def recorded(found: Scene) -> Scene:
    with found.device.capture() as graph:
        graph.encoder.dispatch(found.kernel, found.x, threads=8)
        graph.encoder.dispatch(found.kernel, found.x, threads=8)
    found.plan = graph
    return found


def planned(found: Scene) -> Scene:
    found.plan = recorded(found).plan.plan()
    return found


def with_image(found: Scene) -> Scene:
    found.image = found.device.texture(IMAGE)
    return found


def fence(found: Scene) -> None:
    found.session.fence_stage("first")


def next_stage(found: Scene) -> None:
    found.session.reset_for_next_stage()


def end_session(found: Scene) -> None:
    found.session.commit_and_wait()


def whole_session(found: Scene) -> None:
    with found.device.encoder_session() as session:
        session.encoder().dispatch(found.kernel, found.x, threads=8)
        session.fence_stage("first")
        session.reset_for_next_stage()
        session.encoder().dispatch(found.kernel, found.x, threads=8)


def capture(found: Scene) -> None:
    with found.device.capture() as graph:
        graph.encoder.dispatch(found.kernel, found.x, threads=8)


def make_plan(found: Scene) -> None:
    found.plan.plan()


def run_plan(found: Scene) -> None:
    found.plan.run()


def encode_plan(found: Scene) -> None:
    with found.device.command_encoder() as enc:
        found.plan.encode(enc)


def make_texture(found: Scene) -> None:
    found.device.texture(IMAGE)


def use_texture(found: Scene) -> None:
    with found.device.command_encoder() as enc:
        enc.dispatch(found.next, found.image, threads=(4, 4))


def read_texture(found: Scene) -> None:
    found.image.numpy()


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


def called(found: Scene) -> Scene:
    """A kernel that was launched in this shape before, so that calls of it take the short way."""
    found.call(found.device.zeros(8, "u32"))
    return found


def call_on_buffer(found: Scene) -> None:
    found.call(found.x)


def call_on_array(found: Scene) -> None:
    given = np.zeros(9, np.uint32)[1:]
    found.call(given)


def wait(found: Scene) -> None:
    found.ticket.wait()


def look(found: Scene) -> None:
    found.ticket.done()


def read(found: Scene) -> None:
    found.x.numpy()


def allocate(found: Scene) -> None:
    found.device.empty(1000)


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
    if found.encoded is not None:
        (ticket, commands), found.encoded = found.encoded, None
        assert ticket.is_submitted == (commands.status() >= softmetal.MTLCommandBufferStatusCommitted)
        del ticket, commands
    used = getattr(found, "x", None)
    found.enc = found.ticket = found.session = found.plan = None
    found.made.clear()
    if found.image is not None:
        assert set(found.image.numpy().ravel().tolist()) in ({0}, {1})
        found.image = None
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
    if used is not None:
        del found.x
    del x, used
    end = time.monotonic() + 2  # a thread may hold what it ran for a moment longer
    while (now_held := held(device)) > found.before and time.monotonic() < end:
        gc.collect()
    assert now_held <= found.before


CALLS = pytest.mark.parametrize(
    ("setup", "act"),
    [
        (plain, begin),
        (encoding, dispatch),
        (encoding, commit),
        (encoding, commit_and_wait),
        (encoding, discard),
        (plain, whole),
        (called, call_on_buffer),
        (called, call_on_array),
        (submitted, wait),
        (submitted, look),
        (submitted, read),
        (plain, allocate),
        (plain, lend_fresh),
        (returned, lend),
        (returned, lend_several),
        (lent, give_back),
        (returned, trim),
        (in_session, fence),
        (fenced, next_stage),
        (fenced, end_session),
        (in_session, end_session),
        (plain, whole_session),
        (plain, capture),
        (recorded, make_plan),
        (planned, run_plan),
        (planned, encode_plan),
        (plain, make_texture),
        (with_image, use_texture),
        (with_image, read_texture),
    ],
    ids=lambda each: each.__name__.strip("_"),
)


@CALLS
def test_ctrl_c_anywhere_comes_out_and_leaves_all_accounts_right(
    scene: Any, setup: Any, act: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    lost: list[str] = []  # in the one finaliser that there is, of encoders that were never committed

    def note(unraisable: Any) -> None:
        if getattr(unraisable.object, "__name__", "") == "_dropped":
            lost.append(str(unraisable.exc_value))  # not the exception itself, whose frames keep the encoder

    monkeypatch.setattr(sys, "unraisablehook", note)
    tried = raise_at_every_bytecode(
        lambda: setup(scene()),
        act,
        later_work_is_right,
        inside=INSIDE,
        only_checked=True,
        step=1 if request.config.getoption("--full") else 5,
        swallowed=lost.__contains__,
    )
    assert tried


@CALLS
def test_a_signal_handler_or_finaliser_may_use_the_device_anywhere(
    scene: Any, setup: Any, act: Any, device: MlxDevice, request: pytest.FixtureRequest
) -> None:
    library, pool, x = device.compile(SOURCE), device.buffer_pool(), device.zeros(8, "u32")

    def work() -> None:
        before = x.numpy()[0]
        library.count(x)
        assert x.numpy()[0] == before + 1
        pool.release(pool.alloc(32, "u32", 8))
        with device.command_encoder() as enc:
            enc.dispatch(library.count.pipeline, device.empty(8, "u32"), threads=8)
        device.compile(SOURCE)

    step = 1 if request.config.getoption("--full") else 9
    found = work_at_every_bytecode(
        lambda: setup(scene()), act, work, later_work_is_right, inside=INSIDE, step=step, seconds=20
    )
    assert found

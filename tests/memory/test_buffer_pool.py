"""The pool: two live buffers never overlap, whatever the order of calls; nothing is lent while it may be in use."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mlx_native_py import BufferAllocationError, EncoderStateError, InvalidArgument, MlxBuffer, MlxDevice
from mlx_native_py.memory.pool import MlxBufferPool, bucket_size
from mlx_native_py.metal import open_metal


class Completion:
    """A command buffer as the pool sees it."""

    def __init__(self) -> None:
        self.is_done = False

    def done(self) -> bool:
        return self.is_done

    def in_flight(self) -> tuple[()]:
        return ()


@pytest.fixture
def pool(device: MlxDevice) -> MlxBufferPool:
    return device.buffer_pool()


def test_buckets() -> None:
    expected = {1: 1, 2: 2, 3: 4, 5: 8, 1023: 1024, 1024: 1024, 1025: 2048, (1 << 40) + 1: 1 << 41}
    assert {n: bucket_size(n) for n in expected} == expected


def test_buffers_are_exact_in_blocks_of_powers_of_two(pool: MlxBufferPool) -> None:
    x, y = pool.alloc(100, "u8", 100), pool.alloc(200, "f32", (5, 10))
    assert (x.nbytes, x.allocation.nbytes, y.nbytes, y.allocation.nbytes) == (100, 128, 200, 256)
    assert x.numpy().shape == (100,) and not x.numpy().any()
    addresses = {x.span[1], y.span[1]}
    pool.release(x)
    pool.release(y)
    assert (pool.free_count, pool.free_bytes, pool.in_use_count) == (2, 384, 0)
    again = [pool.alloc(128, "u8", 128), pool.alloc(129, "u8", 129)]
    assert {buffer.span[1] for buffer in again} == addresses and pool.free_count == 0


def test_reset_takes_all_back(pool: MlxBufferPool) -> None:
    pool.reset()
    for _ in range(3):
        pool.alloc(64, "f32", 16)
    assert pool.in_use_count == 3
    pool.reset()
    assert (pool.in_use_count, pool.free_count) == (0, 3)
    pool.alloc(64, "f32", 16)
    assert (pool.in_use_count, pool.free_count) == (1, 2)
    pool.reset()
    pool.reset()
    assert (pool.in_use_count, pool.free_count) == (0, 3)


def test_release_and_reset_never_lend_twice(pool: MlxBufferPool) -> None:
    x = pool.alloc(64, "f32", 16)
    pool.release(x)
    pool.reset()
    one, two = pool.alloc(64, "f32", 16), pool.alloc(64, "f32", 16)
    assert one.span[1] != two.span[1]


@pytest.mark.parametrize("byte_len", [0, -1, 1.0, 63])
def test_alloc_checks_like_the_device(pool: MlxBufferPool, byte_len: Any) -> None:
    with pytest.raises(InvalidArgument):
        pool.alloc(byte_len, "f32", 16)
    assert pool.in_use_count == 0


def test_double_release_foreign_buffers_and_views_are_refused(device: MlxDevice, pool: MlxBufferPool) -> None:
    x = pool.alloc(64, "f32", 16)
    with pytest.raises(InvalidArgument, match="is a part of"):
        pool.release(x[:4])
    pool.release(x.reshape(4, 4))
    for _ in range(2):
        with pytest.raises(InvalidArgument, match="already released"):
            pool.release(x)
    reset = pool.alloc(64, "f32", 16)
    pool.reset()
    with pytest.raises(InvalidArgument, match="already released"):
        pool.release(reset)
    for foreign in (device.empty(25), device.buffer_pool().alloc(64, "f32", 16)):
        with pytest.raises(InvalidArgument, match="does not come from this pool"):
            pool.release(foreign)
    assert pool.free_count == 1


def test_a_released_handle_stays_dead_when_its_block_is_lent_again(pool: MlxBufferPool) -> None:
    x = pool.alloc(64, "f32", 16)
    pool.release(x)
    again = pool.alloc(64, "f32", 16)
    assert again.span[1] == x.span[1]
    with pytest.raises(EncoderStateError, match="was returned to its pool"):
        x.numpy()
    again.numpy()
    with pytest.raises(InvalidArgument, match="already released"):
        pool.release(x)


def test_nothing_is_lent_while_the_gpu_may_use_it(pool: MlxBufferPool) -> None:
    x = pool.alloc(64, "f32", 16)
    first, second = Completion(), Completion()
    x[4:].allocation.hold(first)
    x.allocation.hold(second)
    pool.release(x)
    now = pool.statistics()
    assert (now.free_count, now.waiting_count, now.waiting_bytes) == (0, 1, 64)
    second.is_done = True
    assert pool.free_count == 0, "the later command buffer may end first"
    assert pool.alloc(64, "f32", 16).span[1] != x.span[1]
    first.is_done = True
    assert pool.free_count == 1
    assert pool.alloc(64, "f32", 16).span[1] == x.span[1]


BUSY = """
kernel void busy(device uint *x [[buffer(0)]], constant uint &mark [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  for (uint step = 0; step < 300000; ++step) x[i] = x[i] * 1664525u + 1013904223u;
  x[i] = mark;
}
"""


@pytest.mark.parametrize("by", ["release", "reset"])
def test_a_block_waits_for_the_real_command_buffer(device: MlxDevice, pool: MlxBufferPool, by: str) -> None:
    device.kernels.register_source("busy", BUSY)
    pipeline = device.kernels.get_pipeline("busy")
    x = pool.alloc(1024, "u32", 256)
    encoder = device.command_encoder()
    encoder.dispatch(pipeline, x, 7, threads=256)
    if by == "release":
        pool.release(x)
    else:
        pool.reset()
    assert pool.free_count == 0, "encoded and not yet committed"
    ticket = encoder.commit()
    other = pool.alloc(1024, "u32", 256)
    assert other.span[1] != x.span[1] or ticket.done()
    ticket.wait()
    assert pool.statistics().waiting_count == 0
    with pytest.raises(EncoderStateError, match="was returned to its pool"):
        device.command_encoder().dispatch(pipeline, x, 7, threads=256)


def test_a_dropped_encoder_lets_go(device: MlxDevice, pool: MlxBufferPool) -> None:
    device.kernels.register_source("busy", BUSY)
    x = pool.alloc(1024, "u32", 256)
    encoder = device.command_encoder()
    encoder.dispatch(device.kernels.get_pipeline("busy"), x, 7, threads=256)
    pool.release(x)
    assert pool.free_count == 0
    del encoder
    gc.collect()
    assert pool.free_count == 1


def test_holding_keeps_no_list_of_the_past(pool: MlxBufferPool) -> None:
    x = pool.alloc(4, "f32", 1)
    kept = [weakref.ref(completion) for completion in (Completion() for _ in range(0))]
    last = Completion()
    x.allocation.hold(last)
    for _ in range(1000):
        following = Completion()
        kept.append(weakref.ref(following))
        x.allocation.hold(following)
        x.allocation.hold(following)
        last.is_done = True
        last = following
    del following
    assert sum(completion() is not None for completion in kept) <= 2 and x.allocation.is_busy()
    last.is_done = True
    assert not x.allocation.is_busy() and x.allocation.pending is None


def test_nothing_is_lent_while_an_array_looks_at_it(pool: MlxBufferPool) -> None:
    x = pool.alloc(64, "f32", 16)
    array = x.fill(7).numpy()[3:5]
    pool.reset()
    other = pool.alloc(64, "f32", 16)
    other.fill(1)
    assert array.tolist() == [7, 7] and pool.statistics().waiting_count == 1
    del array
    gc.collect()
    assert pool.free_count == 1


def test_used_blocks_keep_their_bytes_unless_zero_is_asked(device: MlxDevice) -> None:
    for zero in (False, True):
        pool = device.buffer_pool(zero=zero)
        pool.alloc(64, "u8", 64).fill(9)
        pool.reset()
        assert bool(pool.alloc(60, "u8", 60).numpy().any()) is not zero


def test_a_batch_is_all_or_nothing(pool: MlxBufferPool) -> None:
    assert pool.alloc_batch([]) == []
    batch = pool.alloc_batch([(4, "f32", 1), (6, "u8", (2, 3)), (2, "bf16", ())])
    assert [buffer.nbytes for buffer in batch] == [4, 6, 2] and pool.in_use_count == 3
    with pytest.raises(InvalidArgument):
        pool.alloc_batch([(4, "f32", 1), (5, "f32", 1)])
    assert (pool.in_use_count, pool.free_count) == (3, 1)


def test_trim_clear_and_statistics(pool: MlxBufferPool) -> None:
    for size in (16, 64, 64, 256):
        pool.alloc(size - 1, "u8", size - 1)
    before = pool.statistics()
    assert (before.requested_bytes, before.in_use_bytes, before.held_bytes, before.allocated) == (396, 400, 400, 4)
    pool.reset()
    assert pool.trim(100) == 320 and pool.free_bytes == 80
    pool.alloc(16, "u8", 16)
    assert pool.clear() == 64
    after = pool.statistics()
    assert (after.free_count, after.in_use_count, after.held_bytes, after.peak_bytes) == (0, 1, 16, 400)
    assert (after.reused, after.allocated, after.cap_bytes) == (1, 4, None)
    assert repr(pool) == "MlxBufferPool(1 in use, 0 waiting, 0 free)"


def test_trimmed_memory_goes_back_to_the_device(device: MlxDevice) -> None:
    gc.collect()  # what earlier tests dropped is not counted
    before, pool = device.info()["currently_allocated"], device.buffer_pool()
    pool.release(pool.alloc(1 << 20, "u8", 1 << 20))
    pool.clear()
    device.residency.flush()
    gc.collect()
    assert device.info()["currently_allocated"] == before


def test_the_cap_trims_and_then_refuses(device: MlxDevice) -> None:
    pool = device.buffer_pool(cap_bytes=256)
    small = [pool.alloc(64, "u8", 64) for _ in range(4)]
    with pytest.raises(BufferAllocationError, match="capped at 256 bytes and 256 are in use"):
        pool.alloc(1, "u8", 1)
    assert pool.statistics().held_bytes == 256
    for buffer in small[:2]:
        pool.release(buffer)
    assert pool.alloc(128, "u8", 128).nbytes == 128
    assert (pool.statistics().held_bytes, pool.free_count) == (256, 0)
    with pytest.raises(InvalidArgument, match="cap_bytes"):
        device.buffer_pool(cap_bytes=0)


def test_register_existing(device: MlxDevice, pool: MlxBufferPool) -> None:
    x = device.buffer(np.arange(4, dtype=np.float32))
    count = device.residency.count
    assert pool.register_existing(x) == pool.register_existing(x) == device.residency_sets_enabled
    assert (device.residency.count, pool.in_use_count, pool.free_count) == (count, 0, 0)
    with pytest.raises(InvalidArgument, match="does not come from this pool"):
        pool.release(x)
    with MlxDevice(device.backend) as other, pytest.raises(InvalidArgument, match="another device"):
        pool.register_existing(other.empty(4))
    lent = pool.alloc(16, "f32", 4)
    count = device.residency.count
    pool.register_existing(lent)
    assert device.residency.count == count
    del pool
    gc.collect()
    assert x.numpy().tolist() == [0, 1, 2, 3]


def test_buffers_outlive_their_pool(device: MlxDevice) -> None:
    x = device.buffer_pool().alloc(16, "f32", 4)
    gc.collect()
    assert x.fill(2).numpy().sum() == 8


def test_threads_never_share_a_block(pool: MlxBufferPool) -> None:
    faults: list[str] = []

    def work(mark: int) -> None:
        for step in range(60):
            mine = [pool.alloc(32, "u8", 32).fill(mark) for _ in range(3)]
            for buffer in mine:
                if not (buffer.numpy() == mark).all():
                    faults.append(f"{mark} at {step}")
                pool.release(buffer)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    now = pool.statistics()
    assert not faults
    assert (now.in_use_count, now.waiting_count, now.free_count) == (0, 0, now.allocated)
    assert now.reused + now.allocated == 8 * 60 * 3


class PoolMachine(RuleBasedStateMachine):
    """Random calls against a model: what is lent, what is held by a command buffer, what an array looks at."""

    @initialize(cap=st.sampled_from([None, 512]))
    def start(self, cap: int | None) -> None:
        self.cap = cap
        self.pool = MlxDevice(open_metal()).buffer_pool(cap_bytes=cap)
        self.lent: list[tuple[MlxBuffer, int]] = []
        self.ended: list[MlxBuffer] = []
        self.running: list[Completion] = []
        self.busy: list[tuple[Completion, int, int]] = []
        self.arrays: list[tuple[np.ndarray, int]] = []
        self.mark = 0

    @rule(size=st.integers(1, 130))
    def alloc(self, size: int) -> None:
        try:
            buffer = self.pool.alloc(size, "u8", size)
        except BufferAllocationError:
            assert self.cap is not None
            return
        self.mark = (self.mark + 1) % 256
        buffer.fill(self.mark)
        self.lent.append((buffer, self.mark))

    @precondition(lambda self: self.lent)
    @rule(pick=st.randoms(use_true_random=False))
    def release(self, pick: Any) -> None:
        buffer, _ = self.lent.pop(pick.randrange(len(self.lent)))
        self.pool.release(buffer)
        self.ended.append(buffer)

    @precondition(lambda self: self.ended)
    @rule(pick=st.randoms(use_true_random=False))
    def release_again(self, pick: Any) -> None:
        with pytest.raises(InvalidArgument):
            self.pool.release(pick.choice(self.ended))

    @rule()
    def reset(self) -> None:
        self.pool.reset()
        self.ended += [buffer for buffer, _ in self.lent]
        self.lent = []

    @rule(keep=st.integers(0, 300))
    def trim(self, keep: int) -> None:
        self.pool.trim(keep)
        assert self.pool.free_bytes <= keep

    @precondition(lambda self: self.lent)
    @rule(pick=st.randoms(use_true_random=False))
    def submit(self, pick: Any) -> None:
        completion = Completion()
        for buffer, _ in pick.sample(self.lent, min(2, len(self.lent))):
            buffer.allocation.hold(completion)
            self.busy.append((completion, *buffer.span[1:]))
        self.running.append(completion)

    @precondition(lambda self: self.running)
    @rule(pick=st.randoms(use_true_random=False))
    def complete(self, pick: Any) -> None:
        self.running.pop(pick.randrange(len(self.running))).is_done = True

    @precondition(lambda self: self.lent)
    @rule(pick=st.randoms(use_true_random=False))
    def look(self, pick: Any) -> None:
        buffer, mark = pick.choice(self.lent)
        self.arrays.append((buffer.numpy(), mark))

    @rule()
    def look_away(self) -> None:
        self.arrays = self.arrays[1:]

    @invariant()
    def live_buffers_do_not_overlap(self) -> None:
        spans = sorted(buffer.span[1:] for buffer, _ in self.lent)
        assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
        for buffer, mark in self.lent:
            assert (buffer.numpy() == mark).all()
        for array, mark in self.arrays:
            assert (array == mark).all()

    @invariant()
    def busy_memory_is_not_lent_to_others(self) -> None:
        for completion, start, end in self.busy:
            holders = [b for b, _ in self.lent if b.span[1] < end and start < b.span[2]]
            assert completion.is_done or all(b.allocation.is_busy() for b in holders)

    @invariant()
    def books_are_right(self) -> None:
        now = self.pool.statistics()
        assert now.in_use_count == len(self.lent)
        assert now.requested_bytes == sum(buffer.nbytes for buffer, _ in self.lent)
        assert now.held_bytes == self.pool._held and now.held_bytes <= (self.cap or now.held_bytes)


TestPoolAgainstAModel = PoolMachine.TestCase

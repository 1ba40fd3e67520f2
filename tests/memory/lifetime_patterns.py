"""Programs that let go of things while the GPU is at work: each leaves right numbers, or is refused."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import mmap
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from mlx_native_py import EncoderStateError, InvalidArgument, MlxBuffer, MlxDevice, MlxError, Out, fn, ops
from mlx_native_py.weights import open_safetensors

COUNT, TURNS = 256, 50_000_000
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void spin(device uint *x, constant uint &turns, uint i [[thread_position_in_grid]]) {
  uint v = x[i];
  for (uint k = 0; k < turns; ++k) v = v * 1664525u + 1013904223u;
  x[i] = v;
}
kernel void add(device const uint *a, device uint *out, constant uint &k, uint i [[thread_position_in_grid]]) {
  out[i] = a[i] + k;
}
kernel void next(texture2d<uint, access::read_write> image, uint2 at [[thread_position_in_grid]]) {
  image.write(image.read(at) + 1, at);
}
"""
PATTERNS: dict[str, Callable[[Scene], None]] = {}


@dataclass
class Scene:
    """A device with work in front of whatever is submitted next, so that it is in flight for a while."""

    device: MlxDevice
    library: Any
    folder: Path

    def behind_work(self) -> None:
        busy = self.device.zeros(1, "u32")
        enc = self.device.command_encoder()
        enc.dispatch(self.library.spin, busy, TURNS, threads=1)
        enc.commit()

    def numbers(self, start: int = 0) -> MlxBuffer:
        return self.device.buffer(np.arange(start, start + COUNT, dtype=np.uint32))

    def room(self) -> MlxBuffer:
        return self.device.empty(COUNT, "u32")

    def add(self, enc: Any, a: MlxBuffer, out: MlxBuffer, k: int = 1) -> None:
        enc.dispatch(self.library.add, a, Out(out), k, threads=a.size)

    def submitted(self, a: MlxBuffer, out: MlxBuffer, k: int = 1, **options: Any) -> Any:
        self.behind_work()
        enc = self.device.command_encoder(**options)
        self.add(enc, a, out, k)
        return enc.commit()

    def recorded(self, a: MlxBuffer, out: MlxBuffer, **names: MlxBuffer) -> Any:
        with self.device.capture(**names) as graph:
            self.add(graph.encoder, a, out)
        return graph

    def overwrite(self, number: int = 8) -> list[MlxBuffer]:
        """Memory of the same size, written by the CPU: what was given back too early would now hold it."""
        taken = [self.room() for _ in range(number)]
        for each in taken:
            each.numpy(wait=False)[...] = 0xDEAD
        return taken


def is_sum(out: MlxBuffer, start: int = 0, k: int = 1) -> bool:
    return bool((out.numpy().ravel() == np.arange(start, start + COUNT, dtype=np.uint32) + np.uint32(k)).all())


def pattern(function: Callable[[Scene], None]) -> Callable[[Scene], None]:
    PATTERNS[function.__name__] = function
    return function


# Buffers and views


@pattern
def input_dropped_before_commit(s: Scene) -> None:
    a, out, enc = s.numbers(), s.room(), s.device.command_encoder()
    s.add(enc, a, out)
    del a
    kept = s.overwrite()
    enc.commit_and_wait()
    assert is_sum(out) and kept


@pattern
def input_dropped_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.submitted(a, out)
    del a
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def input_dropped_in_flight_unretained(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.submitted(a, out, unretained_refs=True)
    del a
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def result_dropped_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    ticket = s.submitted(a, out)
    del out
    kept = s.overwrite()
    ticket.wait()
    assert all((each.numpy() == 0xDEAD).all() for each in kept)


@pattern
def slice_outlives_its_parent(s: Scene) -> None:
    parent, out = s.device.buffer(np.arange(2 * COUNT, dtype=np.uint32)), s.room()
    part = parent.slice_view(4 * COUNT, COUNT)
    del parent
    kept = s.overwrite()
    s.submitted(part, out)
    assert is_sum(out, COUNT) and kept


@pattern
def slice_of_a_slice_outlives_both(s: Scene) -> None:
    part = s.device.buffer(np.arange(4 * COUNT, dtype=np.uint32)).slice_view(4 * COUNT, 2 * COUNT)
    inner, out = part.slice_view(4 * COUNT, COUNT), s.room()
    del part
    kept = s.overwrite()
    s.submitted(inner, out)
    assert is_sum(out, 2 * COUNT) and kept


@pattern
def slice_dropped_in_flight(s: Scene) -> None:
    parent, out = s.device.buffer(np.arange(2 * COUNT, dtype=np.uint32)), s.room()
    s.submitted(parent.slice_view(4 * COUNT, COUNT), out)
    del parent
    kept = s.overwrite()
    assert is_sum(out, COUNT) and kept


@pattern
def reshaped_view_outlives_its_buffer(s: Scene) -> None:
    view, out = s.numbers().reshape(16, -1), s.room()
    kept = s.overwrite()
    s.submitted(view, out)
    assert is_sum(out) and kept


@pattern
def view_of_another_type_outlives_its_buffer(s: Scene) -> None:
    view, out = s.device.buffer(np.arange(COUNT, dtype=np.uint32).view(np.float32)).view("u32"), s.room()
    kept = s.overwrite()
    s.submitted(view, out)
    assert is_sum(out) and kept


@pattern
def array_outlives_its_buffer(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.submitted(a, out).wait()
    array = out.numpy()
    del a, out
    kept = s.overwrite()
    assert (array == np.arange(1, COUNT + 1)).all() and kept


@pattern
def slice_of_an_array_outlives_its_buffer(s: Scene) -> None:
    part = s.numbers().numpy()[10:20]
    kept = s.overwrite()
    assert (part == np.arange(10, 20)).all() and kept


@pattern
def source_array_changes_in_flight(s: Scene) -> None:
    source, out = np.arange(COUNT, dtype=np.uint32), s.room()
    s.submitted(s.device.buffer(source), out)
    source[:] = 0
    assert is_sum(out)


@pattern
def memory_of_the_caller_is_dropped_in_flight(s: Scene) -> None:
    pages = mmap.mmap(-1, 4096)
    np.frombuffer(pages, np.uint32)[:COUNT] = np.arange(COUNT)
    out = s.room()
    s.submitted(s.device.buffer(pages, "u32", copy=False).slice_view(0, COUNT), out)
    del pages
    assert is_sum(out)


@pattern
def memory_of_the_caller_cannot_be_closed_in_flight(s: Scene) -> None:
    pages = mmap.mmap(-1, 4096)
    out = s.room()
    ticket = s.submitted(s.device.buffer(pages, "u32", copy=False).slice_view(0, COUNT), out)
    with pytest.raises(BufferError):
        pages.close()
    ticket.wait()


@pattern
def bytes_change_after_they_were_encoded(s: Scene) -> None:
    a, out, number = s.numbers(), s.room(), np.array([5], np.uint32)
    enc = s.device.command_encoder()
    enc.dispatch(s.library.add, a, Out(out), number[0], threads=COUNT)
    number[0] = 7
    enc.commit_and_wait()
    assert is_sum(out, k=5)


@pattern
def buffer_dropped_by_another_thread_in_flight(s: Scene) -> None:
    held, out = [s.numbers()], s.room()
    s.submitted(held[0], out)
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def buffer_in_a_cycle_is_collected_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    cycle: list[Any] = [a]
    cycle.append(cycle)
    s.submitted(a, out)
    del a, cycle
    gc.collect()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def memory_goes_once_the_work_is_done(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    gone = weakref.ref(a.allocation)
    ticket = s.submitted(a, out)
    del a
    ticket.wait()
    s.device.residency.flush()
    gc.collect()
    assert gone() is None and is_sum(out)


# Encoders, tickets, pipelines


@pattern
def encoder_dropped_after_commit(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.behind_work()
    enc = s.device.command_encoder()
    s.add(enc, a, out)
    enc.commit()
    del enc, a
    gc.collect()
    assert is_sum(out)


@pattern
def encoder_dropped_before_commit(s: Scene) -> None:
    a, out, enc = s.numbers(), s.device.zeros(COUNT, "u32"), s.device.command_encoder()
    s.add(enc, a, out)
    with pytest.warns(ResourceWarning, match="never committed"):
        del enc
        gc.collect()
    assert not out.numpy().any()


@pattern
def encoder_in_a_cycle_is_collected_uncommitted(s: Scene) -> None:
    a, out, enc = s.numbers(), s.device.zeros(COUNT, "u32"), s.device.command_encoder()
    s.add(enc, a, out)
    cycle: list[Any] = [enc]
    cycle.append(cycle)
    with pytest.warns(ResourceWarning, match="never committed"):
        del enc, cycle
        gc.collect()
    s.submitted(a, out)
    assert is_sum(out)


@pattern
def ticket_dropped_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    del a, (ticket := [s.submitted(s.numbers(), out)])[0]
    gc.collect()
    assert is_sum(out) and not ticket


@pattern
def ticket_in_a_cycle_with_its_buffer(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    cycle: list[Any] = [a, s.submitted(a, out)]
    cycle.append(cycle)
    del a, cycle
    gc.collect()
    assert is_sum(out)


@pattern
def ticket_awaited_by_asyncio(s: Scene) -> None:
    a, out = s.numbers(), s.room()

    async def wait() -> None:
        await s.submitted(a, out)

    asyncio.run(wait())
    assert is_sum(out)


@pattern
def library_and_kernels_dropped_in_flight(s: Scene) -> None:
    library, a, out = s.device.compile(SOURCE + "// another\n"), s.numbers(), s.room()
    s.behind_work()
    enc = s.device.command_encoder()
    enc.dispatch(library.add, a, Out(out), 1, threads=COUNT)
    enc.commit()
    del library, enc
    gc.collect()
    assert is_sum(out)


@pattern
def discarded_encoder_lets_go(s: Scene) -> None:
    a, out, enc = s.numbers(), s.device.zeros(COUNT, "u32"), s.device.command_encoder()
    s.add(enc, a, out)
    gone = weakref.ref(a.allocation)
    enc.discard()
    del a, enc
    s.device.residency.flush()
    gc.collect()
    assert gone() is None and not out.numpy().any()


@pattern
def exception_while_encoding(s: Scene) -> None:
    a, out = s.numbers(), s.device.zeros(COUNT, "u32")
    with contextlib.suppress(ZeroDivisionError), s.device.command_encoder() as enc:
        s.add(enc, a, out)
        raise ZeroDivisionError
    assert not out.numpy().any()
    s.submitted(a, out)
    assert is_sum(out)


@pattern
def call_without_a_wait_and_nothing_kept(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.behind_work()
    s.library.add(a, Out(out), 1, wait=False)
    del a
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def buffer_of_another_device_is_refused(s: Scene) -> None:
    with MlxDevice(s.device.backend) as other:
        foreign, out, enc = other.zeros(COUNT, "u32"), s.room(), s.device.command_encoder()
        with pytest.raises(InvalidArgument):
            s.add(enc, foreign, out)
        enc.discard()


# The pool


@pattern
def pool_block_released_in_flight_is_not_lent(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    a.numpy()[...] = np.arange(COUNT)
    s.submitted(a, out)
    pool.release(a)
    pool.alloc(4 * COUNT, "u32", COUNT).numpy(wait=False)[...] = 0xDEAD
    assert is_sum(out)


@pattern
def pool_reset_in_flight(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    a.numpy()[...] = np.arange(COUNT)
    s.submitted(a, out)
    pool.reset()
    for _ in range(3):
        pool.alloc(4 * COUNT, "u32", COUNT).numpy(wait=False)[...] = 0xDEAD
    assert is_sum(out)


@pattern
def pool_trimmed_in_flight(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    a.numpy()[...] = np.arange(COUNT)
    s.submitted(a, out)
    pool.release(a)
    pool.trim()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def pool_dropped_in_flight(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    a.numpy()[...] = np.arange(COUNT)
    s.submitted(a, out)
    del pool, a
    gc.collect()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def released_pool_block_is_refused(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    view = a.slice_view(0, COUNT)
    pool.release(a)
    enc = s.device.command_encoder()
    for each in (a, view):
        with pytest.raises(MlxError):
            s.add(enc, each, out)
    enc.discard()


# Graphs and plans


@pattern
def recorded_buffers_dropped_before_the_run(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    graph = s.recorded(a, out)
    del a
    kept = s.overwrite()
    graph.run()
    assert is_sum(out) and kept


@pattern
def plan_outlives_graph_and_buffers(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    plan = s.recorded(a, out).plan()
    del a
    gc.collect()
    kept = s.overwrite()
    plan.run()
    plan.run()
    assert is_sum(out) and kept


@pattern
def plan_dropped_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    plan = s.recorded(a, out).plan()
    s.behind_work()
    enc = s.device.command_encoder()
    plan.encode(enc)
    enc.commit()
    del plan, enc, a
    gc.collect()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def plan_with_a_released_pool_block_is_refused(s: Scene) -> None:
    pool, out = s.device.buffer_pool(), s.room()
    a = pool.alloc(4 * COUNT, "u32", COUNT)
    plan = s.recorded(a, out).plan()
    pool.release(a)
    with pytest.raises(MlxError):
        plan.run()


@pattern
def plan_bound_anew_in_flight(s: Scene) -> None:
    a, out, other = s.numbers(), s.room(), s.numbers(1000)
    plan = s.recorded(a, out, source=a).plan()
    s.behind_work()
    enc = s.device.command_encoder()
    plan.encode(enc)
    enc.commit()
    plan.bind(source=other)
    del a
    kept = s.overwrite()
    assert is_sum(out) and kept
    plan.run()
    assert is_sum(out, 1000)


@pattern
def plan_numbers_set_in_flight(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    plan = s.recorded(a, out).plan(scalars=["k"])
    s.behind_work()
    enc = s.device.command_encoder()
    plan.encode(enc)
    ticket = enc.commit()
    plan.scalars("k").set(9)
    ticket.wait()
    assert is_sum(out, k=1)
    plan.run()
    assert is_sum(out, k=9)


@pattern
def chunks_of_a_graph_that_is_dropped(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.behind_work()
    s.recorded(a, out).commit_chunks(1)
    del a
    gc.collect()
    kept = s.overwrite()
    assert is_sum(out) and kept


@pattern
def exception_while_recording(s: Scene) -> None:
    a, out = s.numbers(), s.device.zeros(COUNT, "u32")
    with contextlib.suppress(ZeroDivisionError), s.device.capture() as graph:
        s.add(graph.encoder, a, out)
        raise ZeroDivisionError
    assert not out.numpy().any()
    s.recorded(a, out).run()
    assert is_sum(out)


# Sessions, textures, results, files, devices


@pattern
def session_dropped_behind_a_fence(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    s.behind_work()
    session = s.device.encoder_session()
    s.add(session.encoder(), a, out)
    session.fence_stage("first")
    del session, a
    gc.collect()
    assert is_sum(out)


@pattern
def buffers_of_a_stage_dropped_before_the_next(s: Scene) -> None:
    a, middle, out = s.numbers(), s.room(), s.room()
    with s.device.encoder_session() as session:
        s.add(session.encoder(), a, middle)
        session.fence_stage("first")
        del a
        session.reset_for_next_stage()
        s.add(session.encoder(), middle, out)
        del middle
        kept = s.overwrite()
    assert is_sum(out, k=2) and kept


@pattern
def exception_in_a_session(s: Scene) -> None:
    a, out = s.numbers(), s.room()
    with contextlib.suppress(ZeroDivisionError), s.device.encoder_session() as session:
        s.add(session.encoder(), a, out)
        raise ZeroDivisionError
    s.submitted(a, out)
    assert is_sum(out)


@pattern
def texture_dropped_in_flight(s: Scene) -> None:
    s.behind_work()
    image, enc = s.device.texture(np.zeros((8, 8), np.uint32)), s.device.command_encoder()
    enc.dispatch(s.library.next, image, threads=(8, 8))
    ticket = enc.commit()
    del image, enc
    gc.collect()
    ticket.wait()


@pattern
def pixels_outlive_their_texture(s: Scene) -> None:
    image = s.device.texture(np.zeros((8, 8), np.uint32))
    with s.device.command_encoder() as enc:
        enc.dispatch(s.library.next, image, threads=(8, 8))
    pixels = image.numpy()
    del image, enc
    gc.collect()
    assert (pixels == 1).all()


@pattern
def results_of_ops_are_dropped_while_others_need_them(s: Scene) -> None:
    x = s.device.ones(1024)
    for _ in range(2):
        with s.device.command_encoder() as enc:
            y = x
            for _ in range(20):
                y = ops.add(enc, y, x)
        assert (y.numpy() == 21).all()


@pattern
def result_of_an_op_outlives_many_later_ones(s: Scene) -> None:
    x = s.device.ones(1024)
    with s.device.command_encoder() as enc:
        kept = ops.add(enc, x, x)
    for _ in range(8):
        with s.device.command_encoder() as enc:
            ops.add(enc, kept, kept)
    assert (kept.numpy() == 2).all()


@pattern
def array_of_a_result_outlives_many_later_ones(s: Scene) -> None:
    x = np.ones(64, np.float32)
    kept = fn.add(x, x).numpy()
    for _ in range(8):
        fn.add(kept, kept)
    assert (kept == 2).all()


@pattern
def file_closed_while_its_tensor_is_in_flight(s: Scene) -> None:
    path, out = s.folder / "w.safetensors", s.room()
    save_file({"w": np.arange(COUNT, dtype=np.uint32)}, path)
    s.behind_work()
    enc = s.device.command_encoder()
    with open_safetensors(path) as file:
        s.add(enc, file["w"].buffer(s.device), out)
    enc.commit()
    assert is_sum(out)


@pattern
def file_dropped_and_removed_while_its_tensor_is_in_flight(s: Scene) -> None:
    path, out = s.folder / "r.safetensors", s.room()
    save_file({"w": np.arange(COUNT, dtype=np.uint32)}, path)
    s.submitted(open_safetensors(path)["w"].buffer(s.device), out)
    path.unlink()
    gc.collect()
    assert is_sum(out)


@pattern
def device_closed_in_flight(s: Scene) -> None:
    with MlxDevice(s.device.backend) as other:
        scene = Scene(other, other.compile(SOURCE), s.folder)
        a, out = scene.numbers(), scene.room()
        scene.submitted(a, out)
    assert is_sum(out)
    with pytest.raises(EncoderStateError):
        other.command_encoder()

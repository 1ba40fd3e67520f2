"""Buffers, views, encoders and tickets that are let go of while the GPU is at work."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import mmap
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from memory.lifetime_kit import COUNT, SOURCE, Scene, is_sum, pattern
from mlx_native_py import InvalidArgument, MlxDevice, Out


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

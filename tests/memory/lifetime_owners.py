"""Pools, graphs, plans, sessions, textures, results, files and devices that go while the GPU is at work."""

from __future__ import annotations

import contextlib
import gc

import numpy as np
import pytest
from safetensors.numpy import save_file

from memory.lifetime_kit import COUNT, SOURCE, Scene, is_sum, pattern
from mlx_native_py import EncoderStateError, MlxDevice, MlxError, fn, ops
from mlx_native_py.weights import open_safetensors


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

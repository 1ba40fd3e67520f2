"""What is easily got wrong: what changes between replays, names that clash, ranges that nobody tells."""

from __future__ import annotations

import gc
import json
import mmap
import struct
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core.encoder_kit import soft_device

from mlx_native_py import (
    ComputeGraph,
    Encoder,
    EncoderStateError,
    GraphExecutor,
    InvalidArgument,
    MlxBuffer,
    MlxDevice,
    ModelFileError,
    Out,
    counters,
    ops,
    settings,
    softmetal,
)

from .graph_kit import kernel, mix, numbers, value
from .random_graphs import SIZE, SOURCE


def random_floats(device: MlxDevice, *shape: int) -> MlxBuffer:
    return device.buffer(np.random.default_rng(1).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("indirect", [False, True])
class TestPlan:
    def test_numbers_of_a_replay_that_is_not_committed_stay(self, device: MlxDevice, indirect: bool) -> None:
        x, out = numbers(device, 0), device.empty(SIZE, "u32")
        with device.capture(x=x) as g:
            mix(g, x, x, out)
        plan = g.plan(scalars=["k"], indirect=indirect)
        copies = [device.empty(SIZE, "u32") for _ in range(3)]
        with device.command_encoder() as enc:
            for k, copy in enumerate(copies, 1):
                plan.scalars("k").set(k)
                plan.encode(enc)
                enc.dispatch(kernel(device, "mix"), x, out, Out(copy), 0, threads=SIZE)
        assert [value(copy) for copy in copies] == [5, 10, 15]

    def test_numbers_at_hand_are_set_after_a_bind(self, device: MlxDevice, indirect: bool) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            out = mix(g, x, x, k=1)
        plan = g.plan(scalars=["k"], indirect=indirect)
        k = plan.scalars("k")
        plan.bind(x=numbers(device, 2))
        k.set(4)
        plan.run()
        assert value(out) == 20

    def test_a_refused_bind_changes_nothing(self, device: MlxDevice, indirect: bool) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x, x, x)
        plan = g.plan(indirect=indirect)
        page = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE), np.uint32)[:SIZE]
        page.flags.writeable = False
        with pytest.raises(InvalidArgument, match="read-only"):
            plan.bind(x=device.buffer(page, copy=False))
        with MlxDevice(device.backend) as other, pytest.raises(InvalidArgument, match="another device"):
            plan.bind(x=numbers(other, 2))
        plan.run()
        assert value(x) == 8

    @pytest.mark.parametrize("profiled", [False, True])
    def test_none_keeps_what_the_replay_left(self, device: MlxDevice, indirect: bool, profiled: bool) -> None:
        x, y, out = numbers(device, 1), numbers(device, 2), device.empty(SIZE, "u32")
        with device.capture(x=x) as g:
            mix(g, y, x, k=1)
        plan = g.plan(scalars=["k"], indirect=indirect)
        plan.scalars("k").set(9)
        with settings.override(profile_dispatch=profiled), device.command_encoder() as enc:
            plan.encode(enc)
            enc.dispatch(kernel(device, "mix"), None, None, Out(out), None, threads=SIZE)
        assert value(out) == 20

    def test_barriers_at_both_ends_stay(self, device: MlxDevice, indirect: bool) -> None:
        x, y = numbers(device, 1), numbers(device, 2)
        with device.capture(x=x) as g:
            g.encoder.memory_barrier()
            mix(g, x, x)
            g.encoder.memory_barrier()
        plan = g.plan(indirect=indirect)
        with device.command_encoder() as enc:
            enc.dispatch(kernel(device, "mix"), y, y, Out(device.empty(SIZE, "u32")), 0, threads=SIZE)
            plan.encode(enc)
            enc.dispatch(kernel(device, "mix"), y, y, Out(device.empty(SIZE, "u32")), 0, threads=SIZE)
            assert enc.tally.barriers == 2


APPLE9 = 1009
PROFILES = {
    "before Apple9": softmetal.DeviceProfile(families=softmetal.DeviceProfile().families - {APPLE9}),
    "no residency sets": softmetal.DeviceProfile(residency_sets=False),
    "no indirect commands": softmetal.DeviceProfile(indirect_command_buffers=False),
    "a virtual machine": softmetal.DeviceProfile(name="Apple Paravirtual device"),
}


@pytest.mark.soft
@pytest.mark.parametrize("profile", PROFILES)
def test_lesser_devices_get_the_same_results(profile: str) -> None:
    with soft_device(PROFILES[profile], schedule="shuffled:3") as device:
        x, spread = numbers(device, 1), kernel(device, "spread")
        with device.capture(x=x) as g:
            t, out = mix(g, mix(g, x, x), x), g.encoder.empty(SIZE, "u32")
            g.encoder.dispatch(spread, t, Out(out), SIZE, threadgroups=1, group=SIZE, shared=SIZE * 4)
        plan = g.plan()
        assert plan.is_indirect == (profile in ("before Apple9", "no residency sets")) != bool(plan.declined)
        for _ in range(2):
            out.fill(0)
            plan.run()
            assert (out.numpy() == 29 + np.arange(SIZE)).all()


class TestScalars:
    @pytest.mark.parametrize("wrong", [2.7, -1, [1, 2], np.array([-1]), "one"])
    def test_what_the_type_cannot_hold_is_refused(self, device: MlxDevice, wrong: Any) -> None:
        x = numbers(device, 0)
        with device.capture(x=x) as g:
            mix(g, x, x)
        with pytest.raises(InvalidArgument):
            g.plan(scalars=["k"]).scalars("k").set(wrong)


def test_an_empty_graph_does_nothing(device: MlxDevice) -> None:
    with device.capture() as g:
        pass
    g.run()
    g.plan().run()
    assert "nothing to run" in g.plan().declined and g.svg() and g.dot() and g.text()


class TestUnknownRanges:
    """A dispatch that does not say what it writes runs beside nothing, and may read everything."""

    def test_others_wait_for_it(self, device: MlxDevice) -> None:
        x, y = numbers(device, 1), numbers(device, 2)
        with device.capture(x=x) as g:
            mix(g, x, x, y)
            g.encoder.dispatch(kernel(device, "bump"), y, 1, threads=SIZE, reads=(), writes=())
            mix(g, y, y, x)
        with device.command_encoder() as enc:
            g.plan(indirect=False).encode(enc)
            assert enc.tally.barriers == 2
        assert value(x) == 8 * (8 * 7 + 1)

    @pytest.mark.parametrize("indirect", [False, True])
    def test_two_replays_wait_for_each_other(self, device: MlxDevice, indirect: bool) -> None:
        y = numbers(device, 1)
        with device.capture() as g:
            g.encoder.dispatch(kernel(device, "bump"), y, 1, threads=SIZE, reads=(), writes=())
        plan = g.plan(indirect=indirect)
        with device.command_encoder() as enc:
            plan.encode(enc)
            plan.encode(enc)
        assert value(y) == (1 * 7 + 1) * 7 + 1

    def test_nothing_is_dropped_or_moved_under_it(self, device: MlxDevice) -> None:
        x, out = numbers(device, 1), numbers(device, 0)
        with device.capture(x=x, out=out) as g:
            t = mix(g, mix(g, mix(g, x, x), x), x)
            g.encoder.dispatch(kernel(device, "mix"), t, t, out, 0, threads=SIZE, reads=(), writes=())
        assert g.drop_dead_stores().dispatch_count() == 4 and g.share_memory().nodes == g.nodes
        g.run()
        expected = value(out)
        g.optimise().run()
        assert value(out) == expected

    def test_what_is_touched_but_not_bound_stays_in_place(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            a, t, out = mix(g, x, x), g.encoder.empty(SIZE, "u32"), g.encoder.empty(SIZE, "u32")
            pipeline = kernel(device, "mix")
            g.encoder.dispatch(pipeline, a, a, Out(out), 0, threads=SIZE, writes=(out, t), reads=(a,))
            g.keep(t=mix(g, mix(g, mix(g, out, t), x), x))
        shared = g.share_memory()
        assert any(each.value is t for node in shared.dispatches for each in node.bindings)
        g.keep(t=t)
        with pytest.raises(InvalidArgument, match="by an address"):
            g.bind(t=numbers(device, 0))


class TestFusion:
    def test_counts_nothing(self, device: MlxDevice) -> None:
        x, y = random_floats(device, 3, 37), random_floats(device, 3, 37)
        with device.capture(x=x, y=y) as g:
            g.keep(out=ops.mul(g.encoder, ops.rms_norm(g.encoder, x), y))
        with counters.scope() as counted:
            assert g.fuse().changes["fused"] == 1
        assert (counted.dispatches, counted.cmd_bufs) == (0, 0)

    @pytest.mark.parametrize("op", [ops.mul, ops.add])
    def test_an_op_that_refuses_leaves_the_pair(
        self, device: MlxDevice, op: Callable[[Encoder, MlxBuffer, MlxBuffer], MlxBuffer]
    ) -> None:
        x, y = random_floats(device, 3, 37), random_floats(device, 111)
        with device.capture(x=x, y=y) as g:
            g.keep(out=op(g.encoder, ops.rms_norm(g.encoder, x).reshape(111), y))
        assert g.fuse().changes["fused"] == 0

    def test_a_kernel_that_only_has_the_name_stays(self, device: MlxDevice) -> None:
        source = (
            "kernel void silu_f32(device const float *x [[buffer(0)]], device float *out [[buffer(1)]], "
            "uint i [[thread_position_in_grid]]) { out[i] = x[i] + 100.0f; }"
        )
        pipeline = device.kernels.get_pipeline("silu_f32", library=device.kernels.library(source))
        x = device.buffer(np.ones(SIZE, np.float32))
        with device.capture(x=x) as g:
            g.encoder.dispatch(pipeline, x, Out(t := g.encoder.empty(SIZE, "f32")), threads=SIZE)
            g.keep(out=ops.mul(g.encoder, t, x))
        fused = g.fuse()
        fused.run()
        assert (fused.names["out"].numpy() == 101).all()


def test_an_order_that_was_chosen_binds_no_new_aliases(device: MlxDevice) -> None:
    x, y, z, both = (numbers(device, n) for n in (1, 2, 3, 5))
    with device.capture(x=x, y=y, z=z) as g:
        mix(g, mix(g, y, y), y, x)
        g.keep(out=mix(g, z, z))
    with pytest.raises(InvalidArgument, match="bind first"):
        g.reorder().bind(x=both, z=both)
    g.bind(x=both, z=both).reorder().run()
    assert value(g.names["out"]) == 8 * (3 * 16 + 5 * 2)


class TestSession:
    def test_a_refused_finish_leaves_it_open(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        session = GraphExecutor(device).begin()
        session.encoder.dispatch(kernel(device, "bump"), x, 1, threads=SIZE)
        with pytest.raises(InvalidArgument):
            session.finish(fuse=True)
        with counters.scope() as counted:
            session.finish()
        assert value(x) == 8 and counted.syncs == 1


@pytest.mark.parametrize(("slot", "data"), [(2, bytes(SIZE * 4)), (3, bytes(5000)), (3, b"")])
def test_files_bind_numbers_only_where_kernels_read_them(
    device: MlxDevice, tmp_path: Path, slot: int, data: bytes
) -> None:
    x, path = numbers(device, 1), tmp_path / "g"
    device.kernels.register_source("random_graphs", SOURCE)
    with device.capture(x=x) as g:
        mix(g, x, x)
    g.save(path)
    whole = path.read_bytes()
    header = json.loads(whole[16 : 16 + int.from_bytes(whole[8:16], "little")])
    header["nodes"][0]["bindings"][slot][1] = data.hex()
    text = json.dumps(header).encode()
    path.write_bytes(whole[:8] + struct.pack("<Q", len(text)) + text)
    with pytest.raises(ModelFileError, match="bindings"):
        ComputeGraph.load(path, device)


def test_a_plan_over_memory_that_went_back_to_its_pool_is_refused_again_and_again(device: MlxDevice) -> None:
    pool = device.buffer_pool()
    x = pool.alloc(SIZE * 4, "u32", SIZE)
    out = device.empty(SIZE, "u32")
    with device.capture() as g:
        mix(g, x, x, out)
    plan = g.plan()
    pool.release(x)
    with device.command_encoder() as enc:
        for _ in range(2):
            with pytest.raises(EncoderStateError, match="went back to its pool"):
                plan.encode(enc)
        assert not enc.ticket.dispatches and enc.mem_ranges_len() == 0


def test_memory_of_a_plan_is_not_lent_to_others_while_it_lives(device: MlxDevice) -> None:
    pool = device.buffer_pool()
    x = pool.alloc(SIZE * 4, "u32", SIZE)
    with device.capture() as g:
        mix(g, x, x)
    plan = g.plan()
    assert x.allocation.is_busy()
    plan.run()
    del plan
    assert not x.allocation.is_busy()


def test_a_replay_that_breaks_off_leaves_nothing_half_known(device: MlxDevice) -> None:
    x, y, out = numbers(device, 1), numbers(device, 1), device.empty(SIZE, "u32")
    with device.capture() as g:
        g.encoder.dispatch(kernel(device, "bump"), y, 1, threads=SIZE)
    plan = g.plan(indirect=False)
    send = plan.send

    def interrupted(mtl: Any) -> None:
        send(mtl)
        raise KeyboardInterrupt

    plan.send = interrupted  # type: ignore[method-assign]
    enc = device.command_encoder()
    enc.dispatch(kernel(device, "mix"), x, x, Out(device.empty(SIZE, "u32")), 0, threads=SIZE)
    with pytest.raises(KeyboardInterrupt):
        plan.encode(enc)
    enc.dispatch(kernel(device, "mix"), x, x, Out(out), 0, threads=SIZE)
    enc.commit_and_wait()
    assert (value(out), value(y)) == (8, 8)


def test_what_is_only_declared_lives_as_long_as_the_graph(device: MlxDevice) -> None:
    x, hidden = numbers(device, 1), numbers(device, 2)
    with device.capture() as g:
        g.encoder.dispatch(kernel(device, "bump"), x, 1, threads=SIZE, reads=[hidden], writes=[x])
    memory = weakref.ref(hidden.allocation)
    del hidden
    gc.collect()
    assert memory() is not None and g.barrier_count() == 0
    g.plan().run()

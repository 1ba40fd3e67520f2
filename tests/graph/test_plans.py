"""What plans promise, case by case."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
import pytest
from kit.encoding import soft_device

from mlx_native_py import EncoderStateError, InvalidArgument, MlxDevice, Out, settings, softmetal
from mlx_native_py.profiling import kernel_profile
from mlx_native_py.softmetal.objects.compute_encoder import MTLComputeCommandEncoder

from .graph_kit import kernel, mix, numbers, value
from .random_graphs import SIZE


@pytest.mark.parametrize("indirect", [False, True])
class TestPlan:
    def test_numbers_can_be_set(self, device: MlxDevice, indirect: bool) -> None:
        x = numbers(device, 0)
        with device.capture(x=x) as g:
            outs = [mix(g, x, x, k=k) for k in (1, 1, 2)]
        plan = g.plan(scalars=["k"], indirect=indirect)
        assert plan.is_indirect == indirect and (plan.declined == "") == indirect
        k = plan.scalars("k")
        assert k.get().tolist() == [1, 1, 2]
        k.set([5, 6, 7])
        plan.run()
        assert [value(out) for out in outs] == [5, 6, 7]
        k.set(9)
        plan.run()
        assert [value(out) for out in outs] == [9, 9, 9]

    def test_numbers_of_a_replay_on_its_way_stay(self, device: MlxDevice, indirect: bool) -> None:
        x, out = numbers(device, 0), device.empty(SIZE, "u32")
        with device.capture(x=x) as g:
            mix(g, x, x, out, k=0)
        plan = g.plan(scalars=["k"], indirect=indirect)
        seen = []
        for k in range(5):
            plan.scalars("k").set(k)
            enc = device.command_encoder()
            plan.encode(enc)
            copy = device.empty(SIZE, "u32")
            enc.dispatch(kernel(device, "mix"), x, out, Out(copy), 0, threads=SIZE)
            seen.append((enc.commit(), copy))
        for ticket, _ in seen:
            ticket.wait()
        assert [value(copy) for _, copy in seen] == [0, 5, 10, 15, 20]

    def test_buffers_can_be_bound_anew(self, device: MlxDevice, indirect: bool) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            out = mix(g, x, x, k=1)
        plan = g.plan(scalars=["k"], indirect=indirect)
        plan.scalars("k").set(3)
        plan.bind(x=numbers(device, 2))
        plan.run()
        assert value(out) == 19

    def test_goes_with_other_dispatches(self, device: MlxDevice, indirect: bool) -> None:
        x, y = numbers(device, 1), numbers(device, 0)
        with device.capture(x=x) as g:
            mix(g, x, x, y)
        plan = g.plan(indirect=indirect)
        with device.command_encoder() as enc:
            enc.dispatch(kernel(device, "bump"), x, 1, threads=SIZE)
            plan.encode(enc)
            plan.encode(enc)
            enc.dispatch(kernel(device, "bump"), y, 1, threads=SIZE)
            assert enc.tally.barriers == 3
        assert value(y) == 8 * 8 * 7 + 1

    @pytest.mark.needs("stage_boundary_sampling", "timestamp_counters")
    def test_is_measured_dispatch_by_dispatch(self, device: MlxDevice, indirect: bool) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            out = mix(g, mix(g, x, x, k=1), x, k=2)
        plan = g.plan(scalars=["k"], indirect=indirect)
        plan.scalars("k").set(0)
        kernel_profile.reset()
        with settings.override(profile_dispatch=True):
            plan.run()
        [(_, entries)] = kernel_profile.dump_dispatches()
        assert len(entries) == 2 and value(out) == 29
        kernel_profile.reset()

    def test_its_dispatches_are_known(self, device: MlxDevice, indirect: bool) -> None:
        plan = self._plan(device, indirect)
        enc = device.command_encoder()
        plan.encode(enc)
        assert [each.pipeline.name for each in enc.ticket.dispatches] == ["mix"]
        enc.discard()

    def test_refuses_another_device_and_a_capture(self, device: MlxDevice, indirect: bool) -> None:
        plan = self._plan(device, indirect)
        with pytest.raises(EncoderStateError, match="cannot be captured"), device.capture() as g:
            plan.encode(g.encoder)
        with MlxDevice(device.backend) as other, pytest.raises(InvalidArgument, match="another device"):
            plan.encode(other.command_encoder())

    @staticmethod
    def _plan(device: MlxDevice, indirect: bool) -> Any:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x, x)
        return g.plan(indirect=indirect)

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


class TestIndirect:
    @pytest.mark.needs("indirect_command_buffers")
    def test_a_token_is_a_handful_of_messages(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        for count in (10, 500):
            with device.capture(x=x) as g:
                for _ in range(count):
                    mix(g, x, x, k=count)
            plan = g.plan(indirect=True)
            assert (
                plan.message_count <= (3 if device.capabilities.indirect_pipelines_stay_resident else 5)
                and len(plan.steps) == count
            )

    @pytest.mark.soft
    def test_what_commands_reach_is_told_by_one_tuple(self, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[Any] = []
        tell = MTLComputeCommandEncoder.useResources_count_usage_

        def listen(encoder: MTLComputeCommandEncoder, resources: Any, count: int, usage: int) -> None:
            told.append(resources)
            tell(encoder, resources, count, usage)

        monkeypatch.setattr(MTLComputeCommandEncoder, "useResources_count_usage_", listen)
        with soft_device() as device:
            x = numbers(device, 1)
            with device.capture(x=x) as g:
                mix(g, x, x)
            plan = g.plan(indirect=True)
            for _ in range(3):
                plan.run()
            assert isinstance(told[0], tuple) and x.mtl in told[0]
            assert len(told) == 3 and all(each is told[0] for each in told)

    @pytest.mark.needs("indirect_command_buffers")
    def test_far_offsets_are_declined(self, device: MlxDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x[1:], x[1:])
        monkeypatch.setattr("mlx_native_py.graph.indirect._OFFSETS", 4)
        assert "2**32" in g.plan().declined
        with pytest.raises(InvalidArgument, match=r"2\*\*32"):
            g.plan(indirect=True)


class TestScalars:
    def test_unknown_names_and_mixed_kinds(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x, x)
        plan = g.plan(scalars=["k"])
        with pytest.raises(InvalidArgument, match="there are: k"):
            plan.scalars("n")
        with pytest.raises(InvalidArgument, match="list of names"):
            g.plan(scalars="k")

    @pytest.mark.parametrize("wrong", [2.7, -1, [1, 2], np.array([-1]), "one"])
    def test_what_the_type_cannot_hold_is_refused(self, device: MlxDevice, wrong: Any) -> None:
        x = numbers(device, 0)
        with device.capture(x=x) as g:
            mix(g, x, x)
        with pytest.raises(InvalidArgument):
            g.plan(scalars=["k"]).scalars("k").set(wrong)


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
            with pytest.raises(EncoderStateError, match="was returned to its pool"):
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

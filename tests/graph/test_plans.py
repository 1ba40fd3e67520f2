"""What plans promise, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from mlx_native_py import EncoderStateError, InvalidArgument, MlxDevice, Out, settings
from mlx_native_py.profiling import kernel_profile

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

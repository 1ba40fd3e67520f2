"""What graphs, their passes and sessions promise, case by case."""

from __future__ import annotations

import gc
import weakref
import xml.etree.ElementTree as ET

import pytest

from mlx_native_py import (
    CapturedOpKind,
    EncoderStateError,
    GraphExecutor,
    InvalidArgument,
    MlxDevice,
    Out,
    counters,
    settings,
)

from .graph_kit import kernel, mix, numbers, value
from .random_graphs import SIZE


class TestCapture:
    def test_counts_and_barriers(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with counters.scope() as counted, device.capture(x=x) as g:
            a, b = mix(g, x, x), mix(g, x, x)
            mix(g, a, b)
        assert (len(g), g.dispatch_count(), g.barrier_count()) == (3, 3, 1)
        assert counted.dispatches == 3 and counted.syncs == 0
        assert len(g.temporaries) == 3

    def test_nothing_runs_while_capturing(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture() as g:
            mix(g, x, x, x)
        assert value(x) == 1
        g.run()
        assert value(x) == 8

    def test_an_error_in_the_block_leaves_the_device_usable(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with pytest.raises(InvalidArgument), device.capture() as g:
            g.encoder.dispatch(kernel(device, "mix"), x, threads=4)
        with pytest.raises(EncoderStateError, match="capture is over"):
            g.encoder.memory_barrier()
        with device.capture() as g:
            mix(g, x, x)
        g.run()

    def test_replay_counts_no_dispatch(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture() as g:
            mix(g, x, x)
        with counters.scope() as counted:
            g.run()
            g.plan().run()
        assert (counted.dispatches, counted.cmd_bufs) == (0, 2)


class TestOrder:
    def test_independent_chains_are_interleaved(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            for _ in range(2):
                mix(g, mix(g, mix(g, x, x), x), x)
        assert (g.barrier_count(), g.reorder().barrier_count()) == (4, 2)
        assert g.reorder().changes["moved"] > 0

    def test_nothing_passes_a_kind_that_stays(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, mix(g, x, x), x, kind=CapturedOpKind.Sdpa)
            mix(g, x, x)
        assert g.reorder().nodes == g.nodes

    def test_nothing_passes_a_dispatch_without_ranges(self, device: MlxDevice) -> None:
        x, y = numbers(device, 1), numbers(device, 2)
        with device.capture(x=x) as g:
            mix(g, x, x)
            g.encoder.dispatch(kernel(device, "bump"), y, 1, threads=SIZE, reads=(), writes=())
            mix(g, x, x)
        assert g.reorder().nodes == g.nodes
        assert [step.barrier for step in g.steps] == [False, True, True]

    def test_nothing_passes_a_barrier_by_hand(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            a = mix(g, x, x)
            mix(g, a, x)
            g.encoder.memory_barrier()
            mix(g, x, x)
        assert [step.barrier for step in g.reorder().steps] == [False, True, True]

    def test_looks_at_64_dispatches(self, device: MlxDevice) -> None:
        x, y, z = (numbers(device, n) for n in (1, 2, 3))
        with device.capture(x=x) as g:
            mix(g, y, y, x)
            for _ in range(70):
                g.encoder.dispatch(kernel(device, "bump"), x, 1, threads=SIZE)
            mix(g, y, y, z)
        assert g.reorder().nodes.index(g.nodes[-1]) > 1


class TestMemory:
    def test_dead_stores_go_with_what_fed_them(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, mix(g, x, x), x)
            g.keep(out=mix(g, x, x))
        assert g.drop_dead_stores().dispatch_count() == 1

    def test_without_names_every_result_would_be_lost(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture() as g:
            mix(g, x, x)
        for unsafe in (g.drop_dead_stores, g.share_memory):
            with pytest.raises(InvalidArgument, match="no named buffers"):
                unsafe()
        assert g.optimise().dispatch_count() == 1

    def test_a_chain_lives_in_two_buffers(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            t = x
            for _ in range(10):
                t = mix(g, t, x)
            g.keep(out=t)
        shared = g.share_memory()
        assert shared.changes["bytes saved"] == (9 - 2) * SIZE * 4
        shared.run()
        g_out, s_out = g.names["out"], shared.names["out"]
        g.run()
        assert g_out.to_bytes() == s_out.to_bytes()

    def test_what_is_read_before_it_is_all_written_stays_where_it_is(self, device: MlxDevice) -> None:
        x, half = numbers(device, 1), SIZE // 2
        with device.capture(x=x) as g:
            first = mix(g, x, x)
            mix(g, first, x, x)
            part = g.encoder.empty(SIZE, "u32")
            g.encoder.dispatch(kernel(device, "mix"), x[:half], x[:half], Out(part[:half]), 0, threads=half)
            g.keep(out=mix(g, part, part))
        shared = g.share_memory()
        x.fill(1)
        shared.run()
        assert (shared.names["out"].numpy()[half:] == 0).all()

    def test_x_in_place_of_x(self, device: MlxDevice) -> None:
        x, other = numbers(device, 1), numbers(device, 2)
        with device.capture(x=x) as g:
            out = mix(g, x, x)
            g.keep(out=out)
        g.bind(x=other).run()
        assert value(out) == 16

    def test_bind_refuses_other_shapes_and_names(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            mix(g, x, x)
        with pytest.raises(InvalidArgument, match=r"expected u32\[64\]"):
            g.bind(x=device.empty(3, "u32"))
        with pytest.raises(InvalidArgument, match="no buffer is called 'y'; there are: x"):
            g.bind(y=x)

    def test_bind_refuses_to_tear_a_buffer_apart(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x[:8]) as g:
            mix(g, x, x)
        with pytest.raises(InvalidArgument, match="only 0..32 are to be replaced"):
            g.bind(x=device.empty(8, "u32"))


class TestShow:
    def test_text_dot_and_svg_name_everything(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            g.keep(out=mix(g, mix(g, x, x), x))
        assert "-- barrier: RAW on t0" in g.text() and "writes out" in g.text()
        assert g.dot().startswith("digraph {") and "n0 -> n1" in g.dot() and g.dot().count("{") == g.dot().count("}")
        root = ET.fromstring(g.svg())
        assert root.tag.endswith("svg") and len(root.findall(".//{*}line")) == 1
        assert len(root.findall(".//{*}rect[@class='box']")) == 2


class TestSession:
    def test_direct_and_recorded_agree(self, device: MlxDevice) -> None:
        for begin in (GraphExecutor(device).begin, GraphExecutor(device).begin_recorded):
            x, out = numbers(device, 1), device.empty(SIZE, "u32")
            with begin() as session:
                for target in (x, out):
                    session.encoder.dispatch(kernel(device, "mix"), x, x, target, 0, threads=SIZE)
            assert value(out) == 64

    def test_finish_says_what_it_did(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        session = GraphExecutor(device).begin_recorded()
        enc, outs = session.encoder, []
        for _ in range(2):
            t = enc.empty(SIZE, "u32")
            enc.dispatch(kernel(device, "mix"), x, x, Out(t), 0, threads=SIZE)
            outs.append(enc.empty(SIZE, "u32"))
            enc.dispatch(kernel(device, "mix"), t, t, Out(outs[-1]), 0, threads=SIZE)
        outcome = session.finish(reorder=True, chunks=3, keep={"a": outs[0], "b": outs[1]})
        assert (outcome.moved > 0, outcome.barriers, outcome.command_buffers) == (True, 1, 3)
        assert outcome.encode_seconds > 0 and outcome.wait_seconds > 0
        assert [value(out) for out in outs] == [64, 64]
        with pytest.raises(EncoderStateError, match="finished"):
            session.finish()

    def test_barriers_between(self, device: MlxDevice) -> None:
        x, y = numbers(device, 1), numbers(device, 2)
        session = GraphExecutor(device).begin()
        assert [
            session.barrier_between([x], [y]),
            session.barrier_between([x], []),
            session.barrier_between([y], [x]),
        ] == [
            False,
            False,
            True,
        ]
        session.track_dispatch([y], [])
        assert session.barrier_between([], [y])
        assert session.barrier_count == 2
        session.finish()

    def test_optimising_a_direct_session_is_refused(self, device: MlxDevice) -> None:
        with pytest.raises(InvalidArgument, match="begin_recorded"):
            GraphExecutor(device).begin().finish(fuse=True)

    def test_a_refused_finish_leaves_it_open(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        session = GraphExecutor(device).begin()
        session.encoder.dispatch(kernel(device, "bump"), x, 1, threads=SIZE)
        with pytest.raises(InvalidArgument):
            session.finish(fuse=True)
        with counters.scope() as counted:
            session.finish()
        assert value(x) == 8 and counted.syncs == 1


class TestStages:
    def test_chunks_go_through_an_encoder_session(self, device: MlxDevice) -> None:
        x = numbers(device, 1)
        with device.capture(x=x) as g:
            for k in range(6):
                g.encoder.dispatch(kernel(device, "bump"), x, k, threads=SIZE)
        plain = g.commit_chunks(3)
        for ticket in plain:
            ticket.wait()
        expected = value(x)
        x.fill(1)
        with settings.override(encoder_session=True):
            tickets = g.commit_chunks(3)
        for ticket in tickets:
            ticket.wait()
        assert len(plain) == len(tickets) == 3 and value(x) == expected
        assert all(ticket.fence is not None for ticket in tickets)


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
        with pytest.raises(InvalidArgument, match="by address"):
            g.bind(t=numbers(device, 0))


def test_an_empty_graph_does_nothing(device: MlxDevice) -> None:
    with device.capture() as g:
        pass
    g.run()
    g.plan().run()
    assert "nothing to run" in g.plan().declined and g.svg() and g.dot() and g.text()


def test_an_order_that_was_chosen_binds_no_new_aliases(device: MlxDevice) -> None:
    x, y, z, both = (numbers(device, n) for n in (1, 2, 3, 5))
    with device.capture(x=x, y=y, z=z) as g:
        mix(g, mix(g, y, y), y, x)
        g.keep(out=mix(g, z, z))
    with pytest.raises(InvalidArgument, match="bind first"):
        g.reorder().bind(x=both, z=both)
    g.bind(x=both, z=both).reorder().run()
    assert value(g.names["out"]) == 8 * (3 * 16 + 5 * 2)


def test_what_is_only_declared_lives_as_long_as_the_graph(device: MlxDevice) -> None:
    x, hidden = numbers(device, 1), numbers(device, 2)
    with device.capture() as g:
        g.encoder.dispatch(kernel(device, "bump"), x, 1, threads=SIZE, reads=[hidden], writes=[x])
    memory = weakref.ref(hidden.allocation)
    del hidden
    gc.collect()
    assert memory() is not None and g.barrier_count() == 0
    g.plan().run()

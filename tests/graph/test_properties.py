"""Whatever is done to a graph, it leaves the bits that its dispatches leave one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given

from mlx_native_py import CommandEncoder, ComputeGraph, Dispatch, MlxDevice
from mlx_native_py.hazards.tracker import MemRanges

from .random_graphs import Program, Recorded, programs


def one_after_the_other(graph: ComputeGraph) -> None:
    with CommandEncoder(graph.device) as enc:
        for node in graph.dispatches:
            enc.replay_dispatch(node)
            enc.memory_barrier()


def in_chunks(graph: ComputeGraph, chunks: int | None) -> None:
    for ticket in graph.commit_chunks(chunks):
        ticket.wait()


def half_by_hand(graph: ComputeGraph, *, plan_first: bool) -> None:
    """A plan beside dispatches that are encoded one by one, in one command buffer."""
    middle = len(graph.nodes) // 2
    halves = [ComputeGraph.from_nodes(graph.device, part) for part in (graph.nodes[:middle], graph.nodes[middle:])]
    with CommandEncoder(graph.device) as enc:
        for part, planned in zip(halves, (plan_first, not plan_first), strict=True):
            if planned:
                part.plan().encode(enc)
                continue
            for node in part.nodes:
                enc.replay_dispatch(node) if isinstance(node, Dispatch) else enc.memory_barrier()


WAYS: dict[str, Callable[[ComputeGraph], None]] = {
    "as captured": lambda graph: graph.run(),
    "reordered": lambda graph: graph.reorder().run(),
    "two chunks": lambda graph: in_chunks(graph, None),
    "five chunks": lambda graph: in_chunks(graph, 5),
    "straight plan": lambda graph: graph.plan(indirect=False).run(),
    "indirect plan": lambda graph: graph.plan(indirect=True).run(),
    "reordered plan": lambda graph: graph.reorder().plan().run(),
    "plan, then by hand": lambda graph: half_by_hand(graph, plan_first=True),
    "by hand, then plan": lambda graph: half_by_hand(graph, plan_first=False),
}
MEMORY_WAYS: dict[str, Callable[[ComputeGraph], ComputeGraph]] = {
    "without dead stores": lambda graph: graph.drop_dead_stores(),
    "shared memory": lambda graph: graph.share_memory(),
    "everything": lambda graph: graph.optimise(),
    "shared, then reordered": lambda graph: graph.share_memory().reorder(),
}


@given(program=programs())
def test_every_way_to_run_and_every_use_of_memory(device: MlxDevice, program: Program) -> None:
    recorded = Recorded(device, program)
    graph = recorded.graph
    expected = recorded.result(lambda: one_after_the_other(graph))
    for way, run in WAYS.items():
        if way != "indirect plan" or device.capabilities.indirect_command_buffers:
            assert recorded.result(partial(run, graph)) == expected, way
    for way, improve in MEMORY_WAYS.items():
        better = improve(graph)
        assert better.barrier_count() <= graph.barrier_count(), way
        assert recorded.result(better.run, better.names) == expected, way


@given(program=programs())
def test_barriers_suffice_and_none_is_idle(device: MlxDevice, program: Program) -> None:
    graph = Recorded(device, program).graph
    steps = graph.steps
    group = MemRanges()
    for step in steps:
        if step.barrier:
            by_hand = step.conflict is None
            assert by_hand or not group.check_dispatch(step.node.reads, step.node.writes)
            group.reset()
        assert group.check_and_record(step.node.reads, step.node.writes)


@given(program=programs())
def test_reordering_keeps_every_dependence(device: MlxDevice, program: Program) -> None:
    graph = Recorded(device, program).graph
    after = graph.reorder()
    assert sorted(map(id, graph.nodes)) == sorted(map(id, after.nodes))
    assert after.barrier_count() <= graph.barrier_count()
    place = {id(node): index for index, node in enumerate(after.nodes)}
    nodes = [node for node in graph.nodes if isinstance(node, Dispatch)]
    for index, later in enumerate(nodes):
        for earlier in nodes[:index]:
            ranges = MemRanges()
            ranges.add_dispatch(earlier.reads, earlier.writes)
            if not ranges.check_dispatch(later.reads, later.writes):
                assert place[id(earlier)] < place[id(later)]

"""Plans: graphs prepared for replay, with barriers placed, redundant state removed and scalars in an arena."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..encoder import CommandEncoder, Dispatch, Encoder, Ticket
from ..encoder.bind import revalidate
from ..errors import EncoderStateError, InvalidArgument
from ..hazards.ranges import Span
from ..memory.buffer import MlxBuffer
from ..profiling.observer import PlannedLaunch
from .arena import Arena, Scalars
from .indirect import Indirect, indirect
from .lease import Lease
from .order import Step, ends_fenced
from .planned import Planned, allocations, final_binding, in_arena, messages
from .recording import Recording, check_binding, counted
from .remap import rebound
from .straight import Replay, straight_line

__all__ = ["Plan"]


class Plan:
    """A graph prepared for repeated replay: as an indirect command buffer if possible, otherwise by plain messages.

    `scalars` names kernel arguments that change between replays. `indirect=False` forces plain messages,
    `indirect=True` requires an indirect command buffer.

    >>> with device.capture(y=y) as g:
    ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
    >>> plan = g.plan(scalars=["a"])
    >>> plan
    <Plan of 1 dispatch, 0 barriers, indirect, 2 messages a replay>
    >>> plan.scalars("a").set(3.0)
    >>> plan.run()
    >>> y.numpy()
    array([ 1.,  4.,  7., 10.], dtype=float32)
    """

    def __init__(self, graph: Recording, *, scalars: Iterable[str] = (), indirect: bool | None = None) -> None:
        if isinstance(scalars, str):
            raise InvalidArgument(f"scalars={scalars!r}: expected a list of names")
        self.device = graph.device
        self._own = tuple(scalars)
        self._wanted = indirect
        self._build(graph)

    def _build(self, graph: Recording, earlier: Arena | None = None) -> None:
        """Everything that can fail comes first, so that a plan is rebuilt completely or not at all."""
        for step in graph.steps:
            revalidate(self.device, step.node)
        arena = Arena(self.device, self._own)
        planned = in_arena(graph.steps, arena)
        if earlier is not None:
            arena.take_over(earlier)
        memory = allocations(step.node for step in graph.steps)
        numbers = arena.current()
        commands = self._indirect_or_reason(planned, numbers, [each.mtl for each in memory])
        if earlier is not None:
            earlier.become(arena)
            arena = earlier
        self.graph = graph
        self.steps = graph.steps
        self.pipelines = [step.node.pipeline for step in self.steps]
        self._closes = ends_fenced(graph.nodes)
        self.barrier_count = sum(step.barrier for step in self.steps) + self._closes
        self.reads, self.writes = _touched(self.steps)
        self._lease = Lease(memory if self._own else [*memory, numbers.allocation], commands)
        self._planned, self._arena = planned, arena
        self.bound_after = partial(final_binding, planned, arena)
        """For the encoder: what a replay leaves bound at a slot."""
        self._indirect = commands if isinstance(commands, Indirect) else None
        self.declined = commands if isinstance(commands, str) else ""
        """Why it is not an indirect command buffer, if it is not."""
        self._numbers = numbers
        """The arena buffer of the replay being encoded; always the same if no scalars are named."""
        self._launches: list[PlannedLaunch] | None = None
        self._replay: Replay | None = None
        self._messages = 0
        if self._indirect is None:
            self._straight()

    def _indirect_or_reason(
        self, planned: Sequence[Planned], numbers: MlxBuffer, resources: list[Any]
    ) -> Indirect | str:
        if self._wanted is False:
            return "the caller asked for plain messages"
        commands = indirect(self.device, planned, numbers, resources)
        if self._wanted and isinstance(commands, str):
            raise InvalidArgument(f"this plan cannot be an indirect command buffer: {commands}")
        return commands

    def _straight(self) -> Replay:
        """The replay by plain messages; an indirect plan needs it only while its arena is busy."""
        if self._replay is None:
            sent = messages(self._planned, self.device, closes=self._closes)
            self._messages = sum(selector != "declare" for selector, _ in sent)
            self._replay = straight_line(sent)
        return self._replay

    @property
    def is_indirect(self) -> bool:
        """Whether it replays as an indirect command buffer."""
        return self._indirect is not None

    @property
    def message_count(self) -> int:
        """Messages to the compute encoder per replay."""
        if self._indirect is None:
            return self._messages
        return self._indirect.message_count + self._closes + (bool(self.steps) and self.steps[0].barrier)

    def scalars(self, name: str) -> Scalars:
        """The values of all arguments called `name`, to be set before a replay."""
        return self._arena.scalars(name)

    def bind(self, **names: MlxBuffer) -> None:
        """Replaces named buffers for later replays; scalars that were set stay."""
        for name, new in names.items():
            check_binding(self.graph.names, name, new)
        self._build(rebound(self.graph, names), self._arena)

    def encode(self, enc: Encoder) -> None:
        """Encodes one replay, with a barrier before it if it conflicts with earlier dispatches."""
        if not isinstance(enc, CommandEncoder):
            raise EncoderStateError("a plan cannot be captured; replay it on a CommandEncoder")
        enc.replay_plan(self)

    def run(self) -> None:
        """Encodes one replay, commits and waits."""
        with CommandEncoder(self.device) as enc:
            self.encode(enc)

    # Used by the encoder

    def acquire(self, ticket: Ticket) -> None:
        """Reserves the plan's memory for a command buffer."""
        self._lease.use(ticket)
        if self._own:
            commands = self._indirect
            self._numbers = self._arena.current(None if commands is None else commands.arena)
            ticket.hold(self._numbers.allocation)

    def send(self, mtl: Any) -> None:
        """Sends all messages of a replay, after `acquire`."""
        commands, numbers = self._indirect, self._numbers
        if commands is None or numbers is not commands.arena:
            self._straight()(mtl, numbers.mtl)
            return
        if self.steps[0].barrier:
            mtl.memoryBarrierWithScope_(self.device.barrier_scope)
        commands.send(mtl)
        if self._closes:
            mtl.memoryBarrierWithScope_(self.device.barrier_scope)

    def dispatches(self) -> Iterator[tuple[bool, Dispatch]]:
        """Barriers and dispatches one by one, for an encoder that times each."""
        for index, each in enumerate(self._planned):
            yield each.step.barrier and index > 0, each.current(self._arena)

    def launches(self) -> Sequence[PlannedLaunch]:
        """The dispatches as profiles need them; the same list for every replay."""
        if self._launches is None:
            self._launches = [_launch(step) for step in self.steps]
        return self._launches

    def __repr__(self) -> str:
        number = f"{self.message_count} message{'s' * (self.message_count != 1)} a replay"
        way = "indirect" if self.is_indirect else "straight"
        return f"<Plan of {counted(len(self.steps), self.barrier_count)}, {way}, {number}>"


def _touched(steps: Sequence[Step]) -> tuple[list[Span], list[Span]]:
    """All spans that a plan reads, and all that it writes, without duplicates."""
    reads = dict.fromkeys(each.span for step in steps for each in step.node.reads)
    writes = dict.fromkeys(each.span for step in steps for each in step.node.writes)
    return list(reads), list(writes)


def _launch(step: Step) -> PlannedLaunch:
    node = step.node
    conflict = None if step.conflict is None else step.conflict.look_up()
    return PlannedLaunch(node.pipeline.label, node.op_kind.value, *node.spans, node.region, step.barrier, conflict)

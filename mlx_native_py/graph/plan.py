"""A graph made ready: barriers placed, state deduplicated, numbers in an arena; a replay decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..buffer import MlxBuffer
from ..encoder import CommandEncoder
from ..errors import InvalidArgument
from ..hazards import Span
from ..pipeline import BUFFER_SLOTS
from .arena import Arena, Scalars
from .compute_graph import check_binding, counted
from .indirect import Indirect, indirect
from .order import Step
from .prepared import bindings, messages, tables
from .straight import straight_line

if TYPE_CHECKING:
    from .compute_graph import ComputeGraph

__all__ = ["Plan"]

Values = list[MlxBuffer | bytes | None]


class Plan:
    """A graph that is replayed many times: as an indirect command buffer where the device has them, else line by line.

    `scalars` names kernel arguments whose numbers change between replays. `bindless` puts the addresses of all buffers
    into the arena too, so that a dispatch binds one buffer. `indirect=False` keeps to plain messages, `indirect=True`
    insists on commands.

    >>> with device.capture(y=y) as g:
    ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
    >>> plan = g.plan(scalars=["a"])
    >>> plan
    <Plan of 1 dispatch, 0 barriers, indirect, 1 message a replay>
    >>> plan.scalars("a").set(3.0)
    >>> plan.run()
    >>> y.numpy()
    array([ 1.,  4.,  7., 10.], dtype=float32)
    """

    def __init__(
        self,
        graph: ComputeGraph,
        *,
        scalars: Iterable[str] = (),
        bindless: bool = False,
        indirect: bool | None = None,
    ) -> None:
        if isinstance(scalars, str):
            raise InvalidArgument(f"scalars={scalars!r}: expected a list of names")
        self.device = graph.device
        self._own = tuple(scalars)
        self._bindless = bindless
        self._wanted = indirect
        self._build(graph)

    def _build(self, graph: ComputeGraph) -> None:
        self.graph = graph
        self.steps = graph.steps
        self.pipelines = [step.node.pipeline for step in self.steps]
        self.barrier_count = sum(step.barrier for step in self.steps[1:])
        self.reads, self.writes = _touched(self.steps)
        buffers = [each.value for step in self.steps for each in step.node.bindings]
        self._allocations = list(dict.fromkeys(each.allocation for each in buffers if isinstance(each, MlxBuffer)))
        self._left: Values = [None] * BUFFER_SLOTS
        for step in self.steps:
            for binding in step.node.bindings:
                self._left[binding.slot] = binding.value
        self._arena = Arena(self.device, self._own)
        prepare = (lambda *given: tables(self.device, *given)) if self._bindless else bindings
        self._prepared = prepare(self.steps, self._arena)
        self._indirect: Indirect | None = None
        self.declined = ""
        """Why it is no indirect command buffer, where it is none."""
        if self._wanted is False:
            self.declined = "the caller asked for plain messages"
        else:
            self._try_indirect()
        sent = messages(self._prepared, self.device.door.Metal.MTLBarrierScopeBuffers)
        self._messages = sum(map(len, sent))
        self._replay = straight_line(message for each in sent for message in each)

    def _try_indirect(self) -> None:
        made = indirect(self.device, self._prepared, self._arena.current())
        if isinstance(made, Indirect):
            self._indirect = made
            return
        self.declined = made
        if self._wanted:
            raise InvalidArgument(f"this plan cannot be an indirect command buffer: {made}")

    @property
    def is_indirect(self) -> bool:
        """Whether it replays as an indirect command buffer."""
        return self._indirect is not None

    @property
    def message_count(self) -> int:
        """Messages of one replay to the compute encoder."""
        return self._messages if self._indirect is None else self._indirect.message_count

    def scalars(self, name: str) -> Scalars:
        """The numbers of all arguments called `name`, to be set before a replay."""
        return self._arena.scalars(name)

    def bind(self, **names: MlxBuffer) -> None:
        """Replaces buffers by name for the replays to come; numbers that were set stay."""
        for name, new in names.items():
            check_binding(self.graph.names, name, new)
        earlier = self._arena
        self._build(self.graph.bind(**names))
        self._arena.take_over(earlier)

    def encode(self, enc: CommandEncoder) -> None:
        """Encodes one replay; it goes with other dispatches of the encoder, and waits for them where it must."""
        enc.replay_plan(self)

    def run(self) -> None:
        """Encodes one replay, commits and waits."""
        with self.device.command_encoder() as enc:
            self.encode(enc)

    # For the encoder

    def memory(self) -> Iterable[Any]:
        """Every allocation that a replay touches, the arena among them."""
        return (*self._allocations, self._current().allocation)

    def send(self, mtl: Any) -> None:
        """All messages of a replay."""
        if self._indirect is not None:
            self._indirect.send(mtl, (*self._allocations, self._current().allocation))
            return
        if self._bindless and not self.device.residency_sets_enabled:
            resources = [each.mtl for each in self._allocations]
            metal = self.device.door.Metal
            mtl.useResources_count_usage_(
                resources, len(resources), metal.MTLResourceUsageRead | metal.MTLResourceUsageWrite
            )
        self._replay(mtl, self._current().mtl)

    def send_sampled(self, encode: Callable[..., None], barrier: Callable[[], None]) -> None:
        """The same dispatches one by one, for an encoder that measures each."""
        arena = self._current()
        for index, each in enumerate(self._prepared):
            if each.step.barrier and index:
                barrier()
            values: Values = [None] * len(each.pipeline.buffers)
            whole = {buffer.slot: buffer.value for buffer in each.step.node.bindings}
            for mtl, offset, slot in each.bound:
                values[slot] = arena.slice_view(offset, arena.nbytes - offset) if mtl is None else whole[slot]
            encode(each.pipeline, each.step.node.launch, values)

    def left(self) -> Values:
        """What is bound at each slot after a replay."""
        return self._left

    def _current(self) -> MlxBuffer:
        return self._arena.current(fixed=self._indirect is not None)

    def __repr__(self) -> str:
        number = f"{self.message_count} message{'s' * (self.message_count != 1)} a replay"
        way = "indirect" if self.is_indirect else "straight"
        return f"<Plan of {counted(len(self.steps), self.barrier_count)}, {way}, {number}>"


def _touched(steps: Sequence[Step]) -> tuple[list[Span], list[Span]]:
    """All that a plan reads, and all that it writes, each span once."""
    reads = dict.fromkeys(each.span for step in steps for each in step.node.reads)
    writes = dict.fromkeys(each.span for step in steps for each in step.node.writes)
    return list(reads), list(writes)

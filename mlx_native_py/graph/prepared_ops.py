"""Dispatches that are ready to be encoded in any order, with barriers decided as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..encoder import CommandEncoder, Ticket
from ..encoder.resolver import Values
from ..errors import InvalidArgument
from ..hazards.ranges import Span
from ..pipelines.pipeline import BUFFER_SLOTS
from .arena import Arena, Scalars
from .compute_graph import counted
from .lease import Lease
from .masks import hazard_masks
from .order import Step
from .prepared import Left, allocations, bindings, check, declare, tables

if TYPE_CHECKING:
    from .compute_graph import ComputeGraph

__all__ = ["PreparedOps"]


class PreparedOps:
    """The dispatches of a graph with everything looked up; `ops[a:b]` and `ops.pick(...)` are some of them.

    Encoding them checks nothing but hazards, by bits. Between plans, whose order is fixed, and `dispatch`, which takes
    anything, they are for steps that are put together anew each time. Barriers placed by hand are not among them.

    >>> with device.capture() as g:
    ...     for a in (1.0, 10.0):
    ...         g.encoder.dispatch(axpy, x, y, a, threads=4)
    >>> prepared = g.prepare()
    >>> with device.command_encoder() as enc:
    ...     prepared[1:].encode(enc)
    >>> y.numpy()
    array([ 1., 11., 21., 31.], dtype=float32)
    """

    def __init__(self, graph: ComputeGraph, *, scalars: Iterable[str] = (), bindless: bool = False) -> None:
        self.device = graph.device
        self._bindless = bindless
        self._scope = self.device.backend.Metal.MTLBarrierScopeBuffers
        steps = [Step(node) for node in graph.dispatches]
        self._arena = Arena(self.device, scalars)
        check(self.device, steps)
        prepared = (tables if bindless else bindings)(self.device, steps, self._arena)
        self._masks = hazard_masks(graph.dispatches)
        interned: dict[Any, Any] = {}
        self._ops: list[tuple[Any, ...]] = [
            (
                each.pipeline.mtl,
                each.bound[0][1] if bindless else tuple(interned.setdefault(bound, bound) for bound in each.bound),
                each.step.node.launch.shared,
                each.step.node.launch.by_threads,
                each.step.node.launch.grid,
                each.step.node.launch.group,
                *mask,
            )
            for each, mask in zip(prepared, self._masks.each, strict=True)
        ]
        self._prepared = prepared
        self._choose(range(len(prepared)))

    def _choose(self, order: Iterable[int]) -> None:
        """What depends on which dispatches these are."""
        self._order = list(order)
        self._chosen = [self._ops[index] for index in self._order]
        nodes = [self._prepared[index].step.node for index in self._order]
        self.pipelines = [node.pipeline for node in nodes]
        self.barrier_count = 0
        """Barriers of the last time that they were encoded."""
        self.reads: list[Span] = list(dict.fromkeys(each.span for node in nodes for each in node.reads))
        self.writes: list[Span] = list(dict.fromkeys(each.span for node in nodes for each in node.writes))
        used = allocations(nodes)
        self._resources = [each.mtl for each in used]
        self._lease = Lease(used)
        self._left = Left((self._prepared[index] for index in self._order), self._arena)

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, part: slice) -> PreparedOps:
        if not isinstance(part, slice):
            raise InvalidArgument(f"[{part!r}]: take a slice, or pick({part!r})")
        return self.pick(*range(*part.indices(len(self))))

    def pick(self, *which: int) -> PreparedOps:
        """Some of the dispatches, by number, in the order given; numbers that are set count for all of them."""
        chosen = PreparedOps.__new__(PreparedOps)
        for name in ("device", "_bindless", "_scope", "_arena", "_masks", "_ops", "_prepared"):
            setattr(chosen, name, getattr(self, name))
        chosen._choose(self._order[index] for index in which)
        return chosen

    def scalars(self, name: str) -> Scalars:
        """The numbers of all arguments called `name`, to be set before the next time."""
        return self._arena.scalars(name)

    def encode(self, enc: CommandEncoder) -> None:
        """Encodes them."""
        enc.replay_plan(self)

    # For the encoder

    def lend(self, ticket: Ticket) -> Iterable[Any]:
        self._lease.use(ticket)
        return (self._arena.current().allocation,)

    def left(self) -> Values:
        return self._left.values()

    def send(self, mtl: Any) -> None:
        """All messages, and as many barriers as it takes."""
        arena = self._arena.current()
        if not self._bindless:
            self._send_bindings(mtl, arena.mtl)
            return
        declare(self.device, mtl, self._resources)
        mtl.setBuffer_offset_atIndex_(arena.mtl, 0, 0)
        self._send_tables(mtl)

    def _send_tables(self, mtl: Any) -> None:
        # Looking a selector up costs as much as sending it, so each is looked up once.
        set_pipeline, set_offset = mtl.setComputePipelineState_, mtl.setBufferOffset_atIndex_
        threads, groups = mtl.dispatchThreads_threadsPerThreadgroup_, mtl.dispatchThreadgroups_threadsPerThreadgroup_
        barrier, scope = mtl.memoryBarrierWithScope_, self._scope
        live, barriers = self._masks.before, 0
        pipeline = None
        for wanted, offset, shared, by_threads, grid, group, add, conflict in self._chosen:
            if live & conflict:
                barrier(scope)
                barriers += 1
                live = 0
            live |= add
            if wanted is not pipeline:
                set_pipeline(wanted)
                pipeline = wanted
            set_offset(offset, 0)
            if shared:
                _set_shared(mtl, shared)
            if by_threads:
                threads(grid, group)
            else:
                groups(grid, group)
        if live & self._masks.unknown:
            barrier(scope)
            barriers += 1
        self.barrier_count = barriers

    def _send_bindings(self, mtl: Any, arena: Any) -> None:
        set_pipeline, set_offset = mtl.setComputePipelineState_, mtl.setBufferOffset_atIndex_
        set_buffer, barrier, scope = mtl.setBuffer_offset_atIndex_, mtl.memoryBarrierWithScope_, self._scope
        threads, groups = mtl.dispatchThreads_threadsPerThreadgroup_, mtl.dispatchThreadgroups_threadsPerThreadgroup_
        live, barriers = self._masks.before, 0
        pipeline = None
        last: list[Any] = [None] * BUFFER_SLOTS
        for wanted, bound, shared, by_threads, grid, group, add, conflict in self._chosen:
            if live & conflict:
                barrier(scope)
                barriers += 1
                live = 0
            live |= add
            if wanted is not pipeline:
                set_pipeline(wanted)
                pipeline = wanted
            for each in bound:
                buffer, offset, slot = each
                now = last[slot]
                if now is each:
                    continue
                if now is not None and now[0] is buffer:
                    set_offset(offset, slot)
                else:
                    set_buffer(arena if buffer is None else buffer, offset, slot)
                last[slot] = each
            if shared:
                _set_shared(mtl, shared)
            if by_threads:
                threads(grid, group)
            else:
                groups(grid, group)
        if live & self._masks.unknown:
            barrier(scope)
            barriers += 1
        self.barrier_count = barriers

    def send_sampled(self, encode: Callable[..., None], barrier: Callable[[], None]) -> None:
        """The same dispatches one by one, for an encoder that measures each."""
        live = barriers = 0
        for index in self._order:
            each, (add, conflict) = self._prepared[index], self._ops[index][-2:]
            if live & conflict:
                barrier()
                barriers += 1
                live = 0
            live |= add
            encode(each.step.node.pipeline, each.step.node.launch, each.values(self._arena))
        self.barrier_count = barriers

    def __repr__(self) -> str:
        return f"<PreparedOps of {counted(len(self), self.barrier_count)} when last encoded>"


def _set_shared(mtl: Any, shared: tuple[tuple[int, int], ...]) -> None:
    for index, length in shared:
        mtl.setThreadgroupMemoryLength_atIndex_(length, index)

"""ComputeGraph: recorded dispatches, the passes that optimise them, execution, pictures and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import settings
from ..encoder import CapturedNode, CommandEncoder, DeviceContext, Recorder, Ticket
from ..encoder.session import EncoderSession
from ..errors import EncoderStateError, InvalidArgument
from ..memory.buffer import MlxBuffer
from .fuse import fused
from .memory import shared_memory, without_dead_stores
from .order import ends_fenced, reordered
from .picture import as_dot, as_svg, as_text
from .plan import Plan
from .recording import Recording
from .remap import rebound
from .saved import load, save

__all__ = ["ComputeGraph", "capture"]

DUAL_SHARE = 10  # the first command buffer takes a tenth of the dispatches,
DUAL_LEAST = 64  # and at least this many


class ComputeGraph(Recording):
    """Dispatches and barriers in order, over buffers of one device; `device.capture()` records one.

    Every pass (`fuse`, `reorder`, `drop_dead_stores`, `share_memory`) gives a new graph and leaves this one as it is;
    `changes` counts what the passes did.

    >>> with device.capture(x=x, y=y) as g:
    ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
    ...     g.encoder.dispatch(axpy, x, y, 2.0, threads=4)
    >>> g
    <ComputeGraph of 2 dispatches, 1 barrier>
    >>> g.run()
    >>> y.numpy()
    array([ 1.,  5.,  9., 13.], dtype=float32)
    """

    _recorder: Recorder | None = None

    @classmethod
    def from_nodes(cls, device: DeviceContext, nodes: Iterable[CapturedNode]) -> ComputeGraph:
        """A graph of what `take_capture()` gave."""
        return cls(device, nodes)

    # Recording

    @property
    def encoder(self) -> Recorder:
        """What records, inside `with device.capture() as g:`."""
        if self._recorder is None:
            raise EncoderStateError("the capture is over; a graph records inside `with device.capture() as g:`")
        return self._recorder

    def keep(self, **names: MlxBuffer) -> None:
        """Names buffers: results, so that no pass takes them for temporaries, or inputs, to be bound anew later."""
        for name, buffer in names.items():
            if not isinstance(buffer, MlxBuffer) or buffer.allocation.residency is not self.device.residency:
                raise InvalidArgument(f"{name} is {buffer!r}, expected a buffer of this device")
        self.names.update(names)

    # Passes

    def fuse(self) -> ComputeGraph:
        """With pairs of dispatches replaced by one that does the work of both."""
        nodes, count = fused(self._nodes, self.temporaries, self.device)
        return self._changed("fused", nodes, count)

    def reorder(self) -> ComputeGraph:
        """In an order that needs fewer barriers."""
        nodes = reordered(self._nodes)
        moved = sum(old is not new for old, new in zip(self._nodes, nodes, strict=True))
        return self._changed("moved", nodes, moved)

    def drop_dead_stores(self) -> ComputeGraph:
        """Without dispatches whose results nobody reads; needs names for those that somebody will."""
        self._require_names("drop_dead_stores")
        nodes = without_dead_stores(self._nodes, self.temporaries)
        return self._changed("dropped", nodes, len(self._nodes) - len(nodes))

    def share_memory(self) -> ComputeGraph:
        """With its temporaries over each other's memory where they are never alive at once."""
        self._require_names("share_memory")
        nodes, saved, home = shared_memory(self._nodes, self.temporaries, self.device)
        better = self._changed("bytes saved", nodes, saved)
        better._temporaries += () if home is None else (home,)
        return better

    def optimise(self) -> ComputeGraph:
        """All passes; those about temporaries only where the results have names."""
        better = self.fuse().reorder()
        return better.drop_dead_stores().share_memory() if self.names else better

    def bind(self, **names: MlxBuffer) -> ComputeGraph:
        """Over other buffers, by the names of those that they stand in for; type and shape must agree.

        An optimised graph refuses one buffer for two that it holds apart, since its order may depend on that.

        >>> with device.capture(x=x, y=y) as g:
        ...     g.encoder.dispatch(axpy, x, y, 1.0, threads=4)
        >>> other = device.buffer(np.zeros(4, np.float32))
        >>> g.bind(y=other).run()
        >>> other.numpy()
        array([0., 1., 2., 3.], dtype=float32)
        """
        return rebound(self, names)

    def _changed(self, what: str, nodes: Sequence[CapturedNode], count: int) -> ComputeGraph:
        changes = {**self.changes, what: self.changes.get(what, 0) + count}
        return ComputeGraph(self.device, nodes, names=self.names, temporaries=self._temporaries, changes=changes)

    def _require_names(self, call: str) -> None:
        if not self.names:
            raise InvalidArgument(
                f"{call}: this graph has no named buffers, so every result would count as a temporary; "
                "name what is to stay, by device.capture(x=x) or g.keep(out=out)"
            )

    # Running

    def encode_with_barriers(self, enc: CommandEncoder, *, first: int = 0, last: int | None = None) -> int:
        """Encodes dispatches `first` up to `last` with the barriers that they need; answers how many that were."""
        before = enc.tally.barriers
        for step in self.steps[first:last]:
            if step.barrier:
                enc.memory_barrier()
            enc.replay_dispatch(step.node)
        if last is None and ends_fenced(self._nodes):
            enc.memory_barrier()
        return enc.tally.barriers - before

    def commit_chunks(self, chunks: int | None = None) -> list[Ticket]:
        """Encodes into several command buffers, each committed while the next is encoded, so that the GPU starts early.

        `None` is two: a small one first, then the rest. Each ticket has the status of its own command buffer.
        """
        parts = _chunks(self.dispatch_count(), chunks)
        if settings.current().encoder_session:
            return self._commit_stages(parts)
        tickets = []
        for first, last in parts:
            enc = CommandEncoder(self.device)
            self.encode_with_barriers(enc, first=first, last=last)
            tickets.append(enc.commit())
        return tickets

    def _commit_stages(self, parts: list[tuple[int, int]]) -> list[Ticket]:
        """The same through an encoder session: each command buffer begins behind the fence of the one before."""
        session, tickets = EncoderSession(self.device), []
        for first, last in parts:
            session.reset_for_next_stage()
            self.encode_with_barriers(session.encoder(), first=first, last=last)
            tickets.append(session.fence_stage())
        return tickets

    def plan(self, **options: Any) -> Plan:
        """Made ready to be replayed many times; see `Plan`."""
        return Plan(self, **options)

    def run(self) -> None:
        """Encodes, commits and waits."""
        with CommandEncoder(self.device) as enc:
            self.encode_with_barriers(enc)

    # Showing and keeping

    def text(self) -> str:
        """One line for each dispatch and barrier."""
        return as_text(self)

    def dot(self) -> str:
        """The graph for Graphviz: dispatches, the buffers between them, barriers as groups."""
        return as_dot(self)

    def svg(self) -> str:
        """A picture: dispatches in rows, a red line for each barrier, an arrow for each buffer."""
        return as_svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: Path | str) -> None:
        """Writes the graph to a file; see `docs/graphs.md` for what is in it."""
        save(self, Path(path))

    @classmethod
    def load(cls, path: Path | str, device: DeviceContext) -> ComputeGraph:
        """Reads a graph that `save` wrote; its kernels must be known to `device.kernels`."""
        nodes, names, fresh = load(Path(path), device)
        return cls(device, nodes, names=names, temporaries=fresh)


def _chunks(count: int, chunks: int | None) -> list[tuple[int, int]]:
    if chunks is None:
        head = min(count, max(DUAL_LEAST, count // DUAL_SHARE))
        return [(0, head)] if head == count else [(0, head), (head, count)]
    if not isinstance(chunks, int) or chunks < 1:
        raise InvalidArgument(f"chunks is {chunks!r}, expected a number from 1")
    cuts = [count * part // chunks for part in range(chunks + 1)]
    return [(first, last) for first, last in zip(cuts, cuts[1:], strict=False) if first < last] or [(0, 0)]


@contextmanager
def capture(device: DeviceContext, **names: MlxBuffer) -> Iterator[ComputeGraph]:
    """What `device.capture()` does: dispatches on the graph's encoder are recorded, not run."""
    graph = ComputeGraph(device)
    graph.keep(**names)
    recorder = graph._recorder = Recorder(device)
    try:
        yield graph
        graph._nodes, graph._steps, graph._temporaries = tuple(recorder.nodes), None, recorder.allocations
    finally:
        graph._recorder = None

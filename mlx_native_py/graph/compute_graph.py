"""Compute graphs: recorded dispatches, optimisation passes, execution, pictures and files."""

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
    """Recorded dispatches and barriers over buffers of one device; `device.capture()` records one.

    Each pass (`fuse`, `reorder`, `drop_dead_stores`, `share_memory`) returns a new graph; `changes` counts what they
    did.

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
        """A graph of the nodes that `take_capture()` returned."""
        return cls(device, nodes)

    # Recording

    @property
    def encoder(self) -> Recorder:
        """The recorder, inside `with device.capture() as g:`."""
        if self._recorder is None:
            raise EncoderStateError("the capture is over; a graph records only inside `with device.capture() as g:`")
        return self._recorder

    def keep(self, **names: MlxBuffer) -> None:
        """Names buffers: outputs that no pass may treat as temporaries, or inputs that can be rebound later."""
        for name, buffer in names.items():
            if not isinstance(buffer, MlxBuffer) or buffer.allocation.residency is not self.device.residency:
                raise InvalidArgument(f"{name} is {buffer!r}, expected a buffer of this device")
        self.names.update(names)

    # Passes

    def fuse(self) -> ComputeGraph:
        """Replaces pairs of dispatches by single fused ones."""
        nodes, count = fused(self._nodes, self.temporaries, self.device)
        return self._changed("fused", nodes, count)

    def reorder(self) -> ComputeGraph:
        """Reorders dispatches so that fewer barriers are needed."""
        nodes = reordered(self._nodes)
        moved = sum(old is not new for old, new in zip(self._nodes, nodes, strict=True))
        return self._changed("moved", nodes, moved)

    def drop_dead_stores(self) -> ComputeGraph:
        """Removes dispatches whose results are never read; outputs must be named."""
        self._require_names("drop_dead_stores")
        nodes = without_dead_stores(self._nodes, self.temporaries)
        return self._changed("dropped", nodes, len(self._nodes) - len(nodes))

    def share_memory(self) -> ComputeGraph:
        """Lets temporaries with disjoint lifetimes share memory."""
        self._require_names("share_memory")
        nodes, saved, home = shared_memory(self._nodes, self.temporaries, self.device)
        better = self._changed("bytes saved", nodes, saved)
        better._temporaries += () if home is None else (home,)
        return better

    def optimise(self) -> ComputeGraph:
        """Runs all passes; those on temporaries only if outputs are named."""
        better = self.fuse().reorder()
        return better.drop_dead_stores().share_memory() if self.names else better

    def bind(self, **names: MlxBuffer) -> ComputeGraph:
        """The graph over other buffers, by name; types and shapes must match.

        An optimised graph refuses one buffer for two names, since its order may depend on them being distinct.

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
        """Encodes dispatches `first` up to `last` with the barriers they need; returns the number of barriers."""
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

        None means two: a small one first, then the rest. Each ticket belongs to one command buffer.
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
        """The same through an encoder session: each command buffer waits for the fence of the previous one."""
        session, tickets = EncoderSession(self.device), []
        for first, last in parts:
            session.reset_for_next_stage()
            self.encode_with_barriers(session.encoder(), first=first, last=last)
            tickets.append(session.fence_stage())
        return tickets

    def plan(self, **options: Any) -> Plan:
        """Prepares the graph for repeated replay; see `Plan`."""
        return Plan(self, **options)

    def run(self) -> None:
        """Encodes, commits and waits."""
        with CommandEncoder(self.device) as enc:
            self.encode_with_barriers(enc)

    # Inspection and saving

    def text(self) -> str:
        """One line per dispatch and barrier."""
        return as_text(self)

    def dot(self) -> str:
        """The graph in Graphviz's DOT format, with barriers as clusters."""
        return as_dot(self)

    def svg(self) -> str:
        """An SVG picture: dispatches in rows, red lines for barriers, arrows for data dependencies."""
        return as_svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: Path | str) -> None:
        """Writes the graph to a file; `docs/graphs.md` describes the format."""
        save(self, Path(path))

    @classmethod
    def load(cls, path: Path | str, device: DeviceContext) -> ComputeGraph:
        """Reads a graph written by `save`; its kernels must be known to `device.kernels`."""
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
    """Implements `device.capture()`: dispatches on the graph's encoder are recorded instead of run."""
    graph = ComputeGraph(device)
    graph.keep(**names)
    recorder = graph._recorder = Recorder(device)
    try:
        yield graph
        graph._nodes, graph._steps, graph._temporaries = tuple(recorder.nodes), None, recorder.allocations
    finally:
        graph._recorder = None

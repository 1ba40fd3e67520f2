"""GraphExecutor and GraphSession: run ops eagerly, or record and optimise them first."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from .. import counters
from ..encoder import CommandEncoder, DeviceContext, Recorder, Ticket
from ..errors import EncoderStateError, InvalidArgument
from ..hazards.ranges import HasSpan
from ..hazards.tracker import MemRanges
from ..memory.buffer import MlxBuffer
from ..profiling.metal_capture import MetalCapture
from .compute_graph import ComputeGraph

__all__ = ["GraphExecutor", "GraphSession", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Statistics of a finished session: passes, barriers, command buffers and seconds."""

    fused: int = 0
    moved: int = 0
    barriers: int = 0
    command_buffers: int = 1
    encode_seconds: float = 0.0
    wait_seconds: float = 0.0
    gpu_seconds: float = 0.0


class GraphExecutor:
    """Starts sessions on a device.

    >>> with GraphExecutor(device).begin() as session:
    ...     session.encoder.dispatch(axpy, x, y, 2.0, threads=4)
    >>> y.numpy()
    array([1., 3., 5., 7.], dtype=float32)
    """

    def __init__(self, device: DeviceContext) -> None:
        self.device = device

    def begin(self) -> GraphSession:
        """A session that encodes dispatches immediately."""
        return GraphSession(self.device, recording=False)

    def begin_recorded(self) -> GraphSession:
        """A session that records dispatches; `finish` encodes them."""
        return GraphSession(self.device, recording=True)


class GraphSession:
    """One forward pass: ops on its `encoder`, then `finish()`.

    Barriers are automatic. If they are disabled (`auto_barrier`), place them with `barrier` and `barrier_between`.

    >>> session = GraphExecutor(device).begin()
    >>> session.barrier_between([x], [y]), session.barrier_between([y], [])
    (False, True)
    >>> session.finish().command_buffers
    1
    """

    def __init__(self, device: DeviceContext, *, recording: bool) -> None:
        self.device = device
        self._trace = MetalCapture.from_env(device)
        self.encoder: CommandEncoder | Recorder = Recorder(device) if recording else CommandEncoder(device)
        """The encoder for ops."""
        self.barrier_count = 0
        """Barriers placed by this session's own methods."""
        self._tracker = MemRanges()
        self._finished = False
        self._started = time.perf_counter()

    @property
    def recording(self) -> bool:
        """Whether dispatches are recorded and encoded by `finish`."""
        return isinstance(self.encoder, Recorder)

    # Manual barriers

    def barrier(self) -> None:
        """Inserts a memory barrier."""
        self._require_open("barrier")
        self.encoder.memory_barrier()
        self._tracker.reset()
        self.barrier_count += 1

    def barrier_between(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan]) -> bool:
        """Inserts a barrier if these accesses conflict with those since the last one; returns whether it did."""
        self._require_open("barrier_between")
        read, written = list(reads), list(writes)
        conflicts = not self._tracker.check_dispatch(read, written)
        if conflicts:
            self.barrier()
        self._tracker.add_dispatch(read, written)
        return conflicts

    def track_dispatch(self, reads: Iterable[HasSpan], writes: Iterable[HasSpan]) -> None:
        """Records the accesses of a dispatch that needs no barrier, so that later ones are checked against it."""
        self._require_open("track_dispatch")
        self._tracker.add_dispatch(reads, writes)

    # Completion

    def finish(
        self,
        *,
        fuse: bool = False,
        reorder: bool = False,
        chunks: int | None = 1,
        keep: dict[str, MlxBuffer] | None = None,
    ) -> Outcome:
        """Encodes what was recorded, commits, waits, and returns statistics; raises any command buffer's error.

        `chunks` is the number of command buffers; None means a small one, so that the GPU starts early, and the rest.
        `keep` names outputs, which enables the passes on temporaries.
        """
        self._finish("finish", recorded_only=fuse or reorder or bool(keep))
        if isinstance(self.encoder, CommandEncoder):
            ticket = self.encoder.commit()
            return self._waited([ticket], self.encoder.tally.barriers, {})
        graph = self._recorded(self.encoder, keep or {})
        graph = graph.fuse() if fuse else graph
        graph = graph.reorder() if reorder else graph
        graph = graph.drop_dead_stores().share_memory() if keep else graph
        if chunks != 1:
            return self._waited(graph.commit_chunks(chunks), graph.barrier_count(), graph.changes)
        enc = CommandEncoder(self.device)
        graph.encode_with_barriers(enc)
        return self._waited([enc.commit()], enc.tally.barriers, graph.changes)

    def commit(self) -> Ticket:
        """Encodes what was recorded and commits without waiting."""
        self._finish("commit", recorded_only=False)
        if isinstance(self.encoder, CommandEncoder):
            ticket = self.encoder.commit()
        else:
            enc = CommandEncoder(self.device)
            self._recorded(self.encoder, {}).encode_with_barriers(enc)
            ticket = enc.commit()
        self._end_trace()
        return ticket

    def _finish(self, call: str, *, recorded_only: bool) -> None:
        self._require_open(call)
        if recorded_only and not self.recording:
            raise InvalidArgument("only a recorded session can be optimised; begin it with begin_recorded()")
        self._finished = True

    def _recorded(self, recorder: Recorder, keep: dict[str, MlxBuffer]) -> ComputeGraph:
        return ComputeGraph(self.device, recorder.nodes, names=keep, temporaries=recorder.allocations)

    def _waited(self, tickets: list[Ticket], barriers: int, changes: dict[str, int]) -> Outcome:
        encoded = time.perf_counter()
        self._end_trace()
        counters.add(syncs=1)
        # The last command buffer waits for all earlier ones and raises their errors.
        tickets[-1].wait()
        return Outcome(
            fused=changes.get("fused", 0),
            moved=changes.get("moved", 0),
            barriers=barriers,
            command_buffers=len(tickets),
            encode_seconds=encoded - self._started,
            wait_seconds=time.perf_counter() - encoded,
            gpu_seconds=sum(ticket.gpu_time for ticket in tickets),
        )

    def _end_trace(self) -> None:
        if self._trace is not None:
            self._trace.end()

    def _require_open(self, call: str) -> None:
        if self._finished:
            raise EncoderStateError(f"{call}: this session is finished; begin another one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._finished = True
            if isinstance(self.encoder, CommandEncoder):
                self.encoder.discard()
            self._end_trace()
        elif not self._finished:
            self.finish()

    def __repr__(self) -> str:
        state = "finished" if self._finished else "recording" if self.recording else "encoding"
        return f"<GraphSession, {state}, {self.barrier_count} barriers placed>"

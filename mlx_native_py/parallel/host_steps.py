"""Host steps: CPU work inside a model step, such as sums over ranks, messages and table lookups.

On a command encoder, a host step runs immediately between two command buffers. In a recorded step it is recorded too,
and the replay is one command buffer that pauses for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from .. import settings
from ..encoder import CommandEncoder, Dispatch, Encoder
from ..encoder.host_turns import HostTurns
from ..errors import EncoderStateError
from ..graph import ComputeGraph, Plan
from ..memory.buffer import MlxBuffer
from ..profiling import observer
from .worker_thread import run_in_worker

__all__ = ["HostSteps", "StepPlan"]

Work = Callable[[], object]


class HostSteps:
    """Collects the host steps of a model in order."""

    def __init__(self) -> None:
        self._recorded: list[tuple[Work, tuple[MlxBuffer, ...]]] = []

    def add(self, enc: Encoder, work: Work, *touched: MlxBuffer) -> None:
        """Runs `work` after everything encoded so far; `touched` are the buffers that it uses."""
        if isinstance(enc, CommandEncoder):
            if not enc.ticket.dispatch_count():
                work()
                return
            enc.commit_and_wait()
            work()
            enc.next_command_buffer()
        else:
            self._recorded.append((work, touched))
            enc.memory_barrier()

    def plan(self, graph: ComputeGraph, label: str) -> StepPlan:
        """The recorded step with its host steps, prepared for replay."""
        works, self._recorded = self._recorded, []
        for number, (_, touched) in enumerate(works):
            graph.keep(**{f"host{number}_{place}": buffer for place, buffer in enumerate(touched)})
        return StepPlan(graph.optimise(), [work for work, _ in works], label)


class StepPlan:
    """Plans, and the host steps after each."""

    def __init__(self, graph: ComputeGraph, works: Sequence[Work], label: str) -> None:
        self.device = graph.device
        self.label = label
        segments: list[list[Dispatch]] = [[]]
        for node in graph.nodes:
            if isinstance(node, Dispatch):
                segments[-1].append(node)
            else:
                segments.append([])
        if len(segments) != len(works) + 1:
            raise EncoderStateError(
                f"{len(segments) - 1} manual barriers, expected {len(works)}, one for each host step"
            )
        self.before: list[Work] = []
        """Host steps before the first plan."""
        self.turns: list[tuple[Plan, list[Work]]] = []
        """Each plan, and the host steps after it."""
        for nodes, work in zip(segments, [*works, None], strict=True):
            if nodes:
                self.turns.append((ComputeGraph(self.device, nodes).plan(), []))
            if work is not None:
                (self.turns[-1][1] if self.turns else self.before).append(work)
        self._turns = HostTurns(self.device)

    @property
    def message_count(self) -> int:
        """Messages to the compute encoders per replay."""
        return sum(plan.message_count for plan, _ in self.turns)

    def run(self) -> None:
        """Replays the step on the worker thread: the main thread stays interruptible, and the software device lets a
        waiting thread run work only where that is safe."""
        run_in_worker(self._run)

    def _run(self) -> None:
        now = settings.current()
        _each(self.before)
        if now.profile_cb or now.profile_dispatch or observer.watchers:
            self._run_apart()
        else:
            self._run_together()

    def _run_apart(self) -> None:
        """Uses one command buffer per plan, so that its times are those of the GPU alone."""
        for plan, works in self.turns:
            with CommandEncoder(self.device) as enc:
                plan.encode(enc)
                enc.commit_and_wait(label=self.label)
            _each(works)

    def _run_together(self) -> None:
        """Uses one command buffer, which pauses for the CPU after each plan but the last."""
        with CommandEncoder(self.device) as enc:
            for number, (plan, _) in enumerate(self.turns):
                if number:
                    self._turns.stop(enc)
                plan.encode(enc)
            ticket = enc.commit(label=self.label)
        self._turns.take(ticket, [partial(_each, works) for _, works in self.turns[:-1]])
        _each(self.turns[-1][1])

    def __repr__(self) -> str:
        works = len(self.before) + sum(len(works) for _, works in self.turns)
        return f"<StepPlan of {len(self.turns)} plans, {works} host steps>"


def _each(works: Sequence[Work]) -> None:
    for work in works:
        work()

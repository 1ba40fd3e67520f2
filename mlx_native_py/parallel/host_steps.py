"""Steps of the CPU inside a step of a model: sums over ranks, messages, rows of tables in the file.

On a command encoder such a step runs at once, between two command buffers. Where a step of the model is recorded,
it is recorded along, and the replay is one command buffer that stops for the CPU at each of its steps.
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
    """Where the weights of a model say what the CPU has to do, and in which order."""

    def __init__(self) -> None:
        self._recorded: list[tuple[Work, tuple[MlxBuffer, ...]]] = []

    def add(self, enc: Encoder, work: Work, *touched: MlxBuffer) -> None:
        """Does `work` behind all that is encoded so far; `touched` is what it reads or writes."""
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
        """The recorded step, made ready to be replayed; what was recorded along is in it, and gone from here."""
        works, self._recorded = self._recorded, []
        for number, (_, touched) in enumerate(works):
            graph.keep(**{f"host{number}_{place}": buffer for place, buffer in enumerate(touched)})
        return StepPlan(graph.optimise(), [work for work, _ in works], label)


class StepPlan:
    """Plans, and what the CPU does behind each of them."""

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
                f"{len(segments) - 1} barriers by hand, expected {len(works)}, one for each host step"
            )
        self.before: list[Work] = []
        """What the CPU does first."""
        self.turns: list[tuple[Plan, list[Work]]] = []
        """Each plan, and what the CPU does behind it."""
        for nodes, work in zip(segments, [*works, None], strict=True):
            if nodes:
                self.turns.append((ComputeGraph(self.device, nodes).plan(), []))
            if work is not None:
                (self.turns[-1][1] if self.turns else self.before).append(work)
        self._turns = HostTurns(self.device)

    @property
    def message_count(self) -> int:
        """Messages of one replay to the compute encoders."""
        return sum(plan.message_count for plan, _ in self.turns)

    def run(self) -> None:
        """One replay, up to its last host step, in a thread of its own: the main thread stays open to Ctrl-C, and the
        software device lets a thread that waits run work itself only where that is no risk."""
        run_in_worker(self._run)

    def _run(self) -> None:
        now = settings.current()
        _each(self.before)
        if now.profile_cb or now.profile_dispatch or observer.watchers:
            self._run_apart()
        else:
            self._run_together()

    def _run_apart(self) -> None:
        """In a command buffer for each plan, whose times are those of the GPU alone."""
        for plan, works in self.turns:
            with CommandEncoder(self.device) as enc:
                plan.encode(enc)
                enc.commit_and_wait(label=self.label)
            _each(works)

    def _run_together(self) -> None:
        """In one command buffer, which stops for the CPU behind each plan but the last."""
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

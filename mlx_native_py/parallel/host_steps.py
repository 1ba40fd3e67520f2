"""Steps of the CPU inside a step of a model: sums over ranks, messages, rows of tables in the file.

On a command encoder such a step runs at once, between two command buffers. Where a step of the model is recorded,
it is recorded along, and the replay is plans with the CPU's steps between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..encoder import CommandEncoder, Dispatch, Encoder
from ..errors import EncoderStateError
from ..graph import ComputeGraph, Plan
from ..memory.buffer import MlxBuffer

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
        self.plans: list[Plan | None] = [ComputeGraph(self.device, each).plan() if each else None for each in segments]
        self._works = works

    @property
    def message_count(self) -> int:
        """Messages of one replay to the compute encoders."""
        return sum(plan.message_count for plan in self.plans if plan is not None)

    def run(self) -> None:
        """One replay, up to its last host step."""
        for index, plan in enumerate(self.plans):
            if plan is not None:
                with CommandEncoder(self.device) as enc:
                    plan.encode(enc)
                    enc.commit_and_wait(label=self.label)
            if index < len(self._works):
                self._works[index]()

    def __repr__(self) -> str:
        return f"<StepPlan of {len(self.plans)} plans, {len(self._works)} host steps>"

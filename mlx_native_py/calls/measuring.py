"""Launch counts on the software device: executions per line, instructions, and divergent branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import settings
from ..encoder.arguments import Out
from ..encoder.context import DeviceContext
from ..encoder.launch import Launch
from ..memory.buffer import MlxBuffer
from ..metal import open_metal
from ..pipelines.pipeline import Pipeline
from ..softmetal.counting import CountedBlock, InstructionKind, LaunchCounter
from ..softmetal.line_table import Place
from ..softmetal.program import Diagnostic
from ..softmetal.source_lines import Locate, place_name

__all__ = ["CountedLaunch", "LineCount", "copied", "counting_device", "measure"]

_WORDS: dict[InstructionKind, str] = {
    "operation": "operations",
    "load": "loads",
    "store": "stores",
    "branch": "branches",
}


@dataclass(frozen=True)
class LineCount:
    """Counts for one source line; instructions are those of the software device's compiler."""

    line: int
    source: str
    threads: int
    """How many times a thread executed the line."""
    instructions: int
    loads: int
    stores: int
    active_share: float
    """The average share of a simdgroup's threads that executed it together."""
    branches: int
    """How many times a simdgroup reached a branch there."""
    divided: int
    """How many of those diverged."""
    file: str = ""
    """The header that contains the line; empty for the source itself."""

    @property
    def place(self) -> str:
        return place_name(self.file, self.line)


@dataclass(frozen=True)
class CountedLaunch:
    """Counts for a launch, summed over threads and loop iterations."""

    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    launched: int
    """Threads of the launch."""
    counted: int
    """Threads in full threadgroups; those cut off by the grid's edge run without counters."""
    simdgroups: int
    instructions: dict[InstructionKind, int]
    branches: int
    divided: int
    divergence_share: float
    """The share of thread time that was idle because of divergence."""
    lines: tuple[LineCount, ...]

    def facts(self) -> list[str]:
        """Everything but the lines, one sentence each."""
        if not self.counted:
            return [f"counted: none of {self.launched} threads is in a threadgroup of {self.group} that is whole"]
        total = sum(self.instructions.values())
        kinds = ", ".join(f"{self.instructions[kind]} {word}" for kind, word in _WORDS.items())
        parted = f" ({self.divided / self.branches:.1%})" if self.branches else ""
        return [
            f"counted: {self.counted} of {self.launched} threads, in {self.simdgroups} simdgroups",
            f"instructions: {total / self.counted:.1f} for a thread; {total} in all, of which {kinds}",
            f"divergence: {self.divided} of {self.branches} branches divided a simdgroup{parted}; "
            f"{self.divergence_share:.1%} of the threads' turns were idle",
        ]


@contextmanager
def counting_device() -> Iterator[DeviceContext]:
    """A software device that can count launches: lanes engine, one threadgroup at a time."""
    with settings.override(soft_checked=False, soft_isolated=False, soft_engine="lanes", soft_threads=1):
        device = DeviceContext(open_metal("soft"))
        try:
            yield device
        finally:
            device.close()


def copied(values: list[Any]) -> list[Any]:
    """Copies of arguments that the kernel may write; the same argument is copied once."""
    known: dict[int, Any] = {}
    return [known.setdefault(id(each), _copy(each)) for each in values]


def _copy(value: Any) -> Any:
    if isinstance(value, Out):
        return Out(_copy(value.buffer))
    if isinstance(value, MlxBuffer):
        return value.numpy().copy()
    return value.copy() if isinstance(value, np.ndarray) else value


def measure(pipeline: Pipeline, run: Callable[[], object], locate: Locate) -> tuple[CountedLaunch | None, str]:
    """Counts one launch of a pipeline on a `counting_device`; returns None and the reason if that is not possible."""
    counter = LaunchCounter(pipeline.mtl.state)
    run()
    if not pipeline.launches:
        return None, "nothing was launched"
    if problem := counter.problem():
        return None, problem
    launch = next(iter(pipeline.launches.values()))
    return _summed(launch, counter.blocks(), locate), ""


def _summed(launch: Launch, blocks: list[CountedBlock], locate: Locate) -> CountedLaunch:
    launched = math.prod(launch.grid) * (1 if launch.by_threads else math.prod(launch.group))
    entry = blocks[0] if blocks else CountedBlock()
    lines = _lines(blocks, locate, entry.threads / entry.passes if entry.passes else 1.0)
    kinds: dict[InstructionKind, int] = {"operation": 0, "load": 0, "store": 0, "branch": 0, "other": 0}
    for each in lines.values():
        for kind, count in each.instructions.items():
            kinds[kind] += count
    turns, taken = (sum(getattr(each, name) for each in lines.values()) for name in ("turns", "taken"))
    return CountedLaunch(
        launch.grid,
        launch.group,
        launched,
        entry.threads,
        entry.passes,
        kinds,
        sum(each.branches for each in lines.values()),
        sum(each.divided for each in lines.values()),
        1 - taken / turns if turns else 0.0,
        tuple(lines[place].count(*place) for place in sorted(lines)),
    )


class _Line:
    """The sums for one line."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.threads = self.branches = self.divided = self.taken = 0
        self.turns = 0.0
        self.instructions: dict[InstructionKind, int] = {}

    def add(self, block: CountedBlock, kind: InstructionKind, width: float) -> None:
        self.threads = max(self.threads, block.threads)
        self.instructions[kind] = self.instructions.get(kind, 0) + block.threads
        self.taken += block.threads
        self.turns += block.passes * width

    def count(self, file: str, number: int) -> LineCount:
        of = self.instructions.get
        share = self.taken / self.turns if self.turns else 0.0
        total, loads, stores = sum(self.instructions.values()), of("load", 0), of("store", 0)
        return LineCount(
            number, self.source, self.threads, total, loads, stores, share, self.branches, self.divided, file
        )


def _lines(blocks: list[CountedBlock], locate: Locate, width: float) -> dict[tuple[str, int], _Line]:
    """Counts by source line; instructions without a line are setup code and are skipped."""
    known: dict[Place, Diagnostic | None] = {}
    lines: dict[tuple[str, int], _Line] = {}
    for block in blocks:
        for each in block.instructions:
            if each.place is None:
                continue
            if each.place not in known:
                known[each.place] = locate(*each.place)
            where = known[each.place]
            if where is not None:
                line = lines.setdefault((where.file, where.line), _Line(where.source_line.strip()))
                line.add(block, each.kind, width)
                if each is block.instructions[-1] and block.branches:
                    line.branches += block.passes
                    line.divided += block.divided
    return lines

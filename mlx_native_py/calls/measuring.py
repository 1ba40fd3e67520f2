"""What a launch does, counted on the software device: how often lines run, and where threads of a simdgroup part."""

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
    """What a launch did on one line of the source; instructions are those of the software device's compiler."""

    line: int
    source: str
    threads: int
    """How often a thread was there."""
    instructions: int
    loads: int
    stores: int
    active_share: float
    """Of the threads of its simdgroups: how many ran it at the same time, on average."""
    branches: int
    """How often a simdgroup came to a branch there."""
    divided: int
    """How often its threads then went different ways."""
    file: str = ""
    """The header that the line is in; empty for the source itself."""

    @property
    def place(self) -> str:
        return place_name(self.file, self.line)


@dataclass(frozen=True)
class CountedLaunch:
    """A launch as it was counted, thread by thread; loops count as often as they ran."""

    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    launched: int
    """Threads of the launch."""
    counted: int
    """Those in whole threadgroups; the ones that the grid's edge cuts are run without counters."""
    simdgroups: int
    instructions: dict[InstructionKind, int]
    branches: int
    divided: int
    divergence_share: float
    """Of the threads' turns at instructions: the share that was idle because other threads of the simdgroup parted."""
    lines: tuple[LineCount, ...]

    def facts(self) -> list[str]:
        """All but the lines, one fact each."""
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
    """A software device whose launches can be counted: lanes first, one threadgroup after the other."""
    with settings.override(soft_checked=False, soft_isolated=False, soft_engine="lanes", soft_threads=1):
        device = DeviceContext(open_metal("soft"))
        try:
            yield device
        finally:
            device.close()


def copied(values: list[Any]) -> list[Any]:
    """Arguments whose memory may be written; what is given twice stays one."""
    known: dict[int, Any] = {}
    return [known.setdefault(id(each), _copy(each)) for each in values]


def _copy(value: Any) -> Any:
    if isinstance(value, Out):
        return Out(_copy(value.buffer))
    if isinstance(value, MlxBuffer):
        return value.numpy().copy()
    return value.copy() if isinstance(value, np.ndarray) else value


def measure(pipeline: Pipeline, run: Callable[[], object], locate: Locate) -> tuple[CountedLaunch | None, str]:
    """Counts one launch of a pipeline on a `counting_device`; or None, and why that was not possible."""
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
    """The sums of one line."""

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
    """By line of the source; what has none sets the kernel up, and is not counted."""
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

"""The order of blocks while lanes have diverged: a chain of blocks, each with a mask of waiting lanes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.flow import Flow, Loop
from ..ir.model import BasicBlock
from .divergence import region
from .shape import WIDTH
from .uniformity import Analysis

# Instructions that are written both for all lanes and for some of them; more would take the compiler long. In loops,
# where the copies pay, only large kernels go without.
_MOST_TWICE = 1000
_LARGE = 3000


@dataclass(frozen=True, eq=False)
class Stop:
    """An element of the chain: a block with waiting lanes, or the end of a loop that some lanes still execute."""

    block: BasicBlock
    loop: Loop | None = None

    @property
    def again(self) -> bool:
        return self.loop is not None


@dataclass(eq=False)
class Chain:
    """`apart` are the blocks that some lanes execute alone; `landings` those where all have converged."""

    apart: set[BasicBlock]
    landings: set[BasicBlock]
    stops: list[Stop]
    after: dict[BasicBlock, int]  # of each block of the function: the first stop behind it
    begins_apart: bool  # some simdgroup has fewer than 32 lanes
    full: set[BasicBlock]  # the blocks with a copy for all lanes together

    def __contains__(self, block: BasicBlock) -> bool:
        return block in self.apart or block in self.landings


def plan(analysis: Analysis) -> Chain:
    """What follows from the branches at which lanes may part, and from the size of the threadgroup."""
    flow = analysis.flow
    threads = analysis.size[0] * analysis.size[1] * analysis.size[2]
    begins_apart = threads % WIDTH != 0
    apart: set[BasicBlock] = set(flow.order) if begins_apart else set()
    for block in analysis.divergent:
        apart |= region(flow, block)
    reached = {after for block in apart | analysis.divergent for after in block.successors}
    landings = reached - apart
    ends: dict[BasicBlock, list[Loop]] = {}
    for loop in reversed(flow.loops):  # inner ones first
        if loop.header in apart or loop.header in landings:
            ends.setdefault(max(loop.blocks, key=flow.index.__getitem__), []).append(loop)
    stops: list[Stop] = []
    after: dict[BasicBlock, int] = {}
    for block in flow.order:
        if block in apart or block in landings:
            stops.append(Stop(block))
        after[block] = len(stops)
        stops += [Stop(loop.header, loop) for loop in ends.get(block, ())]
    full = set(flow.order) if threads >= WIDTH else set()
    if not begins_apart:
        full -= _written_once(flow, apart)
    return Chain(apart, landings, stops, after, begins_apart, full)


def _written_once(flow: Flow, apart: set[BasicBlock]) -> set[BasicBlock]:
    """The blocks that lanes run under a mask even where all of them are together."""
    repeated = apart & {block for loop in flow.loops for block in loop.blocks}
    parts = [apart - repeated, repeated] if is_large(flow) else [apart - repeated]
    return {block for blocks in parts if _size(blocks) > _MOST_TWICE for block in blocks}


def _size(blocks: Iterable[BasicBlock]) -> int:
    return sum(len(block.instructions) for block in blocks)


def is_large(flow: Flow) -> bool:
    """Whether a function takes the compiler long unless its code is kept short."""
    return _size(flow.order) > _LARGE

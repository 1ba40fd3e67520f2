"""Divergent branches and their effect on later blocks."""

from __future__ import annotations

from ..ir.flow import Flow, Loop
from ..ir.model import BasicBlock


def region(flow: Flow, branch: BasicBlock) -> set[BasicBlock]:
    """The blocks in which only some of the lanes may be, once they disagree at the end of `branch`."""
    join = flow.ipdom[branch]
    region_blocks: set[BasicBlock] = set()
    waiting = [block for block in branch.successors if block is not join]
    while waiting:
        block = waiting.pop()
        if block not in region_blocks:
            region_blocks.add(block)
            waiting += [after for after in block.successors if after is not join]
    return region_blocks


def join_points(flow: Flow, branch: BasicBlock) -> set[BasicBlock]:
    """The blocks that lanes can come to on different ways from `branch`.

    Each successor sends its own label along all ways; where two labels meet is a join, which sends a new one.
    """
    join = flow.ipdom[branch]
    labels: dict[BasicBlock, BasicBlock] = {}
    joins: set[BasicBlock] = set()
    waiting: list[tuple[BasicBlock, BasicBlock]] = [(block, block) for block in branch.successors]
    while waiting:
        block, label = waiting.pop()
        old = labels.get(block)
        if old is label or block in joins:
            continue
        if old is not None:
            joins.add(block)
            label = block
        labels[block] = label
        if block is not join and block is not branch:
            waiting += [(after, label) for after in block.successors]
    return joins


def temporally_divergent_loops(flow: Flow, branch: BasicBlock) -> list[Loop]:
    """The loops that lanes leave in different rounds, once they disagree at the end of `branch`."""
    join = flow.ipdom[branch]
    loops = []
    loop = flow.loop_of[branch]
    while loop is not None and (join is None or join not in loop.blocks):
        loops.append(loop)
        loop = loop.parent
    return loops

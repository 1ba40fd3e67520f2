"""Where lanes part and meet again: what a branch on which they disagree does to the blocks after it."""

from __future__ import annotations

from ..ir.flow import Flow, Loop
from ..ir.model import Block


def region(flow: Flow, branch: Block) -> set[Block]:
    """The blocks in which only some of the lanes may be, once they disagree at the end of `branch`."""
    meeting = flow.ipdom[branch]
    found: set[Block] = set()
    waiting = [block for block in branch.successors if block is not meeting]
    while waiting:
        block = waiting.pop()
        if block not in found:
            found.add(block)
            waiting += [after for after in block.successors if after is not meeting]
    return found


def joins(flow: Flow, branch: Block) -> set[Block]:
    """The blocks that lanes can come to on different ways from `branch`.

    Each successor sends its own label along all ways; where two labels meet is a join, which sends a new one.
    """
    meeting = flow.ipdom[branch]
    labels: dict[Block, Block] = {}
    found: set[Block] = set()
    waiting: list[tuple[Block, Block]] = [(block, block) for block in branch.successors]
    while waiting:
        block, label = waiting.pop()
        old = labels.get(block)
        if old is label or block in found:
            continue
        if old is not None:
            found.add(block)
            label = block
        labels[block] = label
        if block is not meeting and block is not branch:
            waiting += [(after, label) for after in block.successors]
    return found


def left_apart(flow: Flow, branch: Block) -> list[Loop]:
    """The loops that lanes leave in different rounds, once they disagree at the end of `branch`."""
    meeting = flow.ipdom[branch]
    found = []
    loop = flow.loop_of[branch]
    while loop is not None and (meeting is None or meeting not in loop.blocks):
        found.append(loop)
        loop = loop.parent
    return found

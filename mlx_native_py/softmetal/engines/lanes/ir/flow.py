"""Control flow of a function: block order, dominators, post-dominators and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .model import BasicBlock, Declined, IrFunction


@dataclass(eq=False)
class Loop:
    """A natural loop; `blocks` includes those of nested loops."""

    header: BasicBlock
    blocks: set[BasicBlock]
    latches: list[BasicBlock]
    parent: Loop | None = None
    exits: list[tuple[BasicBlock, BasicBlock]] = field(default_factory=list)  # (inside, outside)

    @property
    def depth(self) -> int:
        return 1 + (self.parent.depth if self.parent else 0)


@dataclass(eq=False)
class Flow:
    """`order` is a reverse postorder that keeps the blocks of each loop together."""

    order: list[BasicBlock]
    index: dict[BasicBlock, int]
    predecessors: dict[BasicBlock, list[BasicBlock]]
    idom: dict[BasicBlock, BasicBlock | None]  # None for the entry
    ipdom: dict[BasicBlock, BasicBlock | None]  # None where the function's end is next
    loops: list[Loop]  # outer ones first
    loop_of: dict[BasicBlock, Loop | None]  # the innermost

    def dominates(self, above: BasicBlock, below: BasicBlock) -> bool:
        here: BasicBlock | None = below
        while here is not None and here is not above:
            here = self.idom[here]
        return here is above


def analyse(function: IrFunction) -> Flow:
    """Declines irreducible loops, and blocks from which no path leads to the end."""
    order = _reverse_postorder([function.entry], lambda block: block.successors)
    reached = set(order)
    predecessors: dict[BasicBlock, list[BasicBlock]] = {block: [] for block in order}
    for block in order:
        for after in block.successors:
            predecessors[after].append(block)
    idom = _dominators(order, predecessors)
    loops = _loops(order, predecessors, idom)
    order = _contiguous(function.entry, reached, loops)
    loop_of: dict[BasicBlock, Loop | None] = dict.fromkeys(order)
    for loop in loops:  # inner ones come later and overwrite
        loop_of.update(dict.fromkeys(loop.blocks, loop))
    index = {block: i for i, block in enumerate(order)}
    return Flow(order, index, predecessors, idom, _post_dominators(order, predecessors), loops, loop_of)


def drop_unreachable(function: IrFunction) -> None:
    """Takes away blocks that no path reaches, and what phis say about them."""
    reached = set(_reverse_postorder([function.entry], lambda block: block.successors))
    function.blocks = [block for block in function.blocks if block in reached]
    for block in function.blocks:
        for phi in block.phis:
            edges = [(v, b) for v, b in zip(phi.operands, phi.blocks, strict=True) if b in reached]
            phi.operands, phi.blocks = [v for v, _ in edges], [b for _, b in edges]


def _reverse_postorder(
    roots: Iterable[BasicBlock], after: Callable[[BasicBlock], list[BasicBlock]]
) -> list[BasicBlock]:
    seen: set[BasicBlock] = set()
    done: list[BasicBlock] = []
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        stack = [(root, iter(after(root)))]
        while stack:
            block, rest = stack[-1]
            following = next((b for b in rest if b not in seen), None)
            if following is None:
                done.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(after(following))))
    return done[::-1]


def _dominators(
    order: list[BasicBlock], predecessors: dict[BasicBlock, list[BasicBlock]]
) -> dict[BasicBlock, BasicBlock | None]:
    """Cooper, Harvey and Kennedy: intersect the predecessors' dominators until nothing changes."""
    number = {block: i for i, block in enumerate(order)}
    above = [0, *[-1] * (len(order) - 1)]
    before = [[number[p] for p in predecessors[block]] for block in order]
    changed = True
    while changed:
        changed = False
        for i in range(1, len(order)):
            nearest = -1
            for p in before[i]:
                if above[p] >= 0:
                    nearest = p if nearest < 0 else _meet(above, p, nearest)
            if nearest != above[i]:
                above[i] = nearest
                changed = True
    return {block: order[above[i]] if i else None for i, block in enumerate(order)}


def _meet(above: list[int], a: int, b: int) -> int:
    while a != b:
        if a > b:
            a = above[a]
        else:
            b = above[b]
    return a


def _post_dominators(
    order: list[BasicBlock], predecessors: dict[BasicBlock, list[BasicBlock]]
) -> dict[BasicBlock, BasicBlock | None]:
    """Dominators of the reversed graph, in which one more block, the end, comes first."""
    end = BasicBlock("the end")
    last = [block for block in order if not block.successors]
    backward = _reverse_postorder(last, lambda block: predecessors[block])
    if len(backward) != len(order):
        stuck = next(block for block in order if block not in set(backward))
        raise Declined(f"no path leads from block {stuck.name} to the end")
    # Several roots: a postorder over all of them together has every block after the blocks it can leave to.
    graph = {block: block.successors or [end] for block in order}
    above = _dominators([end, *backward], {end: [], **graph})
    return {block: None if above[block] is end else above[block] for block in order}


def _loops(
    order: list[BasicBlock], predecessors: dict[BasicBlock, list[BasicBlock]], idom: dict[BasicBlock, BasicBlock | None]
) -> list[Loop]:
    number = {block: i for i, block in enumerate(order)}
    loops: list[Loop] = []
    for header in order:
        latches = [p for p in predecessors[header] if number[p] >= number[header]]
        if not latches:
            continue
        for latch in latches:
            here: BasicBlock | None = latch
            while here is not None and here is not header:
                here = idom[here]
            if here is None:
                raise Declined(f"irreducible loop at block {header.name}")
        loops.append(_natural_loop(header, latches, predecessors))
    for i, loop in enumerate(loops):
        loop.parent = next((outer for outer in reversed(loops[:i]) if loop.header in outer.blocks), None)
        inside = sorted(loop.blocks, key=number.__getitem__)
        loop.exits = [(b, s) for b in inside for s in b.successors if s not in loop.blocks]
    return loops


def _natural_loop(
    header: BasicBlock, latches: list[BasicBlock], predecessors: dict[BasicBlock, list[BasicBlock]]
) -> Loop:
    blocks = {header}
    waiting = list(latches)
    while waiting:
        block = waiting.pop()
        if block not in blocks:
            blocks.add(block)
            waiting += predecessors[block]
    return Loop(header, blocks, latches)


def _contiguous(entry: BasicBlock, reached: set[BasicBlock], loops: list[Loop]) -> list[BasicBlock]:
    """A topological order in which a loop takes the place of one block, and so on within each loop."""
    children: dict[Loop | None, list[Loop]] = {}
    for loop in loops:
        children.setdefault(loop.parent, []).append(loop)

    def region(header: BasicBlock, blocks: set[BasicBlock], loop: Loop | None) -> list[BasicBlock]:
        place = {b: inner for inner in children.get(loop, ()) for b in inner.blocks}

        def after(node: BasicBlock) -> list[BasicBlock]:
            inner = place.get(node)
            targets = [to for _, to in inner.exits] if inner else node.successors
            heads = [place[t].header if t in place else t for t in targets if t in blocks]
            return [head for head in heads if head is not header]

        ordered: list[BasicBlock] = []
        for node in _reverse_postorder([header], after):
            inner = place.get(node)
            ordered += region(node, inner.blocks, inner) if inner else [node]
        return ordered

    return region(entry, reached, None)

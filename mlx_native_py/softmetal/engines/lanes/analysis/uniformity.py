"""Shapes of all values of a function, and the branches at which its lanes may part; the two depend on each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import layout
from ..ir.flow import Flow, Loop
from ..ir.model import Block, Constant, Declined, Function, Instruction, Value, uses
from . import intrinsics, shape
from .divergence import joins, left_apart
from .rules import bits_of, result
from .shape import LANES, UNIFORM, VARYING, Shape

# What an address is computed with; an index that goes through these only need not be exact where nobody may access.
_LINEAR = frozenset(("add", "sub", "mul", "shl", "or", "phi", "freeze"))


@dataclass(eq=False)
class Analysis:
    """`shapes` holds what is known where a value is made; `shape_at` what a block sees of it."""

    function: Function
    flow: Flow
    size: tuple[int, int, int]
    once: set[Instruction]  # allocas of which the whole simdgroup has one
    shapes: dict[Value, Shape] = field(default_factory=dict)
    home: dict[Instruction, Block] = field(default_factory=dict)
    parting: set[Block] = field(default_factory=set)  # blocks that end with lanes in disagreement
    meeting: set[Block] = field(default_factory=set)  # where lanes come together on different ways
    loops: set[Loop] = field(default_factory=set)  # which lanes leave in different rounds
    addresses: set[Instruction] = field(default_factory=set)

    def shape_of(self, value: Value) -> Shape | None:
        """None where nothing is known yet."""
        if isinstance(value, Constant):
            bits = bits_of(value.type)
            if value.value is not None and bits:
                return shape.constant(value.value, bits)
            return UNIFORM
        return self.shapes.get(value)

    def left_behind(self, value: Value, block: Block) -> bool:
        """Whether lanes bring this value from different rounds of a loop to `block`."""
        loop = self.flow.loop_of[self.home[value]] if isinstance(value, Instruction) else None
        while loop is not None and block not in loop.blocks:
            if loop in self.loops:
                return True
            loop = loop.parent
        return False

    def shape_at(self, value: Value, block: Block) -> Shape | None:
        found = self.shape_of(value)
        if found is None or found.known or not self.left_behind(value, block):
            return found
        return VARYING

    def seen(self, value: Value, block: Block) -> Shape:
        """For use once the analysis is complete; what has no shape never runs."""
        return self.shape_at(value, block) or VARYING


def analyse(
    function: Function, flow: Flow, size: tuple[int, int, int], once: set[Instruction], *, exact: bool = False
) -> Analysis:
    """Begins with nothing known and all lanes together, and gives up only what it must.

    `exact` asks for addresses that are right even where no lane may access memory.
    """
    found = Analysis(function, flow, size, once)
    for parameter in function.parameters[:1]:
        found.shapes[parameter] = UNIFORM
    for block in flow.order:
        found.home.update(dict.fromkeys(block.instructions, block))
    found.addresses = set() if exact else _only_addresses(function)
    changed = True
    while changed:
        changed = False
        for block in flow.order:
            for made in block.instructions:
                changed |= _visit(found, made, block)
    return found


def _visit(found: Analysis, made: Instruction, block: Block) -> bool:
    if made.opcode in ("br", "switch"):
        return _end(found, made, block)
    if not made.name:
        return False
    before = found.shapes.get(made)
    if before is not None and before.varying:
        return False
    after = _phi(found, made, block) if made.opcode == "phi" else _shape(found, made, block)
    if after is None or after == before:
        return False
    found.shapes[made] = after
    return True


def _end(found: Analysis, made: Instruction, block: Block) -> bool:
    """Where lanes disagree, everything that they do apart has to be looked at again."""
    if block in found.parting or not made.operands or len(block.successors) < 2:
        return False
    chosen = found.shape_at(made.operands[0], block)
    if chosen is None or chosen.uniform:
        return False
    found.parting.add(block)
    found.meeting |= joins(found.flow, block)
    found.loops |= set(left_apart(found.flow, block))
    return True


def _phi(found: Analysis, made: Instruction, block: Block) -> Shape | None:
    total = found.shapes.get(made)
    for value, source in zip(made.operands, made.blocks, strict=True):
        if isinstance(value, Constant) and value.undefined and block not in found.meeting:
            continue
        one = found.shape_at(value, source)
        if one is not None and not one.known and _leaves(found, source, block):
            one = VARYING
        if one is not None:
            total = one if total is None else shape.merge(total, one)
    if total is None or total.known or _same_values(made):
        return total
    return VARYING if block in found.meeting or _older_stride(found, total, block) else total


def _older_stride(found: Analysis, one: Shape, block: Block) -> bool:
    """Whether a round of a loop may have computed the stride anew since the value that comes from the round before."""
    if not isinstance(one.stride, Instruction):
        return False
    home = found.home[one.stride]
    return home is block or not found.flow.dominates(home, block)


def _leaves(found: Analysis, source: Block, target: Block) -> bool:
    loop = found.flow.loop_of[source]
    while loop is not None and target not in loop.blocks:
        if loop in found.loops:
            return True
        loop = loop.parent
    return False


def _same_values(made: Instruction) -> bool:
    return all(value is made.operands[0] for value in made.operands)


def _shape(found: Analysis, made: Instruction, block: Block) -> Shape | None:
    shapes = [found.shape_at(operand, block) for operand in made.operands]
    complete = [s for s in shapes if s is not None]
    if len(complete) < len(shapes):
        return None
    if made.opcode == "alloca":
        return _alloca(found, made)
    if made.opcode == "load":
        return UNIFORM if complete[0].uniform else VARYING
    if made.opcode in ("atomicrmw", "cmpxchg"):
        return VARYING
    if made.opcode == "call":
        return intrinsics.shape_of_call(made, complete, found.size)
    return result(made, complete, address=made in found.addresses)


def _alloca(found: Analysis, made: Instruction) -> Shape:
    if made.operands and not (isinstance(made.operands[0], Constant) and made.operands[0].value == 1):
        raise Declined("private memory of variable size")
    if made in found.once:
        return UNIFORM
    stride = lane_stride(made)
    return shape.unknown([lane * stride for lane in LANES], max(made.align, 1), 0)


def lane_stride(made: Instruction) -> int:
    """From one lane's copy of an alloca to the next."""
    if made.element is None:
        raise Declined("alloca without a type")
    align = max(made.align, 1)
    return -(-layout.size_of(made.element) // align) * align


def _only_addresses(function: Function) -> set[Instruction]:
    """The integers that are used for nothing but computing addresses."""
    users = uses(function)
    found = {made for made in function.instructions() if made.opcode in _LINEAR or made.opcode in ("zext", "sext")}

    def fits(value: Instruction, user: Instruction) -> bool:
        if user.opcode == "getelementptr":
            return user.operands[0] is not value
        return user in found and user.opcode in _LINEAR and (user.opcode != "or" or "disjoint" in user.flags)

    waiting = list(found)
    while waiting:
        value = waiting.pop()
        if value in found and not all(fits(value, user) for user in users.get(value, ())):
            found.discard(value)
            waiting += [o for o in value.operands if isinstance(o, Instruction) and o in found]
    return found

"""Uniformity analysis: lane shapes of all values and divergent branches of a function, which depend on each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir import layout
from ..ir.flow import Flow, Loop
from ..ir.model import BasicBlock, Declined, Instruction, IrConstant, IrFunction, Value, uses
from . import intrinsics, shape
from .divergence import join_points, temporally_divergent_loops
from .rules import bits_of, result
from .shape import LANES, UNIFORM, VARYING, LaneShape

# What an address is computed with; an index that goes through these only need not be exact where nobody may access.
_LINEAR = frozenset(("add", "sub", "mul", "shl", "or", "phi", "freeze"))


@dataclass(eq=False)
class Analysis:
    """`shapes` has the shape of each value where it is defined; `shape_at` as seen from a block."""

    function: IrFunction
    flow: Flow
    size: tuple[int, int, int]
    once: set[Instruction]  # allocas of which the whole simdgroup has one
    shapes: dict[Value, LaneShape] = field(default_factory=dict)
    home: dict[Instruction, BasicBlock] = field(default_factory=dict)
    divergent: set[BasicBlock] = field(default_factory=set)  # blocks that end with lanes in disagreement
    join_points: set[BasicBlock] = field(default_factory=set)  # where lanes come together on different ways
    divergent_loops: set[Loop] = field(default_factory=set)  # which lanes leave in different rounds
    addresses: set[Instruction] = field(default_factory=set)

    def shape_of(self, value: Value) -> LaneShape | None:
        """None where nothing is known yet."""
        if isinstance(value, IrConstant):
            bits = bits_of(value.type)
            if value.value is not None and bits:
                return shape.constant(value.value, bits)
            return UNIFORM
        return self.shapes.get(value)

    def is_temporally_divergent(self, value: Value, block: BasicBlock) -> bool:
        """Whether lanes bring this value from different rounds of a loop to `block`."""
        loop = self.flow.loop_of[self.home[value]] if isinstance(value, Instruction) else None
        while loop is not None and block not in loop.blocks:
            if loop in self.divergent_loops:
                return True
            loop = loop.parent
        return False

    def shape_at(self, value: Value, block: BasicBlock) -> LaneShape | None:
        shape_there = self.shape_of(value)
        if shape_there is None or shape_there.known or not self.is_temporally_divergent(value, block):
            return shape_there
        return VARYING

    def seen(self, value: Value, block: BasicBlock) -> LaneShape:
        """For use once the analysis is complete; what has no shape never runs."""
        return self.shape_at(value, block) or VARYING


def analyse(function: IrFunction, flow: Flow, size: tuple[int, int, int], once: set[Instruction]) -> Analysis:
    """Which values are uniform, linear or varying, and which branches diverge: an optimistic fixed point."""
    analysis = Analysis(function, flow, size, once)
    for parameter in function.parameters[:1]:
        analysis.shapes[parameter] = UNIFORM
    for block in flow.order:
        analysis.home.update(dict.fromkeys(block.instructions, block))
    analysis.addresses = _only_addresses(function)
    changed = True
    while changed:
        changed = False
        for block in flow.order:
            for inst in block.instructions:
                changed |= _visit(analysis, inst, block)
    return analysis


def _visit(analysis: Analysis, inst: Instruction, block: BasicBlock) -> bool:
    if inst.opcode in ("br", "switch"):
        return _end(analysis, inst, block)
    if not inst.name:
        return False
    before = analysis.shapes.get(inst)
    if before is not None and before.varying:
        return False
    after = _phi(analysis, inst, block) if inst.opcode == "phi" else _shape(analysis, inst, block)
    if after is None or after == before:
        return False
    analysis.shapes[inst] = after
    return True


def _end(analysis: Analysis, inst: Instruction, block: BasicBlock) -> bool:
    """Where lanes disagree, everything that they do apart has to be looked at again."""
    if block in analysis.divergent or not inst.operands or len(block.successors) < 2:
        return False
    chosen = analysis.shape_at(inst.operands[0], block)
    if chosen is None or chosen.uniform:
        return False
    analysis.divergent.add(block)
    analysis.join_points |= join_points(analysis.flow, block)
    analysis.divergent_loops |= set(temporally_divergent_loops(analysis.flow, block))
    return True


def _phi(analysis: Analysis, inst: Instruction, block: BasicBlock) -> LaneShape | None:
    total = analysis.shapes.get(inst)
    for value, source in zip(inst.operands, inst.blocks, strict=True):
        if isinstance(value, IrConstant) and value.undefined and block not in analysis.join_points:
            continue
        one = analysis.shape_at(value, source)
        if one is not None and not one.known and _leaves(analysis, source, block):
            one = VARYING
        if one is not None:
            total = one if total is None else shape.merge(total, one)
    if total is None or total.known or _same_values(inst):
        return total
    return VARYING if block in analysis.join_points or _older_stride(analysis, total, block) else total


def _older_stride(analysis: Analysis, one: LaneShape, block: BasicBlock) -> bool:
    """Whether a round of a loop may have computed the stride anew since the value that comes from the round before."""
    if not isinstance(one.stride, Instruction):
        return False
    home = analysis.home[one.stride]
    return home is block or not analysis.flow.dominates(home, block)


def _leaves(analysis: Analysis, source: BasicBlock, target: BasicBlock) -> bool:
    loop = analysis.flow.loop_of[source]
    while loop is not None and target not in loop.blocks:
        if loop in analysis.divergent_loops:
            return True
        loop = loop.parent
    return False


def _same_values(inst: Instruction) -> bool:
    return all(value is inst.operands[0] for value in inst.operands)


def _shape(analysis: Analysis, inst: Instruction, block: BasicBlock) -> LaneShape | None:
    shapes = [analysis.shape_at(operand, block) for operand in inst.operands]
    complete = [s for s in shapes if s is not None]
    if len(complete) < len(shapes):
        return None
    if inst.opcode == "alloca":
        return _alloca(analysis, inst)
    if inst.opcode == "load":
        return UNIFORM if complete[0].uniform else VARYING
    if inst.opcode in ("atomicrmw", "cmpxchg"):
        return VARYING
    if inst.opcode == "call":
        return intrinsics.shape_of_call(inst, complete, analysis.size)
    return result(inst, complete, address=inst in analysis.addresses)


def _alloca(analysis: Analysis, inst: Instruction) -> LaneShape:
    if inst.operands and not (isinstance(inst.operands[0], IrConstant) and inst.operands[0].value == 1):
        raise Declined("private memory of variable size")
    if inst in analysis.once:
        return UNIFORM
    stride = lane_stride(inst)
    return shape.unknown([lane * stride for lane in LANES], max(inst.align, 1), 0)


def lane_stride(inst: Instruction) -> int:
    """From one lane's copy of an alloca to the next."""
    if inst.element is None:
        raise Declined("alloca without a type")
    align = max(inst.align, 1)
    return -(-layout.size_of(inst.element) // align) * align


def _only_addresses(function: IrFunction) -> set[Instruction]:
    """The integers that are used for nothing but computing addresses."""
    users = uses(function)
    addresses = {inst for inst in function.instructions() if inst.opcode in _LINEAR or inst.opcode in ("zext", "sext")}

    def fits(value: Instruction, user: Instruction) -> bool:
        if user.opcode == "getelementptr":
            return user.operands[0] is not value
        return user in addresses and user.opcode in _LINEAR and (user.opcode != "or" or "disjoint" in user.flags)

    waiting = list(addresses)
    while waiting:
        value = waiting.pop()
        if value in addresses and not all(fits(value, user) for user in users.get(value, ())):
            addresses.discard(value)
            waiting += [o for o in value.operands if isinstance(o, Instruction) and o in addresses]
    return addresses

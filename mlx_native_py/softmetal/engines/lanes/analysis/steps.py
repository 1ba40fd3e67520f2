"""What determines a thread's number of steps: its grid position, bytes of some arguments, or other memory."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ...abi import SLOTS, SoftLaunch
from ..ir import layout
from ..ir.flow import Flow, analyse
from ..ir.model import BasicBlock, Declined, Instruction, IrFunction, Module, PointerType, Value
from ..ir.parse import parse_function
from .divergence import join_points, region
from .intrinsics import is_pure, lane_function

_GROUP, _LAUNCH = -1, -2  # where an address can lead, beside a buffer slot: soft_group and soft_launch
_WHERE = frozenset(("group", "simdgroup", "number", "x", "y", "z"))
_CASTS = frozenset(("addrspacecast", "bitcast", "freeze"))
_OF_ADDRESSES = frozenset(("icmp", "ptrtoint"))  # what makes a number of an address
_NAME = re.compile(r'@("[^"]*"|[-\w$.]+)')
_POINTER_BYTES = 8
_BUFFERS_END = SLOTS * _POINTER_BYTES  # in soft_launch; then come the lengths of what is bound, then the grid


@dataclass(eq=False)
class _Causes:
    """The buffer slots that values depend on. Values in `unknown` also depend on other memory."""

    slots: dict[Value, frozenset[int]] = field(default_factory=dict)
    unknown: set[Value] = field(default_factory=set)
    places: dict[Value, tuple[int, int | None]] = field(default_factory=dict)  # of addresses: where, and the offset
    arrivals: dict[BasicBlock, list[Value]] = field(default_factory=dict)  # conditions that decide how one comes there


def deciding_slots(module: Module, function: IrFunction, flow: Flow) -> frozenset[int] | None:
    """The buffer slots whose bytes, with the grid, decide how often loops go round; None where other memory does too.

    Launches that agree in all of these take the same steps, whatever the other buffers hold.
    """
    if not _calls_are_straight(module, function.name, ()):
        return None
    causes = _Causes(places={function.parameters[0]: (_GROUP, 0)})
    changed = True
    while changed:
        changed = False
        for block in flow.order:
            for inst in block.instructions:
                changed |= _visit(causes, inst, block, flow)
    headers = {loop.header for loop in flow.loops}
    slots: frozenset[int] = frozenset()
    for block in flow.order:
        if len(block.successors) < 2 or not headers & region(flow, block):
            continue
        condition = block.end.operands[0]
        if condition in causes.unknown:
            return None
        slots |= causes.slots.get(condition, frozenset())
    return slots


def _calls_are_straight(module: Module, name: str, callers: tuple[str, ...]) -> bool:
    """Whether no function that is called, or whose name is handed on, has loops or calls itself."""
    callers = (*callers, name)
    for word in dict.fromkeys(_NAME.findall(module.functions[name].body)):
        called = module.functions.get(word.strip('"'))
        if called is None or not called.body:
            continue
        try:
            if called.name in callers or analyse(parse_function(module, called.name)).loops:
                return False
        except Declined:
            return False
        if not _calls_are_straight(module, called.name, callers):
            return False
    return True


def _visit(causes: _Causes, inst: Instruction, block: BasicBlock, flow: Flow) -> bool:
    """Whether something became known."""
    if inst.ends:
        return _part(causes, block, flow)
    if not inst.name or inst in causes.unknown:
        return False
    _locate(causes, inst)
    sources = [*inst.operands, *(causes.arrivals.get(block, ()) if inst.opcode == "phi" else ())]
    own = _own(causes, inst)
    if own is None or any(source in causes.unknown for source in sources):
        causes.unknown.add(inst)
        return True
    found = own.union(*(causes.slots.get(source, frozenset()) for source in sources))
    changed = found != causes.slots.get(inst, frozenset())
    causes.slots[inst] = found
    return changed


def _part(causes: _Causes, block: BasicBlock, flow: Flow) -> bool:
    """What phis choose where ways meet again depends on the condition at which they parted."""
    if len(block.successors) < 2:
        return False
    condition = block.end.operands[0]
    if condition not in causes.unknown and not causes.slots.get(condition):
        return False
    changed = False
    for join in join_points(flow, block):
        conditions = causes.arrivals.setdefault(join, [])
        if condition not in conditions:
            conditions.append(condition)
            changed = True
    return changed


def _own(causes: _Causes, inst: Instruction) -> frozenset[int] | None:
    """What an instruction adds to the causes of its operands; None for memory that may hold anything."""
    if inst.opcode == "load":
        where, offset = causes.places.get(inst.operands[0], (None, None))
        if where is None or where == _LAUNCH and (offset is None or _BUFFERS_END <= offset < SoftLaunch.threads.offset):
            return None
        return frozenset((where,)) if where >= 0 else frozenset()
    if inst.opcode == "call":
        known = lane_function(inst.callee) in _WHERE or is_pure(inst.callee)
        return frozenset() if known else None
    if inst.opcode in _OF_ADDRESSES and any(isinstance(each.type, PointerType) for each in inst.operands):
        return None  # where memory lies is no part of what launches agree in
    return None if inst.opcode in ("atomicrmw", "cmpxchg") else frozenset()


def _locate(causes: _Causes, inst: Instruction) -> None:
    """Follows addresses from the group to its launch, and from there to the buffers."""
    if not inst.operands or (place := causes.places.get(inst.operands[0])) is None:
        return
    where, offset = place
    if inst.opcode in _CASTS:
        causes.places[inst] = place
    elif inst.opcode == "getelementptr":
        constant, indices = layout.terms(inst)
        causes.places[inst] = where, None if indices or offset is None else offset + constant
    elif inst.opcode == "load" and place == (_GROUP, 0):
        causes.places[inst] = _LAUNCH, 0
    elif inst.opcode == "load" and where == _LAUNCH and offset is not None and offset < _BUFFERS_END:
        causes.places[inst] = offset // _POINTER_BYTES, 0

"""Scalarises small vectors and aggregates, so that later passes see only scalars and pointers.

Structs remain as results of cmpxchg and overflow arithmetic, immediately followed by extractvalue.
"""

from __future__ import annotations

from collections.abc import Callable

from .flow import analyse, drop_unreachable
from .layout import offset_of, size_of
from .maker import Maker, integer, scalar_of
from .model import (
    I1,
    I64,
    ArrayType,
    BasicBlock,
    Declined,
    Instruction,
    IrConstant,
    IrFunction,
    Scalar,
    StructType,
    Type,
    Value,
    VectorType,
)
from .parse_lines import part_type
from .small_calls import split_call

_ELEMENTWISE = frozenset(
    "add sub mul udiv sdiv urem srem shl lshr ashr and or xor fadd fsub fmul fdiv frem fneg freeze icmp fcmp "
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp ptrtoint inttoptr addrspacecast".split()
)
_MOST_LEAVES = 256


def is_many(kind: Type) -> bool:
    return isinstance(kind, (VectorType, ArrayType, StructType))


def leaves(kind: Type) -> list[tuple[Scalar, int]]:
    """The scalars that a type is made of, each with its place in bytes."""
    if isinstance(kind, VectorType):
        size = -(-kind.element.bits // 8)
        return [(kind.element, i * size) for i in range(kind.count)]
    if isinstance(kind, ArrayType):
        size, inside = size_of(kind.element), leaves(kind.element)
        if kind.count * len(inside) > _MOST_LEAVES:
            raise Declined(f"{kind} as a value")
        return [(leaf, i * size + place) for i in range(kind.count) for leaf, place in inside]
    if isinstance(kind, StructType):
        fields = [(offset_of(kind, i), leaves(field)) for i, field in enumerate(kind.fields)]
        return [(leaf, start + place) for start, inside in fields for leaf, place in inside]
    return [(scalar_of(kind), 0)]


def split(function: IrFunction, keep: Callable[[Value], bool] = lambda value: False) -> None:
    """Rewrites the function in place; vectors stay where an instruction has only operands that are to be kept."""
    drop_unreachable(function)
    if any(_has_many(i) for i in function.instructions()):
        _Splitter(function, _kept(function, keep)).run()
    drop_unused(function)


def _has_many(inst: Instruction) -> bool:
    return is_many(inst.type) or any(is_many(o.type) for o in inst.operands)


def _kept(function: IrFunction, keep: Callable[[Value], bool]) -> set[Value]:
    """The instructions that stay as they are: what one of them takes must stay as well."""
    kept: set[Value] = {
        i
        for i in function.instructions()
        if _has_many(i) and keep(i) and all(isinstance(o, IrConstant) or keep(o) for o in i.operands)
    }
    changed = True
    while changed:
        lost = {i for i in kept if isinstance(i, Instruction) and any(_is_lost(o, kept) for o in i.operands)}
        kept -= lost
        changed = bool(lost)
    return kept


def _is_lost(operand: Value, kept: set[Value]) -> bool:
    return is_many(operand.type) and not isinstance(operand, IrConstant) and operand not in kept


def drop_unused(function: IrFunction) -> None:
    """Takes away what nobody uses and nobody would notice."""
    counts: dict[Value, int] = {}
    for inst in function.instructions():
        for operand in inst.operands:
            counts[operand] = counts.get(operand, 0) + 1
    idle = [i for i in function.instructions() if not counts.get(i) and _is_pure(i)]
    gone: set[Instruction] = set()
    while idle:
        inst = idle.pop()
        gone.add(inst)
        for operand in inst.operands:
            counts[operand] -= 1
            if not counts[operand] and isinstance(operand, Instruction) and _is_pure(operand) and operand not in gone:
                idle.append(operand)
    for block in function.blocks if gone else ():
        block.instructions = [i for i in block.instructions if i not in gone]


def _is_pure(inst: Instruction) -> bool:
    if inst.opcode == "load":
        return not inst.flags
    if inst.opcode == "call":
        return inst.callee.startswith("llvm.") and bool(inst.name) and ".atomic." not in inst.callee
    return bool(inst.name) and inst.opcode not in ("atomicrmw", "cmpxchg")


class _Splitter(Maker):
    """Visits blocks so that operands come before their uses; phis are completed at the end."""

    def __init__(self, function: IrFunction, kept: set[Value]) -> None:
        super().__init__(function)
        self.kept = kept
        self.split: dict[Value, list[Value]] = {}  # for a vector or aggregate, its scalars
        self.instead: dict[Value, Value] = {}  # for a scalar that came out of one, what it is now
        self.phis: list[tuple[Instruction, list[Instruction]]] = []

    def run(self) -> None:
        for block in analyse(self.function).order:
            self._block(block)
        for phi, parts in self.phis:
            rows = [self._at_end(value, block) for value, block in zip(phi.operands, phi.blocks, strict=True)]
            for i, part in enumerate(parts):
                part.operands = [row[i] for row in rows]
        for block in self.function.blocks:
            for phi in block.phis:
                phi.operands = [self.one(value) for value in phi.operands]

    def _at_end(self, value: Value, block: BasicBlock) -> list[Value]:
        """The scalars of a value as they leave a block."""
        self.output = []
        parts = self.many(value)
        block.instructions[-1:-1] = self.output
        return parts

    def one(self, value: Value) -> Value:
        return self.instead.get(value, value)

    def many(self, value: Value) -> list[Value]:
        """The scalars of a value of any type."""
        if not is_many(value.type):
            return [self.one(value)]
        parts = self.split.get(value)
        if parts is None and isinstance(value, IrConstant):
            parts = list(_constants(value))
            self.split[value] = parts
        if parts is None and value in self.kept:
            return self._from_kept(value)
        if parts is None:
            raise Declined(f"{value.type} from an unknown place")
        return parts

    def _from_kept(self, value: Value) -> list[Value]:
        parts: list[Value] = []
        for i, (kind, _) in enumerate(leaves(value.type)):
            if isinstance(value.type, VectorType):
                parts.append(self.add("extractelement", kind, value, integer(I64, i)))
            else:
                raise Declined(f"part of a kept {value.type}")
        return parts

    def _block(self, block: BasicBlock) -> None:
        self.apart = {}
        phis = [(phi, self._phi(phi)) for phi in block.phis if is_many(phi.type) and phi not in self.kept]
        self.split.update((phi, list(parts)) for phi, parts in phis)
        self.phis += phis
        self.output = [i for i in block.instructions if i.opcode == "phi" and (not is_many(i.type) or i in self.kept)]
        self.output += [part for _, parts in phis for part in parts]
        for inst in block.instructions:
            if inst.opcode != "phi":
                self._instruction(inst)
        block.instructions = self.output

    def _phi(self, phi: Instruction) -> list[Instruction]:
        return [
            Instruction("phi", kind, self.function.fresh(), [], phi.flags, blocks=list(phi.blocks))
            for kind, _ in leaves(phi.type)
        ]

    def _instruction(self, inst: Instruction) -> None:
        if inst in self.kept or not _has_many(inst):
            inst.operands = [self.one(o) for o in inst.operands]
            self.output.append(inst)
            return
        write = _elementwise if inst.opcode in _ELEMENTWISE else _WRITERS.get(inst.opcode)
        if write is None:
            raise Declined(f"{inst.opcode} of {inst.type}")
        parts = write(self, inst)
        if is_many(inst.type):
            self.split[inst] = parts
        elif inst.name:
            self.instead[inst] = parts[0]


def _constants(value: IrConstant) -> list[IrConstant]:
    if not is_many(value.type):
        return [value]
    if not value.elements and leaves(value.type):
        raise Declined(f"constant {value.type}")
    return [leaf for element in value.elements for leaf in _constants(element)]


def _element(kind: Type) -> Scalar:
    return kind.element if isinstance(kind, VectorType) else scalar_of(kind)


def _elementwise(self: _Splitter, inst: Instruction) -> list[Value]:
    rows = zip(*(self.many(o) for o in inst.operands), strict=True)
    kind = _element(inst.type)
    return [self.add(inst.opcode, kind, *row, flags=inst.flags, predicate=inst.predicate) for row in rows]


def _select(self: _Splitter, inst: Instruction) -> list[Value]:
    yes, no = self.many(inst.operands[1]), self.many(inst.operands[2])
    chosen = self.many(inst.operands[0])
    if len(chosen) == 1:
        chosen = chosen * len(yes)
    rows = zip(chosen, yes, no, strict=True)
    return [y if y is n else self.add("select", y.type, c, y, n, flags=inst.flags) for c, y, n in rows]


def _bitcast(self: _Splitter, inst: Instruction) -> list[Value]:
    kind = inst.type
    return self.regroup(self.many(inst.operands[0]), _element(kind), len(leaves(kind)))


def _load(self: _Splitter, inst: Instruction) -> list[Value]:
    pointer = self.one(inst.operands[0])
    parts: list[Value] = []
    for kind, place in _memory_leaves(inst, inst.type):
        part = Instruction("load", kind, self.function.fresh(), [self.address(pointer, place)], inst.flags)
        part.align = _align_at(inst.align, place)
        self.output.append(part)
        parts.append(part)
    return parts


def _store(self: _Splitter, inst: Instruction) -> list[Value]:
    pointer = self.one(inst.operands[1])
    parts = zip(self.many(inst.operands[0]), _memory_leaves(inst, inst.operands[0].type), strict=True)
    for value, (_, place) in parts:
        if isinstance(value, IrConstant) and value.undefined:
            continue
        part = Instruction("store", inst.type, "", [value, self.address(pointer, place)], inst.flags)
        part.align = _align_at(inst.align, place)
        self.output.append(part)
    return []


def _memory_leaves(inst: Instruction, kind: Type) -> list[tuple[Scalar, int]]:
    parts = leaves(kind)
    if "atomic" in inst.flags or any(leaf.bits % 8 for leaf, _ in parts if isinstance(kind, VectorType)):
        raise Declined(f"{inst.opcode} of {kind}")
    return parts


def _align_at(align: int, place: int) -> int:
    return min(align, place & -place) if place else align


def _extractelement(self: _Splitter, inst: Instruction) -> list[Value]:
    parts, index = self.many(inst.operands[0]), self.one(inst.operands[1])
    if isinstance(index, IrConstant):
        known = index.value is not None and 0 <= index.value < len(parts)
        return [parts[index.value] if known and index.value is not None else IrConstant(inst.type, "poison")]
    element = parts[0]
    for i, part in enumerate(parts[1:], 1):
        here = self.add("icmp", I1, index, integer(index.type, i), predicate="eq")
        element = self.add("select", part.type, here, part, element)
    return [element]


def _insertelement(self: _Splitter, inst: Instruction) -> list[Value]:
    parts = list(self.many(inst.operands[0]))
    element, index = self.one(inst.operands[1]), self.one(inst.operands[2])
    if isinstance(index, IrConstant):
        if index.value is not None and 0 <= index.value < len(parts):
            parts[index.value] = element
        return parts
    for i, part in enumerate(parts):
        here = self.add("icmp", I1, index, integer(index.type, i), predicate="eq")
        parts[i] = self.add("select", part.type, here, element, part)
    return parts


def _shufflevector(self: _Splitter, inst: Instruction) -> list[Value]:
    pool = self.many(inst.operands[0]) + self.many(inst.operands[1])
    return [IrConstant(_element(inst.type), "poison") if i < 0 else pool[i] for i in inst.indices]


def _span(whole: Type, indices: tuple[int, ...]) -> tuple[int, int]:
    """Which of the scalars of an aggregate belong to a part: the first and their number."""
    first = 0
    for index in indices:
        before = [part_type(whole, (i,)) for i in range(index)]
        first += sum(len(leaves(part)) for part in before)
        whole = part_type(whole, (index,))
    return first, len(leaves(whole))


def _extractvalue(self: _Splitter, inst: Instruction) -> list[Value]:
    first, count = _span(inst.operands[0].type, inst.indices)
    return self.many(inst.operands[0])[first : first + count]


def _insertvalue(self: _Splitter, inst: Instruction) -> list[Value]:
    parts = list(self.many(inst.operands[0]))
    first, count = _span(inst.type, inst.indices)
    parts[first : first + count] = self.many(inst.operands[1])
    return parts


def _taken_apart(self: _Splitter, inst: Instruction) -> list[Value]:
    """A struct that an instruction must make: its fields are taken out at once."""
    inst.operands = [self.one(o) for o in inst.operands]
    self.output.append(inst)
    parts: list[Value] = []
    for i, (kind, _) in enumerate(leaves(inst.type)):
        part = self.add("extractvalue", kind, inst)
        part.indices = (i,)
        parts.append(part)
    return parts


def _call(self: _Splitter, inst: Instruction) -> list[Value]:
    if isinstance(inst.type, StructType) and not any(is_many(o.type) for o in inst.operands):
        return _taken_apart(self, inst)
    count = len(leaves(inst.type)) if inst.name else 0
    return split_call(self, inst, [self.many(o) for o in inst.operands], count)


_WRITERS: dict[str, Callable[[_Splitter, Instruction], list[Value]]] = {
    "select": _select,
    "bitcast": _bitcast,
    "load": _load,
    "store": _store,
    "extractelement": _extractelement,
    "insertelement": _insertelement,
    "shufflevector": _shufflevector,
    "extractvalue": _extractvalue,
    "insertvalue": _insertvalue,
    "cmpxchg": _taken_apart,
    "call": _call,
}

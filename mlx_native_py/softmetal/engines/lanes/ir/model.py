"""LLVM's intermediate representation as plain values.

`parse.parse_module(text)` gives a `Module`; `parse.parse_function(module, "soft_entry_point")` its `IrFunction`. A
function is a list of `BasicBlock`s, a block a list of `Instruction`s of which the last one ends it and the first ones
may be phis. Every operand is a `Value`: another `Instruction`, a `IrParameter`, or a `IrConstant`. Values and blocks
are compared and hashed by identity; types by content. `value.type` is always there, `value.text` is how text refers
to the value (`%v12`, `@name`, `15`, `0x3FF0000000000000`). Names have no sigil and never are mere numbers, so
instructions can be added and taken away freely; `IrFunction.fresh(stem)` makes a new one. `uses(function)` tells who
uses what.

What the fields of an `Instruction` hold, by opcode (`operands` come in the order in which LLVM writes them):

    add fsub shl and ...    operands [left, right]; flags such as nuw nsw exact disjoint reassoc contract
    fneg freeze             operands [value]
    trunc bitcast fpext ... operands [value]; type is the destination
    icmp fcmp               operands [left, right]; predicate
    select                  operands [condition, yes, no]
    load                    operands [pointer]; align; flags volatile, atomic; ordering
    store                   operands [value, pointer]; align; flags; ordering
    alloca                  element is the allocated type; operands [] or [count]; align
    getelementptr           operands [pointer, index...]; element is the type stepped over; flags
    atomicrmw               operands [pointer, value]; predicate is the operation; ordering; align
    cmpxchg                 operands [pointer, expected, new]; ordering is "success failure"; flags weak; align
    fence                   ordering
    call                    operands are the arguments; callee is the name called; attributes[i] belongs to operand i
    phi                     operands [value...] and, in the same order, blocks they come from
    br                      operands [] or [condition]; blocks [target] or [then, else]
    switch                  operands [value, case...]; blocks [default, target...]
    ret unreachable         operands [] or [value]
    extractvalue insertvalue  operands [aggregate(, element)]; indices
    extractelement          operands [vector, index];  insertelement: operands [vector, element, index]
    shufflevector           operands [left, right]; indices is the mask, -1 for poison
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


class Declined(Exception):
    """The lanes engine does not support this kernel; the message says why."""


@dataclass(frozen=True, slots=True)
class IntType:
    bits: int

    def __str__(self) -> str:
        return f"i{self.bits}"


@dataclass(frozen=True, slots=True)
class FloatType:
    name: str  # half, bfloat, float or double

    @property
    def bits(self) -> int:
        return _FLOAT_BITS[self.name]

    def __str__(self) -> str:
        return self.name


_FLOAT_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


@dataclass(frozen=True, slots=True)
class PointerType:
    space: int = 0

    @property
    def bits(self) -> int:
        return 64

    def __str__(self) -> str:
        return f"ptr addrspace({self.space})" if self.space else "ptr"


@dataclass(frozen=True, slots=True)
class VoidType:
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True, slots=True)
class MetadataType:
    def __str__(self) -> str:
        return "metadata"


@dataclass(frozen=True, slots=True)
class VectorType:
    count: int
    element: Scalar

    def __str__(self) -> str:
        return f"<{self.count} x {self.element}>"


@dataclass(frozen=True, slots=True)
class ArrayType:
    count: int
    element: Type

    def __str__(self) -> str:
        return f"[{self.count} x {self.element}]"


@dataclass(frozen=True, slots=True)
class StructType:
    fields: tuple[Type, ...]
    packed: bool = False
    name: str = ""  # with its %, for a struct that the module defines by name

    def __str__(self) -> str:
        if self.name:
            return self.name
        inside = "{ " + ", ".join(map(str, self.fields)) + " }" if self.fields else "{}"
        return f"<{inside}>" if self.packed else inside


Scalar = IntType | FloatType | PointerType
Type = Scalar | VectorType | ArrayType | StructType | VoidType | MetadataType

VOID = VoidType()
POINTER = PointerType()
I1, I8, I16, I32, I64 = IntType(1), IntType(8), IntType(16), IntType(32), IntType(64)
HALF, BFLOAT, FLOAT, DOUBLE = FloatType("half"), FloatType("bfloat"), FloatType("float"), FloatType("double")


@dataclass(slots=True, eq=False)
class IrConstant:
    """A literal, a global's address or a constant expression; uniform."""

    type: Type
    text: str
    value: int | None = None  # of an integer, as signed as LLVM writes it; a true i1 is 1
    elements: tuple[IrConstant, ...] = ()  # of a vector, array or struct, also where one word stands for all of them

    @property
    def undefined(self) -> bool:
        return self.text in ("undef", "poison")


@dataclass(slots=True, eq=False)
class IrParameter:
    type: Type
    name: str
    attributes: str = ""

    @property
    def text(self) -> str:
        return f"%{self.name}"


@dataclass(slots=True, eq=False)
class Instruction:
    """An instruction; the module docstring lists its fields. Optimiser metadata and attributes are dropped."""

    opcode: str
    type: Type
    name: str = ""  # empty for what has no result
    operands: list[Value] = field(default_factory=list)
    flags: tuple[str, ...] = ()
    predicate: str = ""
    element: Type | None = None
    align: int = 0
    blocks: list[BasicBlock] = field(default_factory=list)
    indices: tuple[int, ...] = ()
    callee: str = ""
    attributes: list[str] = field(default_factory=list)  # zeroext, signext and align of arguments, else empty
    signature: str = ""  # the called function's type as written, for a function of variable arguments
    convention: str = ""  # the calling convention with the result's attributes
    ordering: str = ""

    @property
    def text(self) -> str:
        return f"%{self.name}"

    @property
    def ends(self) -> bool:
        return self.opcode in ENDINGS


ENDINGS = frozenset(("br", "switch", "ret", "unreachable"))
Value = IrConstant | IrParameter | Instruction


@dataclass(slots=True, eq=False)
class BasicBlock:
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def phis(self) -> list[Instruction]:
        return [i for i in self.instructions if i.opcode == "phi"]

    @property
    def body(self) -> list[Instruction]:
        """What lies between the phis and the end."""
        return [i for i in self.instructions[:-1] if i.opcode != "phi"]

    @property
    def end(self) -> Instruction:
        return self.instructions[-1]

    @property
    def successors(self) -> list[BasicBlock]:
        """Each once, in order."""
        return list(dict.fromkeys(self.end.blocks))

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(slots=True, eq=False)
class IrFunction:
    name: str
    result: Type
    parameters: list[IrParameter]
    blocks: list[BasicBlock]  # the first is the entry
    attributes: str = ""  # what follows the parameters: attribute groups
    taken: int = 0

    @property
    def entry(self) -> BasicBlock:
        return self.blocks[0]

    def instructions(self) -> Iterator[Instruction]:
        for block in self.blocks:
            yield from block.instructions

    def fresh(self, stem: str = "t") -> str:
        """A name that no other value of the function has."""
        self.taken += 1
        return f"{stem}.{self.taken}"


@dataclass(slots=True, eq=False)
class FunctionText:
    """The text of a function; `body` is empty for a declaration."""

    name: str
    head: str  # the whole first line, without the brace
    body: str

    @property
    def text(self) -> str:
        return f"{self.head} {{\n{self.body}}}" if self.body else self.head


@dataclass(slots=True, eq=False)
class Module:
    """A translation unit; parts that do not change are kept as text."""

    header: str  # data layout, triple and comdats
    types: dict[str, StructType]  # by name, with its %
    globals: dict[str, str]  # name without @ -> its line
    functions: dict[str, FunctionText]
    attributes: dict[str, str]  # "#0" -> the words in the braces


def uses(function: IrFunction) -> dict[Value, list[Instruction]]:
    """For every value that is used: the instructions that do, once for each operand."""
    users: dict[Value, list[Instruction]] = {}
    for inst in function.instructions():
        for operand in inst.operands:
            if not isinstance(operand, IrConstant):
                users.setdefault(operand, []).append(inst)
    return users

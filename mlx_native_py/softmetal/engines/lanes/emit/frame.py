"""The context of one emitted copy of a block: value names, the lane mask, and its lines."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from ..analysis.groups import AccessGroup
from ..analysis.rules import bits_of
from ..analysis.shape import WIDTH, LaneShape
from ..analysis.tables import ConstantArray, Permutation
from ..analysis.uniformity import Analysis
from ..ir.model import (
    I32,
    I64,
    BasicBlock,
    Declined,
    Instruction,
    IrConstant,
    PointerType,
    StructType,
    Type,
    Value,
    VectorType,
)

ALL = "-1"  # the mask of a block that all lanes run


def lanes_type(kind: Type) -> str:
    """The type that holds a varying value of all lanes."""
    if isinstance(kind, StructType):
        return "{ " + ", ".join(lanes_type(part) for part in kind.fields) + " }"
    if isinstance(kind, VectorType) or not hasattr(kind, "bits"):
        raise Declined(f"{kind} that differs between lanes")
    return f"<{WIDTH} x {kind}>"


def numbers(kind: Type, values: Sequence[int]) -> str:
    """A constant vector of integers."""
    bits = bits_of(kind)
    if bits == 1:
        return "<" + ", ".join(f"i1 {'true' if v & 1 else 'false'}" for v in values) + ">"
    half = 1 << bits >> 1
    signed = [(v + half) % (1 << bits) - half for v in values]
    return "<" + ", ".join(f"{kind} {v}" for v in signed) + ">"


@dataclass(eq=False)
class Writer:
    """A function being emitted. Values pass between blocks through stack slots, which LLVM turns into registers."""

    analysis: Analysis
    lines: list[str] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)  # the lines that make them
    kept: dict[Value, str] = field(default_factory=dict)  # slot of a value that other blocks use
    last: dict[Value, str] = field(default_factory=dict)  # slot of what each lane left a loop with
    declarations: dict[str, None] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)  # functions that the code calls, by name
    attributes: str = ""  # of every function, which say what the processor can do
    places: dict[Value, str] = field(default_factory=dict)  # of private memory
    groups: dict[Instruction, AccessGroup] = field(default_factory=dict)  # accesses that are made together
    native_masks: bool = False  # whether gathering the lanes of a mask is one instruction
    tables: dict[str, ConstantArray] = field(default_factory=dict)  # constant arrays, by the text of their addresses
    permutations: dict[str, Permutation] = field(default_factory=dict)  # by the type of the elements
    is_large: bool = False  # whether accesses in many pieces are functions of their own
    outlined: dict[Hashable, str] = field(default_factory=dict)  # names of those functions
    taken: int = 0

    def name(self, stem: str) -> str:
        self.taken += 1
        return f"{stem}.{self.taken}"

    def slot(self, kind: str, stem: str, align: int = 0) -> str:
        name = f"%{self.name(stem)}"
        self.slots.append(f"  {name} = alloca {kind}" + (f", align {align}" if align else ""))
        return name

    def fixed(self, kind: str, name: str) -> str:
        """Memory of which one is enough, always by the same name."""
        line = f"  %{name} = alloca {kind}, align 64"
        if line not in self.slots:
            self.slots.append(line)
        return f"%{name}"


@dataclass(eq=False)
class Frame:
    """One copy of a block."""

    writer: Writer
    block: BasicBlock
    mask: str = ALL  # a 32 bit integer, one bit for each lane
    scalars: dict[Value, str] = field(default_factory=dict)
    vectors: dict[Value, str] = field(default_factory=dict)
    memo: dict[Instruction, str] = field(default_factory=dict)  # of a group that was made at its first access
    prefetched: dict[Hashable, list[int]] = field(default_factory=dict)  # bytes from what an address depends on
    _lanes: str = ""

    @property
    def full(self) -> bool:
        return self.mask == ALL

    @property
    def groups(self) -> dict[Instruction, AccessGroup]:
        return self.writer.groups

    @property
    def native_masks(self) -> bool:
        return self.writer.native_masks

    def spare(self) -> str:
        """Memory that idle lanes may read and write."""
        return self.writer.fixed("[64 x i8]", "spare")

    def emit(self, line: str) -> None:
        self.writer.lines.append("  " + line)

    def let(self, stem: str, right: str) -> str:
        name = f"%{self.writer.name(stem)}"
        self.writer.lines.append(f"  {name} = {right}")
        return name

    def label(self, name: str) -> None:
        self.writer.lines.append(f"{name}:")

    def declare(self, line: str) -> None:
        self.writer.declarations[line] = None

    def helper(self, name: str, head: str, lines: Sequence[str]) -> str:
        """A function of the module's own, written once."""
        if name not in self.writer.helpers:
            first = f"define internal {head} noinline nounwind {self.writer.attributes} {{"
            self.writer.helpers[name] = "\n".join([first, *lines, "}"])
        return name

    def shape(self, value: Value) -> LaneShape:
        return self.writer.analysis.seen(value, self.block)

    def bits(self) -> str:
        return self.mask

    def lanes(self) -> str:
        if self.full:
            return "splat (i1 true)"
        if not self._lanes:
            self._lanes = self.let("lanes", f"bitcast i32 {self.mask} to <{WIDTH} x i1>")
        return self._lanes

    def scalar(self, value: Value) -> str:
        """A uniform value, or what lane 0 has of a linear one."""
        if not isinstance(value, Instruction):
            return value.text
        if value in self.scalars:
            return self.scalars[value]
        if value in self.writer.places:
            return self.writer.places[value]
        shape = self.shape(value)
        if shape.varying:
            raise Declined(f"no scalar stands for {value.text}")
        if shape.base is not None:
            return numbers(value.type, [shape.base])[1:-1].split(" ")[-1]
        loaded = self.let(value.name, f"load {value.type}, ptr {self.writer.kept[value]}")
        self.scalars[value] = loaded
        return loaded

    def vector(self, value: Value) -> str:
        """The value of all lanes."""
        if value not in self.vectors:
            self.vectors[value] = self._vector(value)
        return self.vectors[value]

    def _vector(self, value: Value) -> str:
        if isinstance(value, IrConstant):
            return value.text if value.undefined else f"splat ({value.type} {value.text})"
        shape = self.shape(value)
        if shape.base is not None:
            return numbers(value.type, shape.values(bits_of(value.type)))
        if shape.offsets is not None:
            return self.spread(self.scalar(value), value.type, shape)
        kind = lanes_type(value.type)
        if self.writer.analysis.is_temporally_divergent(value, self.block):
            return self.let(value.text[1:], f"load {kind}, ptr {self.writer.last[value]}")
        return self.let(value.text[1:], f"load {kind}, ptr {self.writer.kept[value]}")

    def spread(self, scalar: str, kind: Type, shape: LaneShape) -> str:
        """A uniform or linear value in all lanes."""
        if isinstance(kind, PointerType) and not shape.uniform:
            return self.let("address", f"getelementptr i8, {kind} {scalar}, <{WIDTH} x i64> {self.steps(shape, I64)}")
        alike = self.splat(scalar, kind)
        return (
            alike if shape.uniform else self.let("linear", f"add <{WIDTH} x {kind}> {alike}, {self.steps(shape, kind)}")
        )

    def splat(self, scalar: str, kind: Type) -> str:
        whole = f"<{WIDTH} x {kind}>"
        one = self.let("one", f"insertelement {whole} poison, {kind} {scalar}, i64 0")
        return self.let("alike", f"shufflevector {whole} {one}, {whole} poison, <{WIDTH} x i32> zeroinitializer")

    def concatenated(self, parts: list[str], kind: str) -> str:
        """Vectors of all lanes' elements, some lanes each, as one."""
        width = WIDTH // len(parts)
        while len(parts) > 1:
            half, mask = f"<{width} x {kind}>", f"<{2 * width} x i32> {numbers(I32, range(2 * width))}"
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.let("joined", f"shufflevector {half} {a}, {half} {b}, {mask}") for a, b in pairs]
            width *= 2
        return parts[0]

    def steps(self, shape: LaneShape, kind: Type) -> str:
        """From lane 0's value to that of each lane."""
        assert shape.offsets is not None
        known, whole = numbers(kind, shape.offsets), f"<{WIDTH} x {kind}>"
        if shape.stride is None:
            return known
        alike = self.splat(self.stride(shape, kind), kind)
        steps = self.let("steps", f"mul {whole} {alike}, {numbers(kind, shape.factors)}")
        return self.let("steps", f"add {whole} {steps}, {known}")

    def stride(self, shape: LaneShape, kind: Type) -> str:
        """The stride as a signed number of a type."""
        stride = shape.stride
        assert stride is not None
        scalar, own, wanted = self.scalar(stride), bits_of(stride.type), bits_of(kind)
        if own == wanted:
            return scalar
        cast = "sext" if own < wanted else "trunc"
        return self.let("stride", f"{cast} {stride.type} {scalar} to {kind}")

    def define(self, inst: Instruction, text: str) -> None:
        """`text` is the result of `inst`: a scalar or a vector, as its shape says."""
        shape = self.writer.analysis.seen(inst, self.block)
        (self.vectors if shape.varying else self.scalars)[inst] = text
        if inst in self.writer.kept:
            kind = lanes_type(inst.type) if shape.varying else str(inst.type)
            self.emit(f"store {kind} {text}, ptr {self.writer.kept[inst]}")
        self.remember(inst)

    def remember(self, inst: Instruction) -> None:
        """Keeps the value for lanes that leave a loop with it while others go on."""
        if inst in self.writer.last:
            self.blend(self.vector(inst), inst.type, self.writer.last[inst], self.mask)

    def blend(self, vector: str, kind: Type, slot: str, mask: str) -> None:
        """Stores the lanes of `mask` into a slot."""
        whole = lanes_type(kind)
        if mask != ALL and isinstance(kind, StructType):
            raise Declined("an aggregate that lanes leave a loop with")
        if mask != ALL:
            old = self.let("old", f"load {whole}, ptr {slot}")
            lanes = self.lanes() if mask == self.mask else self.let("edge", f"bitcast i32 {mask} to <{WIDTH} x i1>")
            vector = self.let("blend", f"select <{WIDTH} x i1> {lanes}, {whole} {vector}, {whole} {old}")
        self.emit(f"store {whole} {vector}, ptr {slot}")

    def bits_of(self, vector: str) -> str:
        """A vector of conditions as 32 bits; what idle lanes compute may be poison and must not spread."""
        solid = self.let("solid", f"freeze <{WIDTH} x i1> {vector}")
        return self.let("bits", f"bitcast <{WIDTH} x i1> {solid} to i32")

"""Shadow values: an integer with a set bit for each undefined bit of the value.

The shadow of a vector is a vector, that of a pointer has 64 bits; an aggregate in a register has one bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ..engines.lanes.ir.layout import terms
from ..engines.lanes.ir.model import (
    I1,
    I64,
    FloatType,
    Instruction,
    IntType,
    PointerType,
    Scalar,
    Type,
    Value,
    VectorType,
)

WORD_BYTES = 8
_SAME = frozenset(("trunc", "zext", "sext"))
_SHIFTS = frozenset(("shl", "lshr", "ashr"))
_AS_BEFORE = frozenset(("freeze", "bitcast", "addrspacecast"))


def shadow_type(kind: Type) -> IntType | VectorType:
    if isinstance(kind, VectorType):
        return VectorType(kind.count, _scalar(kind.element))
    return _scalar(kind) if isinstance(kind, (IntType, FloatType, PointerType)) else I1


def _scalar(kind: Scalar) -> IntType:
    return I64 if isinstance(kind, PointerType) else IntType(kind.bits)


def zeros(kind: Type) -> str:
    return "zeroinitializer" if isinstance(kind, VectorType) else "false" if kind == I1 else "0"


def ones(kind: Type) -> str:
    if isinstance(kind, VectorType):
        return f"splat ({kind.element} {ones(kind.element)})"
    return "true" if kind == I1 else "-1"


class Shadows:
    """Emits the instructions that compute shadow values, to `lines`."""

    def __init__(self, text: Callable[[Value], str]) -> None:
        self.lines: list[str] = []
        self._text = text
        self._names: dict[Value, str] = {}
        self._count = 0

    def add(self, text: str, name: str = "") -> str:
        name = name or self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def fresh(self) -> str:
        self._count += 1
        return f"%soft.shadow.{self._count}"

    def reserve(self, values: Iterable[Value]) -> None:
        """Names shadows before they are written: phis come before what they choose from."""
        self._names.update({value: self.fresh() for value in values})

    def of(self, value: Value) -> str:
        return self._names.get(value) or zeros(shadow_type(value.type))

    def known(self, value: Value) -> bool:
        return value in self._names

    def name(self, value: Value) -> str:
        return self._names[value]

    def any(self, value: Value) -> str:
        """Whether a bit is set, as an i1."""
        kind, shadow = shadow_type(value.type), self.of(value)
        if isinstance(kind, VectorType):
            whole = IntType(kind.count * kind.element.bits)
            shadow, kind = self.add(f"bitcast {kind} {shadow} to {whole}"), whole
        return shadow if kind == I1 else self.add(f"icmp ne {kind} {shadow}, 0")

    def words(self, value: Value) -> Iterator[tuple[str, int]]:
        """The shadow of a value in memory as numbers of 64 bits, each with the byte that it begins at."""
        kind, shadow = shadow_type(value.type), self.of(value)
        bits = kind.count * kind.element.bits if isinstance(kind, VectorType) else kind.bits
        whole = IntType(bits)
        if isinstance(kind, VectorType):
            shadow = self.add(f"bitcast {kind} {shadow} to {whole}")
        for start in range(0, bits, 8 * WORD_BYTES):
            part = self.add(f"lshr {whole} {shadow}, {start}") if start else shadow
            if bits != 8 * WORD_BYTES:
                part = self.add(f"{'zext' if bits < 8 * WORD_BYTES else 'trunc'} {whole} {part} to i64")
            yield part, start // 8

    def any_of(self, values: Iterable[Value]) -> str:
        found = [self.any(value) for value in values if self.known(value)]
        answer = found[0] if found else "false"
        for more in found[1:]:
            answer = self.add(f"or i1 {answer}, {more}")
        return answer

    def write(self, inst: Instruction) -> None:
        """The shadow of an instruction's result, by those of its operands."""
        rule = _RULES.get(inst.opcode, _mixed)
        if inst.opcode in _SAME | _AS_BEFORE:
            rule = _converted
        elif inst.opcode in _SHIFTS:
            rule = _shifted
        name, kind = self._names[inst], shadow_type(inst.type)
        shadow = rule(self, inst, kind)
        self.lines.append(f"  {name} = or {kind} {shadow}, {zeros(kind)}")

    def spread(self, bit: str, kind: Type) -> str:
        """All of a shadow, by one bit."""
        return self.add(f"select i1 {bit}, {kind} {ones(kind)}, {kind} {zeros(kind)}")

    def text(self, value: Value) -> str:
        return self._text(value)


def _mixed(s: Shadows, inst: Instruction, kind: Type) -> str:
    """Each element is undefined where an element of an operand is; what has no elements in common is as a whole."""
    values = [value for value in inst.operands if s.known(value)]
    if isinstance(kind, VectorType) and all(_count(value) == kind.count for value in values):
        return _by_element(s, values, kind)
    return s.spread(s.any_of(values), kind)


def _count(value: Value) -> int:
    return value.type.count if isinstance(value.type, VectorType) else 0


def _by_element(s: Shadows, values: Sequence[Value], kind: VectorType) -> str:
    answer, bits = "", f"<{kind.count} x i1>"
    for value in values:
        each = s.add(f"icmp ne {shadow_type(value.type)} {s.of(value)}, zeroinitializer")
        answer = s.add(f"or {bits} {answer}, {each}") if answer else each
    return answer if kind.element == I1 else s.add(f"sext {bits} {answer} to {kind}")


def _converted(s: Shadows, inst: Instruction, kind: Type) -> str:
    value = inst.operands[0]
    if inst.opcode in _SAME:
        return s.add(f"{inst.opcode} {shadow_type(value.type)} {s.of(value)} to {kind}")
    if shadow_type(value.type) == kind:
        return s.of(value)
    return s.add(f"bitcast {shadow_type(value.type)} {s.of(value)} to {kind}")


def _shifted(s: Shadows, inst: Instruction, kind: Type) -> str:
    value, amount = inst.operands
    shadow = s.add(f"{inst.opcode} {kind} {s.of(value)}, {s.text(amount)}")
    if not s.known(amount):
        return shadow
    return s.add(f"or {kind} {shadow}, {s.spread(s.any(amount), kind)}")


def _carried(s: Shadows, inst: Instruction, kind: Type) -> str:
    """An undefined bit reaches those above it."""
    either = s.add(f"or {kind} {s.of(inst.operands[0])}, {s.of(inst.operands[1])}")
    negative = s.add(f"sub {kind} {zeros(kind)}, {either}")
    return s.add(f"or {kind} {either}, {negative}")


def _and(s: Shadows, inst: Instruction, kind: Type) -> str:
    """A zero that is defined decides."""
    return _decided(s, inst, kind, [s.text(value) for value in inst.operands])


def _or(s: Shadows, inst: Instruction, kind: Type) -> str:
    """A one that is defined decides."""
    return _decided(s, inst, kind, [s.add(f"xor {kind} {s.text(value)}, {ones(kind)}") for value in inst.operands])


def _decided(s: Shadows, inst: Instruction, kind: Type, open_bits: Sequence[str]) -> str:
    left, right = (s.of(value) for value in inst.operands)
    both = s.add(f"and {kind} {left}, {right}")
    one = s.add(f"and {kind} {left}, {open_bits[1]}")
    other = s.add(f"and {kind} {open_bits[0]}, {right}")
    return s.add(f"or {kind} {s.add(f'or {kind} {both}, {one}')}, {other}")


def _xor(s: Shadows, inst: Instruction, kind: Type) -> str:
    return s.add(f"or {kind} {s.of(inst.operands[0])}, {s.of(inst.operands[1])}")


def _icmp(s: Shadows, inst: Instruction, kind: Type) -> str:
    """Of numbers that have the bits which are defined: whether all of them compare alike."""
    left, right = inst.operands
    if not isinstance(left.type, IntType):
        return _mixed(s, inst, kind)
    if inst.predicate not in ("eq", "ne"):
        return _ordered(s, inst, left.type)
    of = left.type
    either = s.add(f"or {of} {s.of(left)}, {s.of(right)}")
    differ = s.add(f"xor {of} {s.text(left)}, {s.text(right)}")
    surely = s.add(f"and {of} {differ}, {s.add(f'xor {of} {either}, {ones(of)}')}")
    same = s.add(f"icmp eq {of} {surely}, {zeros(of)}")
    return s.add(f"and i1 {same}, {s.add(f'icmp ne {of} {either}, {zeros(of)}')}")


def _ordered(s: Shadows, inst: Instruction, of: IntType) -> str:
    """By the least and the greatest that each may be; the sign counts the other way round."""
    turned = str(-1 << of.bits - 1) if inst.predicate[0] == "s" else ""
    (low, high), (other_low, other_high) = (_range(s, value, of, turned) for value in inst.operands)
    predicate = f"u{inst.predicate[1:]}"
    one = s.add(f"icmp {predicate} {of} {low}, {other_high}")
    return s.add(f"xor i1 {one}, {s.add(f'icmp {predicate} {of} {high}, {other_low}')}")


def _range(s: Shadows, value: Value, of: Type, turned: str = "") -> tuple[str, str]:
    """The least and the greatest number that has the bits which are defined."""
    text = s.add(f"xor {of} {s.text(value)}, {turned}") if turned else s.text(value)
    least = s.add(f"and {of} {text}, {s.add(f'xor {of} {s.of(value)}, {ones(of)}')}")
    return least, s.add(f"or {of} {text}, {s.of(value)}")


def _sum(s: Shadows, inst: Instruction, kind: Type) -> str:
    """What carries may change too."""
    (low, high), (other_low, other_high) = (_range(s, value, kind) for value in inst.operands)
    if inst.opcode == "sub":
        other_low, other_high = other_high, other_low
    one = s.add(f"{inst.opcode} {kind} {low}, {other_low}")
    carried = s.add(f"xor {kind} {one}, {s.add(f'{inst.opcode} {kind} {high}, {other_high}')}")
    return s.add(f"or {kind} {carried}, {_xor(s, inst, kind)}")


def _select(s: Shadows, inst: Instruction, kind: Type) -> str:
    condition, yes, no = inst.operands
    chosen = s.add(f"select {condition.type} {s.text(condition)}, {kind} {s.of(yes)}, {kind} {s.of(no)}")
    if not s.known(condition):
        return chosen
    if isinstance(condition.type, VectorType) and isinstance(kind, VectorType):
        return s.add(f"or {kind} {chosen}, {_by_element(s, [condition], kind)}")
    return s.add(f"or {kind} {chosen}, {s.spread(s.of(condition), kind)}")


def _with_index(s: Shadows, inst: Instruction, kind: Type, shadow: str) -> str:
    index = inst.operands[-1]
    if not s.known(index):
        return shadow
    return s.add(f"or {kind} {shadow}, {s.spread(s.any(index), kind)}")


def _extractelement(s: Shadows, inst: Instruction, kind: Type) -> str:
    vector, index = inst.operands
    shadow = s.add(f"extractelement {shadow_type(vector.type)} {s.of(vector)}, {index.type} {s.text(index)}")
    return _with_index(s, inst, kind, shadow)


def _insertelement(s: Shadows, inst: Instruction, kind: Type) -> str:
    vector, element, index = inst.operands
    new = f"{shadow_type(element.type)} {s.of(element)}"
    shadow = s.add(f"insertelement {kind} {s.of(vector)}, {new}, {index.type} {s.text(index)}")
    return _with_index(s, inst, kind, shadow)


def _shufflevector(s: Shadows, inst: Instruction, kind: Type) -> str:
    """What the mask leaves open is nobody's variable."""
    mask = ", ".join(f"i32 {max(i, 0)}" for i in inst.indices)
    pair = ", ".join(f"{shadow_type(value.type)} {s.of(value)}" for value in inst.operands)
    shadow = s.add(f"shufflevector {pair}, <{len(inst.indices)} x i32> <{mask}>")
    for i, index in enumerate(inst.indices):
        if index < 0 and isinstance(kind, VectorType):
            shadow = s.add(f"insertelement {kind} {shadow}, {kind.element} {zeros(kind.element)}, i32 {i}")
    return shadow


def _getelementptr(s: Shadows, inst: Instruction, kind: Type) -> str:
    """The bits below an element's size are as they were."""
    shadow = s.of(inst.operands[0])
    for index, scale in terms(inst)[1]:
        if s.known(index):
            wide = s.of(index) if index.type == I64 else s.add(f"sext {index.type} {s.of(index)} to i64")
            shadow = s.add(f"or i64 {shadow}, {s.add(f'mul i64 {wide}, {scale & -scale}')}")
    return s.add(f"or i64 {shadow}, {s.add(f'sub i64 0, {shadow}')}")


def _address(s: Shadows, inst: Instruction, kind: Type) -> str:
    """Between pointers and numbers."""
    of = shadow_type(inst.operands[0].type)
    if of == kind or not (isinstance(of, IntType) and isinstance(kind, IntType)):
        return s.of(inst.operands[0]) if of == kind else s.spread(s.any_of(inst.operands), kind)
    return s.add(f"{'trunc' if of.bits > kind.bits else 'zext'} {of} {s.of(inst.operands[0])} to {kind}")


_RULES: dict[str, Callable[[Shadows, Instruction, Type], str]] = {
    "getelementptr": _getelementptr,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "add": _sum,
    "sub": _sum,
    "mul": _carried,
    "icmp": _icmp,
    "select": _select,
    "extractelement": _extractelement,
    "insertelement": _insertelement,
    "shufflevector": _shufflevector,
    "ptrtoint": _address,
    "ptrtoaddr": _address,
    "inttoptr": _address,
}

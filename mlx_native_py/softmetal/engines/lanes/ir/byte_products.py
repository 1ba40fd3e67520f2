"""Combines sums of byte products: four products of two words' bytes and a number become one `__lane_dot`.

Integers wrap around, so the order of the sum does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from .maker import Maker
from .model import I8, I32, BasicBlock, Instruction, IrConstant, IrFunction, Value, uses
from .place import place_of
from .small_vectors import drop_unused

DOT = "__lane_dot_"
_SIGNS = {"sext": "s", "zext": "u"}


@dataclass(frozen=True, eq=False)
class _Byte:
    """A widened byte: its address as base and offset, and whether it is signed."""

    value: Value  # as a byte, unless it lies in a word of 32 bits
    sign: str
    word: Hashable
    place: int


@dataclass(frozen=True, eq=False)
class _Product:
    inst: Instruction
    left: _Byte
    right: _Byte

    @property
    def words(self) -> Hashable:
        return self.left.word, self.left.sign, self.right.word, self.right.sign, self.right.place - self.left.place


def join(function: IrFunction) -> None:
    """Rewrites the function in place."""
    joiner = _Joiner(function)
    for block in function.blocks:
        joiner.run(block)
    if joiner.changed:
        drop_unused(function)


class _Joiner(Maker):
    def __init__(self, function: IrFunction) -> None:
        super().__init__(function)
        self.users = uses(function)
        self.numbers: dict[Hashable, int] = {}  # of the words, in the order in which they are met
        self.changed = False

    def run(self, block: BasicBlock) -> None:
        self.output = []
        here = set(block.instructions)
        for inst in block.instructions:
            if self._is_sum(inst) and not self._continues(inst, here):
                self._rewrite(inst, here)
            else:
                self.output.append(inst)
        block.instructions = self.output

    def _is_sum(self, value: Value) -> bool:
        return isinstance(value, Instruction) and value.opcode == "add" and value.type == I32

    def _continues(self, inst: Value, here: set[Instruction]) -> bool:
        """Whether the only user is a larger sum."""
        users = self.users.get(inst, [])
        return len(users) == 1 and users[0] in here and self._is_sum(users[0])

    def _rewrite(self, root: Instruction, here: set[Instruction]) -> None:
        terms = self._terms(root, here)
        products = [product for term in terms if (product := self._product(term)) is not None]
        fours = _fours(products)
        if not fours:
            self.output.append(root)
            return
        joined = {product.inst for four in fours for product in four}
        total: Value = IrConstant(I32, "0", 0)
        for i, term in enumerate(term for term in terms if term not in joined):
            total = self.add("add", I32, total, term) if i else term
        for four in fours[:-1]:
            total = self._dot(four, total)
        last = self._dot(fours[-1], total)
        # The sum's name and identity go to the last of them.
        self.output.pop()
        root.opcode, root.operands, root.callee, root.flags = "call", last.operands, last.callee, ()
        root.attributes = [""] * 3
        self.output.append(root)
        self.changed = True

    def _terms(self, root: Instruction, here: set[Instruction]) -> list[Value]:
        """What a sum adds up, leaf by leaf."""
        found: list[Value] = []
        waiting: list[Value] = list(root.operands)
        while waiting:
            value = waiting.pop()
            if (
                isinstance(value, Instruction)
                and value in here
                and self._is_sum(value)
                and self._continues(value, here)
            ):
                waiting += value.operands
            else:
                found.append(value)
        return found

    def _product(self, term: Value) -> _Product | None:
        if not isinstance(term, Instruction) or term.opcode != "mul" or len(self.users[term]) != 1:
            return None
        left, right = (_byte(operand) for operand in term.operands)
        if left is None or right is None:
            return None
        order = [self.numbers.setdefault((byte.sign, byte.word), len(self.numbers)) for byte in (left, right)]
        return _Product(term, left, right) if order[0] <= order[1] else _Product(term, right, left)

    def _word(self, four: list[_Byte]) -> Value:
        word = four[0].word
        return word if isinstance(word, Instruction) and word.type == I32 else self.join([b.value for b in four], I32)

    def _dot(self, four: list[_Product], total: Value) -> Instruction:
        words = [self._word([product.left for product in four]), self._word([product.right for product in four])]
        inst = self.add("call", I32, *words, total)
        inst.callee = DOT + four[0].left.sign + four[0].right.sign
        inst.attributes = [""] * 3
        return inst


def _byte(value: Value) -> _Byte | None:
    """A byte that was loaded or taken out of a word, as a wider integer."""
    if not isinstance(value, Instruction):
        return None
    if value.opcode not in _SIGNS:
        return _shifted(value)
    byte, sign = value.operands[0], _SIGNS[value.opcode]
    if not isinstance(byte, Instruction) or byte.type != I8:
        return None
    if byte.opcode == "load" and not byte.flags:
        return _Byte(byte, sign, *place_of(byte.operands[0]))
    if byte.opcode != "trunc":
        return None
    word, place = _unshift(byte.operands[0], "lshr")
    return _Byte(byte, sign, word, place // 8) if place % 8 == 0 else None


def _shifted(value: Instruction) -> _Byte | None:
    """A byte of 32 bits where it was moved up and down again, or down and masked."""
    if value.type != I32:
        return None
    inner, down = _unshift(value, "ashr")
    if down == 24:
        word, up = _unshift(inner, "shl")
        return _Byte(value, "s", word, 3 - up // 8) if up in (0, 8, 16, 24) else None
    if value.opcode == "and" and isinstance(value.operands[1], IrConstant) and value.operands[1].value == 255:
        inner = value.operands[0]
    elif _unshift(value, "lshr")[1] != 24:
        return None
    else:
        inner = value
    word, down = _unshift(inner, "lshr")
    return _Byte(value, "u", word, down // 8) if down in (0, 8, 16, 24) else None


def _unshift(value: Value, opcode: str) -> tuple[Value, int]:
    """What is shifted by a constant, and by how many bits; by none if it is not."""
    if isinstance(value, Instruction) and value.opcode == opcode and isinstance(value.operands[1], IrConstant):
        return value.operands[0], value.operands[1].value or 0
    return value, 0


def _fours(products: list[_Product]) -> list[list[_Product]]:
    """Four products each, of bytes that lie side by side in two words."""
    together: dict[Hashable, list[_Product]] = {}
    for product in products:
        together.setdefault(product.words, []).append(product)
    fours = []
    for group in together.values():
        group.sort(key=lambda product: product.left.place)
        start = 0
        while start + 4 <= len(group):
            first = group[start].left.place
            if [product.left.place for product in group[start : start + 4]] == list(range(first, first + 4)):
                fours.append(group[start : start + 4])
                start += 4
            else:
                start += 1
    return fours

"""Parses types, constants and operands of LLVM's text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .model import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    POINTER,
    VOID,
    ArrayType,
    BasicBlock,
    Declined,
    FloatType,
    IntType,
    IrConstant,
    MetadataType,
    PointerType,
    Scalar,
    StructType,
    Type,
    Value,
    VectorType,
)

_WORD = re.compile(
    r"""\s*(
    [%@]"[^"]*" | [%@][-\w$.]+ | c?"[^"]*" | \#\d+ | !\w* |
    -?\d+\.\d+(?:e[+-]?\d+)? | -?[\w$.]+(?:-[\w$.]+)* | .
    )""",
    re.VERBOSE,
)
_SIMPLE: dict[str, Type] = {
    "ptr": POINTER,
    "void": VOID,
    "half": HALF,
    "bfloat": BFLOAT,
    "float": FLOAT,
    "double": DOUBLE,
    "metadata": MetadataType(),
    **{f"i{bits}": IntType(bits) for bits in (1, 8, 16, 32, 64, 128)},
}
_WHOLE = frozenset(("zeroinitializer", "undef", "poison"))
_EXPRESSIONS = frozenset(
    ("getelementptr", "ptrtoint", "inttoptr", "trunc", "bitcast", "addrspacecast", "add", "sub", "xor")
)
_MOST_ELEMENTS = 256


def words_of(line: str) -> list[str]:
    return _WORD.findall(line)


def local_name(word: str) -> str:
    """A value's name without its sigil; numbers get a letter, so that they need not be consecutive."""
    name = word[1:]
    return f"v{name}" if name.isdigit() else name


def label_name(word: str) -> str:
    name = word.lstrip("%")
    return f"b{name}" if name.isdigit() else name


class Reader:
    """The words of one line, from left to right, ending with an empty word."""

    __slots__ = ("blocks", "line", "position", "structs", "values", "words")

    def __init__(
        self, structs: Mapping[str, Type], values: dict[str, Value], blocks: dict[str, BasicBlock], line: str = ""
    ) -> None:
        self.structs = structs
        self.values = values
        self.blocks = blocks
        self.start(line)

    def start(self, line: str) -> None:
        self.line = line
        self.words = words_of(line)
        self.words.append("")
        self.position = 0

    def decline(self, reason: str) -> Declined:
        return Declined(f"{reason}: {self.line.strip()[:200]}")

    @property
    def word(self) -> str:
        return self.words[self.position]

    def next(self) -> str:
        word = self.words[self.position]
        self.position += 1
        return word

    def take(self, word: str) -> bool:
        """Steps over `word` if it comes next."""
        if self.words[self.position] != word:
            return False
        self.position += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if self.words[self.position] != word:
                raise self.decline(f"{word!r} expected, not {self.words[self.position]!r}")
            self.position += 1

    def any_of(self, words: frozenset[str]) -> tuple[str, ...]:
        start = self.position
        while self.words[self.position] in words:
            self.position += 1
        return tuple(self.words[start : self.position])

    def number(self) -> int:
        word = self.next()
        if not word.isdigit():
            raise self.decline(f"number expected, not {word!r}")
        return int(word)

    def text_in_parentheses(self) -> str:
        """From the opening parenthesis, which comes next, to the one that closes it."""
        start, depth = self.position, 0
        while True:
            word = self.next()
            depth += (word == "(") - (word == ")")
            if depth == 0:
                return " ".join(self.words[start : self.position])
            if not word:
                raise self.decline("open parenthesis")

    def type(self) -> Type:
        word = self.next()
        simple = _SIMPLE.get(word)
        if simple is POINTER and self.words[self.position] == "addrspace":
            self.position += 1
            self.expect("(")
            simple = PointerType(self.number())
            self.expect(")")
        return simple or self._other_type(word)

    def _other_type(self, word: str) -> Type:
        if word == "<" and not self.take("{"):
            count = self.number()
            self.expect("x")
            vector = VectorType(count, self._scalar())
            self.expect(">")
            return vector
        if word == "<":
            packed = StructType(self._fields(), True)
            self.expect(">")
            return packed
        if word == "[":
            count = self.number()
            self.expect("x")
            array = ArrayType(count, self.type())
            self.expect("]")
            return array
        if word == "{":
            return StructType(self._fields())
        if word in self.structs:
            return self.structs[word]
        if re.fullmatch(r"i\d+", word):
            return IntType(int(word[1:]))
        raise self.decline(f"unknown type {word!r}")

    def _scalar(self) -> Scalar:
        kind = self.type()
        if not isinstance(kind, (IntType, FloatType, PointerType)):
            raise self.decline(f"vector of {kind}")
        return kind

    def _fields(self) -> tuple[Type, ...]:
        fields: list[Type] = []
        while not self.take("}"):
            if fields:
                self.expect(",")
            fields.append(self.type())
        return tuple(fields)

    def operand(self) -> Value:
        return self.value(self.type())

    def value(self, kind: Type) -> Value:
        """What is written after its type."""
        word = self.words[self.position]
        if word[:1] == "%":
            self.position += 1
            known = self.values.get(word)
            if known is None:
                raise self.decline(f"unknown value {word}")
            if known.type is VOID:  # its line comes later
                known.type = kind
            return known
        return self.constant(kind)

    def constant(self, kind: Type) -> IrConstant:
        word = self.next()
        first = word[:1]
        if isinstance(kind, IntType) and (first == "-" or first.isdigit()):
            return IrConstant(kind, word, int(word))
        if word in ("true", "false"):
            return IrConstant(kind, word, int(word == "true"))
        if word in _WHOLE:
            return spread(kind, word)
        if isinstance(kind, FloatType) and (first in "-+" or first.isdigit()):
            return IrConstant(kind, word)
        if word == "null" or first == "@":
            return IrConstant(kind, word)
        if word in _EXPRESSIONS:
            return self._expression(kind, word)
        return self._many(kind, word)

    def _expression(self, kind: Type, word: str) -> IrConstant:
        start = self.position - 1
        while self.word != "(":
            if not self.next():
                raise self.decline(f"unknown constant {word!r}")
        self.text_in_parentheses()
        return IrConstant(kind, " ".join(self.words[start : self.position]))

    def _many(self, kind: Type, word: str) -> IrConstant:
        if word == "splat" and isinstance(kind, VectorType):
            self.expect("(")
            one = self.constant(self.type())
            self.expect(")")
            return IrConstant(kind, f"splat ({kind.element} {one.text})", None, (one,) * kind.count)
        closing = {"<": ">", "[": "]", "{": "}"}.get(word)
        if closing is None:
            raise self.decline(f"unknown constant {word!r}")
        elements: list[IrConstant] = []
        while not self.take(closing):
            if elements:
                self.expect(",")
            elements.append(self.constant(self.type()))
        inside = ", ".join(f"{e.type} {e.text}" for e in elements)
        return IrConstant(kind, f"{word}{inside}{closing}", None, tuple(elements))

    def label(self) -> BasicBlock:
        self.expect("label")
        return self.block()

    def block(self) -> BasicBlock:
        word = self.next()
        known = self.blocks.get(label_name(word))
        if known is None:
            raise self.decline(f"unknown label {word}")
        return known


def spread(kind: Type, word: str) -> IrConstant:
    """A constant that one word gives for all of a type, with its elements."""
    parts: tuple[Type, ...] = ()
    if isinstance(kind, (VectorType, ArrayType)) and kind.count <= _MOST_ELEMENTS:
        parts = (kind.element,) * kind.count
    elif isinstance(kind, StructType):
        parts = kind.fields
    elif word == "zeroinitializer":
        return zero(kind)
    return IrConstant(kind, word, None, tuple(spread(part, word) for part in parts))


def zero(kind: Type) -> IrConstant:
    if isinstance(kind, IntType):
        return IrConstant(kind, "false" if kind.bits == 1 else "0", 0)
    if isinstance(kind, PointerType):
        return IrConstant(kind, "null")
    if isinstance(kind, FloatType):
        return IrConstant(kind, "0.0")
    return IrConstant(kind, "zeroinitializer")

"""Sizes and offsets of types in memory on 64-bit targets."""

from __future__ import annotations

from functools import cache

from .model import ArrayType, Declined, Instruction, IntType, IrConstant, StructType, Type, Value, VectorType, VoidType


@cache
def size_of(kind: Type) -> int:
    """Bytes from one element of an array to the next."""
    if isinstance(kind, VectorType):
        if kind.element.bits % 8:
            return _round_up(-(-kind.count * kind.element.bits // 8), align_of(kind))
        return _round_up(kind.count * kind.element.bits // 8, align_of(kind))
    if isinstance(kind, ArrayType):
        return kind.count * size_of(kind.element)
    if isinstance(kind, StructType):
        return _round_up(_end(kind, len(kind.fields)), align_of(kind))
    return _round_up(stored_bytes(kind), align_of(kind))


def stored_bytes(kind: Type) -> int:
    """Bytes that a load or store of a scalar touches."""
    if isinstance(kind, (VectorType, ArrayType, StructType)):
        return size_of(kind)
    if isinstance(kind, VoidType) or not hasattr(kind, "bits"):
        raise Declined(f"{kind} in memory")
    return -(-kind.bits // 8)


@cache
def align_of(kind: Type) -> int:
    if isinstance(kind, VectorType):
        return _power_of_two(-(-kind.count * kind.element.bits // 8))
    if isinstance(kind, ArrayType):
        return align_of(kind.element)
    if isinstance(kind, StructType):
        return 1 if kind.packed else max(map(align_of, kind.fields), default=1)
    limit = 16 if isinstance(kind, IntType) else 8
    return min(_power_of_two(stored_bytes(kind)), limit)


def offset_of(kind: StructType, index: int) -> int:
    """Where a field begins."""
    return _end(kind, index) if kind.packed else _round_up(_end(kind, index), align_of(kind.fields[index]))


def _end(kind: StructType, count: int) -> int:
    """Where the first `count` fields end."""
    offset = 0
    for field in kind.fields[:count]:
        offset = (offset if kind.packed else _round_up(offset, align_of(field))) + size_of(field)
    return offset


def terms(address: Instruction) -> tuple[int, list[tuple[Value, int]]]:
    """A getelementptr as bytes: a constant, and indices with the bytes by which each counts."""
    kind = address.element
    constant = 0
    parts: list[tuple[Value, int]] = []
    for position, index in enumerate(address.operands[1:]):
        if kind is None:
            raise Declined("getelementptr without a type")
        if position and isinstance(kind, StructType):
            if not isinstance(index, IrConstant) or index.value is None:
                raise Declined("field chosen by a variable")
            constant += offset_of(kind, index.value)
            kind = kind.fields[index.value]
            continue
        if position:
            if not isinstance(kind, (ArrayType, VectorType)):
                raise Declined(f"getelementptr into {kind}")
            kind = kind.element
        scale = size_of(kind)
        if isinstance(index, IrConstant) and index.value is not None:
            constant += index.value * scale
        else:
            parts.append((index, scale))
    return constant, parts


def _round_up(size: int, align: int) -> int:
    return -(-size // align) * align


def _power_of_two(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()

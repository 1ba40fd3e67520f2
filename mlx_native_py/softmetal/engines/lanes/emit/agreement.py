"""Emits cheap scalar tests for conditions on which all lanes agree, as in most loop iterations."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.model import Instruction, IntType, IrConstant, Value
from .frame import Frame

_NEVER = "false"
_FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_DEEPEST = 4


@dataclass(frozen=True)
class Agreement:
    """Two scalar conditions: `yes` implies that all 32 lanes are true, `no` that all are false."""

    yes: str
    no: str

    @property
    def useful(self) -> bool:
        return self.yes != _NEVER or self.no != _NEVER


_UNKNOWN = Agreement(_NEVER, _NEVER)


def agreement(frame: Frame, condition: Value, depth: int = 0) -> Agreement:
    shape = frame.shape(condition)
    if shape.uniform:
        said = frame.scalar(condition)
        return Agreement(said, _not(frame, said))
    if not isinstance(condition, Instruction) or depth > _DEEPEST:
        return _UNKNOWN
    if frame.writer.analysis.home[condition] is not frame.block:
        return _UNKNOWN  # what it was made of may not have been kept
    if condition.opcode == "icmp":
        return _compared(frame, condition)
    parts = _both(condition)
    if parts is not None:
        one, other = (agreement(frame, part, depth + 1) for part in parts)
        return Agreement(_and(frame, one.yes, other.yes), _or(frame, one.no, other.no))
    parts = _either(condition)
    if parts is not None:
        one, other = (agreement(frame, part, depth + 1) for part in parts)
        return Agreement(_or(frame, one.yes, other.yes), _and(frame, one.no, other.no))
    if condition.opcode == "xor" and _is(condition.operands[1], 1):
        inner = agreement(frame, condition.operands[0], depth + 1)
        return Agreement(inner.no, inner.yes)
    return _UNKNOWN


def _both(condition: Instruction) -> tuple[Value, Value] | None:
    """The parts of a conjunction, in either of the forms that LLVM gives it."""
    if condition.opcode == "and":
        return condition.operands[0], condition.operands[1]
    if condition.opcode == "select" and _is(condition.operands[2], 0):
        return condition.operands[0], condition.operands[1]
    return None


def _either(condition: Instruction) -> tuple[Value, Value] | None:
    if condition.opcode == "or":
        return condition.operands[0], condition.operands[1]
    if condition.opcode == "select" and _is(condition.operands[1], 1):
        return condition.operands[0], condition.operands[2]
    return None


def _is(value: Value, number: int) -> bool:
    return isinstance(value, IrConstant) and value.value == number


def _compared(frame: Frame, condition: Instruction) -> Agreement:
    """A linear value against a uniform one: the least and the greatest lane decide, unless the lanes wrap around."""
    left, right = condition.operands
    predicate = condition.predicate
    if frame.shape(left).uniform and predicate[-2:] in _FLIPPED:
        left, right, predicate = right, left, predicate[0] + _FLIPPED[predicate[-2:]]
    shape, kind = frame.shape(left), left.type
    if predicate in ("eq", "ne") or shape.offsets is None or not frame.shape(right).uniform:
        return _UNKNOWN
    if shape.known or shape.stride is not None:
        return _UNKNOWN
    if not isinstance(kind, IntType) or shape.spread >= 1 << kind.bits >> 1:
        return _UNKNOWN
    sign = predicate[0]
    least = _moved(frame, str(kind), frame.scalar(left), min(shape.offsets))
    most = _moved(frame, str(kind), frame.scalar(left), max(shape.offsets))
    in_order = frame.let("in_order", f"icmp {sign}le {kind} {least}, {most}")
    bound = frame.scalar(right)
    upward = predicate[-2:] in ("lt", "le")
    far, near = (most, least) if upward else (least, most)
    all_yes = frame.let("all_yes", f"icmp {predicate} {kind} {far}, {bound}")
    some_yes = frame.let("some_yes", f"icmp {predicate} {kind} {near}, {bound}")
    none = _not(frame, some_yes)
    return Agreement(_and(frame, in_order, all_yes), _and(frame, in_order, none))


def _moved(frame: Frame, kind: str, scalar: str, distance: int) -> str:
    return frame.let("end", f"add {kind} {scalar}, {distance}") if distance else scalar


def _not(frame: Frame, condition: str) -> str:
    return frame.let("not", f"xor i1 {condition}, true")


def _and(frame: Frame, one: str, other: str) -> str:
    return _NEVER if _NEVER in (one, other) else frame.let("both", f"and i1 {one}, {other}")


def _or(frame: Frame, one: str, other: str) -> str:
    if _NEVER in (one, other):
        return other if one == _NEVER else one
    return frame.let("either", f"or i1 {one}, {other}")

"""Functions generated per kernel: one sends a bound dispatch, one checks, tracks and sends a call.

Without them, a dispatch would spend its Python time on loops over arguments and on looking up facts that never change
for a kernel. They are generated once per kernel and argument pattern, with loops unrolled and facts inlined. Only the
lines of `DispatchCode` talk to a compute encoder. A call that the generated code does not handle (numpy scalars, None,
a closed encoder, aliased memory) goes to the encoder's slow path before anything has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import error as StructError
from threading import get_ident
from typing import Any

from ..hazards.tracker import widened
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Binding, Pipeline
from .arguments import INLINE_LIMIT, Out, check_buffer, is_modest, requirement
from .dispatch_code import CALLS, DispatchCode, Slot, indented

__all__ = [
    "Aliased",
    "NAMES",
    "NOTHING",
    "Pattern",
    "encoder",
    "lone_encoder",
    "pattern_of_arguments",
    "pattern_of_values",
    "sender",
]

Pattern = tuple[str, ...]
"""The kind of each slot; see `Slot.kind`."""
Function = Callable[..., Any]
_UNKNOWN = "AttributeError, ValueError, StructError, OverflowError, Aliased"
_MAX_PACKED = 256  # packed numbers cached per kernel argument


class Aliased(Exception):
    """The memory of a buffer overlaps that of another one, which only the slow path tracks."""


NOTHING = MlxBuffer.__new__(MlxBuffer)
"""The value of a slot with no buffer bound."""
NOTHING.mtl, NOTHING.offset = None, 0
NAMES: dict[str, Any] = {"Aliased": Aliased, "NOTHING": NOTHING, "Out": Out, "widened": widened}
"""The globals that the lines of a `DispatchCode` use."""


def pattern_of_values(values: Sequence[Any]) -> Pattern:
    """The pattern of a bound dispatch's values."""
    return tuple("none" if v is None else "bytes" if type(v) is bytes else "buffer" for v in values)


def pattern_of_arguments(pipeline: Pipeline, args: Sequence[Any]) -> Pattern | None:
    """The pattern of a call's arguments; None if they need the slow path."""
    if len(args) != len(pipeline.buffers):
        return None
    pattern = []
    for binding, given in zip(pipeline.buffers, args, strict=True):
        kind = type(given)
        if binding is None:
            pattern.append("none")
        elif kind is MlxBuffer:
            pattern.append("buffer")
        elif kind is Out and binding.writes:
            pattern.append("out")
        elif kind is bytes and not binding.writes:
            pattern.append("bytes")
        elif (kind is int or kind is float) and _pack(binding) is not None:
            pattern.append("number")
        else:
            return None
    return tuple(pattern)


def sender(pipeline: Pipeline, pattern: Pattern, arena: bool) -> Function:
    """Generates `send(sending, launch, values)`, where `sending` is a `Sender`."""
    key = (pattern, arena)
    if (send := pipeline.senders.get(key)) is None:
        slots = _slots(pipeline, pattern)
        body = [*_unpacked(slots, "values"), CALLS, *DispatchCode(slots, arena).send()]
        send = pipeline.senders[key] = _compiled(pipeline, "send(sending, launch, values)", body, {})
    return send


def encoder(pipeline: Pipeline, pattern: Pattern, arena: bool) -> Function:
    """Generates `encode(enc, launch, args)`, which checks the arguments, places a barrier if needed, and sends."""
    key = (pattern, arena)
    if (encode := pipeline.encoders.get(key)) is None:
        slots = _slots(pipeline, pattern)
        code = DispatchCode(slots, arena)
        body = [*_check_lines(slots, code), "sending = enc.sender", CALLS, *code.track(), *code.send()]
        encode = pipeline.encoders[key] = _compiled(pipeline, "encode(enc, launch, args)", body, _check_names(slots))
    return encode


def lone_encoder(pipeline: Pipeline, pattern: Pattern) -> Callable[..., bool]:
    """Generates `encode(device, ticket, mtl, launch, args)` for the only dispatch of a command buffer.

    It returns False, with nothing changed, if the arguments do not match the pattern or must be refused.
    """
    slots = _slots(pipeline, pattern)
    code = DispatchCode(slots, arena=False)
    checks = [*_argument_lines(slots, "return False"), *code.require_own("return False"), *_requirement_lines(slots)]
    body = ["try:", *indented(checks), f"except ({_UNKNOWN}): return False", *code.send_alone(), "return True"]
    return _compiled(pipeline, "encode(device, ticket, mtl, launch, args)", body, _check_names(slots))


def _slots(pipeline: Pipeline, pattern: Pattern) -> list[Slot]:
    slots = []
    for index, (kind, binding) in enumerate(zip(pattern, pipeline.buffers, strict=True)):
        length = str(binding.size) if kind == "number" and binding is not None else ""
        slots.append(Slot(index, kind, binding, f"v{index}", length))
    return slots


def _unpacked(slots: Sequence[Slot], values: str) -> list[str]:
    return [f"{''.join(f'{slot.value}, ' for slot in slots)}= {values}"] if slots else []


def _compiled(pipeline: Pipeline, head: str, body: list[str], names: dict[str, Any]) -> Function:
    name = head.partition("(")[0]
    space = {**NAMES, "PIPELINE": pipeline, "STATE": pipeline.mtl, **names}
    source = "\n".join([f"def {head}:", *indented(body)])
    exec(compile(source, f"<{name} of {pipeline.label}>", "exec"), space)
    # Removed from its own globals: the reference cycle would delay freeing the function and its pipeline.
    function: Function = space.pop(name)
    return function


def _pack(binding: Binding | None) -> Callable[..., bytes] | None:
    """A function that packs plain ints and floats; None if the type needs the general conversion."""
    scalar = None if binding is None or binding.writes else binding.scalar
    return None if binding is None or scalar is None or scalar.lanes != 1 else scalar.quick(binding.size)


def _check_lines(slots: Sequence[Slot], code: DispatchCode) -> Iterator[str]:
    """Lines that unpack `args` and look up buffer uses."""
    slow = "return enc.dispatch_slowly(PIPELINE, launch, args)"
    yield f"if get_ident() != enc.owner: {slow}"
    yield "tracker = enc.mem_ranges"
    yield "try:"
    yield from indented(_argument_lines(slots, slow))
    yield from indented(code.find_uses())
    yield from indented(_requirement_lines(slots))
    yield f"except ({_UNKNOWN}): {slow}"


def _argument_lines(slots: Sequence[Slot], slow: str) -> Iterator[str]:
    """Lines that assign a variable per slot: its buffer or packed bytes."""
    yield from _unpacked(slots, "args") or [f"if args: {slow}"]
    for slot in slots:
        if slot.kind == "none":
            yield f"if {slot.value} is not None: {slow}"
        elif slot.kind == "out":
            yield f"{slot.value} = {slot.value}.buffer"
        elif slot.kind == "number":
            yield from _number_lines(slot, slow)
        elif slot.kind == "bytes" and slot.binding is not None:
            long_enough = f"{slot.binding.size} <= len({slot.value}) <= {INLINE_LIMIT}"
            yield f"if {slot.value}.__class__ is not bytes or not {long_enough}: {slow}"


def _check_names(slots: Sequence[Slot]) -> dict[str, Any]:
    names: dict[str, Any] = {"get_ident": get_ident, "StructError": StructError, "check": check_buffer}
    for slot in slots:
        if slot.kind == "number":
            names |= _packing_names(slot)
    return names


def _number_lines(slot: Slot, slow: str) -> Iterator[str]:
    value, pack = slot.value, f"pack{slot.index}({slot.value})"
    if _is_float(slot.binding):
        yield f"if {value}.__class__ is not int and {value}.__class__ is not float: {slow}"
        yield f"{value} = {pack}"
    else:
        yield f"if {value}.__class__ is not int: {slow}"
        yield f"try: {value} = packed{slot.index}[{value}]"
        yield f"except KeyError: {value} = {pack}"


def _packing_names(slot: Slot) -> dict[str, Any]:
    """Integers are cached in packed form, since most are sizes that recur; floats are not, since 0.0 equals -0.0."""
    pack = _pack(slot.binding)
    if pack is None or _is_float(slot.binding):
        return {f"pack{slot.index}": pack}
    packed: dict[int, bytes] = {}

    def pack_and_keep(value: int) -> bytes:
        data: bytes = pack(value)
        if len(packed) < _MAX_PACKED:
            packed[value] = data
        return data

    return {f"pack{slot.index}": pack_and_keep, f"packed{slot.index}": packed}


def _is_float(binding: Binding | None) -> bool:
    return binding is not None and binding.scalar is not None and binding.scalar.dtype.is_float


def _requirement_lines(slots: Sequence[Slot]) -> Iterator[str]:
    """Lines that check buffers which have not passed an equivalent check before."""
    for slot in slots:
        if slot.is_buffer and slot.binding is not None:
            passed = f"{slot.value}.passed & {requirement(slot.binding)}"
            if is_modest(slot.binding):
                passed = f"{slot.value}.suits_most or {passed}"
            yield f"if not ({passed}): check(PIPELINE, {slot.index}, {slot.value})"

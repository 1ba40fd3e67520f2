"""Emits simdgroup functions: lane indices, shuffles and reductions."""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.intrinsics import PREFIX, lane_function, steps
from ..analysis.shape import LANES, WIDTH
from ..ir.model import I32, Declined, Instruction, IntType, Value
from .dot import dot
from .frame import Frame, lanes_type, numbers
from .serial import in_turn
from .tables import MOST_REGISTERS, pick

BOXES_BYTES, OUTBOX = 6144, 4096  # as the header lays them out
_NEUTRAL = {"sum": 0, "or": 0, "xor": 0, "and": -1, "umax": 0, "umin": -1, "max": -(1 << 31), "min": (1 << 31) - 1}
_REDUCE = {"sum": "add", "max": "smax", "min": "smin"}


def lane_call(frame: Frame, inst: Instruction) -> None:
    """Writes a call of a `__lane_` function."""
    if inst.name and frame.shape(inst).known:
        return
    writer = _WRITERS.get(lane_function(inst.callee))
    if writer is None:
        raise Declined(f"calls {inst.callee}")
    writer(frame, inst)


def _group(frame: Frame, inst: Instruction) -> None:
    frame.define(inst, frame.writer.analysis.function.parameters[0].text)


def _simdgroup(frame: Frame, inst: Instruction) -> None:
    frame.define(inst, "%simdgroup")


def _position(frame: Frame, inst: Instruction) -> None:
    step, count = steps(inst.callee.removeprefix(PREFIX), frame.writer.analysis.size)
    first = frame.let("first", f"mul i32 %simdgroup, {WIDTH}")
    if not frame.shape(inst).varying:
        row = frame.let("row", f"udiv i32 {first}, {step}")
        frame.define(inst, frame.let(inst.name, f"urem i32 {row}, {count}"))
        return
    whole = f"<{WIDTH} x i32>"
    one = frame.let("one", f"insertelement {whole} poison, i32 {first}, i64 0")
    alike = frame.let("alike", f"shufflevector {whole} {one}, {whole} poison, {whole} zeroinitializer")
    index = frame.let("index", f"add {whole} {alike}, {numbers(I32, LANES)}")
    row = frame.let("row", f"udiv {whole} {index}, splat (i32 {step})")
    frame.define(inst, frame.let(inst.name, f"urem {whole} {row}, splat (i32 {count})"))


def _boxes(frame: Frame, inst: Instruction) -> None:
    frame.define(inst, boxes(frame))


def boxes(frame: Frame) -> str:
    """Memory that the lanes of a simdgroup exchange values through."""
    return frame.writer.fixed(f"[{BOXES_BYTES} x i8]", "boxes")


def _active(frame: Frame, inst: Instruction) -> None:
    frame.define(inst, frame.mask)


def _ballot(frame: Frame, inst: Instruction) -> None:
    said = inst.operands[0]
    if frame.shape(said).uniform:
        frame.define(inst, frame.let("said", f"select i1 {frame.scalar(said)}, i32 {frame.mask}, i32 0"))
        return
    bits = frame.bits_of(frame.vector(said))
    frame.define(inst, bits if frame.full else frame.let("said", f"and i32 {bits}, {frame.mask}"))


def first_lane(frame: Frame, value: Value) -> str:
    """What the lowest lane at work has."""
    shape = frame.shape(value)
    if shape.uniform or (frame.full and not shape.varying):
        return frame.scalar(value)
    vector = frame.vector(value)
    lane = "0" if frame.full else frame.let("lowest", f"call i32 @llvm.cttz.i32(i32 {frame.mask}, i1 true)")
    return frame.let("first", f"extractelement {lanes_type(value.type)} {vector}, i32 {lane}")


def _first(frame: Frame, inst: Instruction) -> None:
    frame.define(inst, first_lane(frame, inst.operands[0]))


def _shuffle(frame: Frame, inst: Instruction) -> None:
    value, source = inst.operands
    from_where = frame.shape(source)
    if frame.shape(value).uniform:
        frame.define(inst, frame.scalar(value))
        return
    vector, whole = _busy(frame, value), lanes_type(value.type)
    if from_where.uniform:
        lane = frame.let("source", f"and i32 {frame.scalar(source)}, {WIDTH - 1}")
        frame.define(
            inst,
            frame.let("taken", f"extractelement {whole} {vector}, i32 {lane}"),
        )
    elif from_where.known:
        places = ", ".join(f"i32 {place % WIDTH}" for place in from_where.values(32))
        text = f"shufflevector {whole} {vector}, {whole} poison, <{WIDTH} x i32> <{places}>"
        frame.define(inst, frame.let("taken", text))
    else:
        frame.define(inst, _permuted(frame, value, vector, source))


def _busy(frame: Frame, value: Value) -> str:
    """The value of each lane; idle ones repeat what the lowest one at work has."""
    vector, whole = frame.vector(value), lanes_type(value.type)
    if frame.full:
        return vector
    one = frame.let("one", f"insertelement {whole} poison, {value.type} {first_lane(frame, value)}, i64 0")
    alike = frame.let("alike", f"shufflevector {whole} {one}, {whole} poison, <{WIDTH} x i32> zeroinitializer")
    return frame.let("busy", f"select <{WIDTH} x i1> {frame.lanes()}, {whole} {vector}, {whole} {alike}")


def _permuted(frame: Frame, value: Value, vector: str, source: Value) -> str:
    """Each lane takes from a lane that is only known now."""
    assert isinstance(value.type, IntType)
    small = value.type.bits < 32
    kind = str(value.type)
    if small:
        vector, kind = frame.let("wide", f"zext {lanes_type(value.type)} {vector} to <{WIDTH} x i32>"), "i32"
    solid = frame.let("solid", f"freeze <{WIDTH} x i32> {frame.vector(source)}")
    lane = frame.let("source", f"and <{WIDTH} x i32> {solid}, splat (i32 {WIDTH - 1})")
    how = frame.writer.permutations.get(kind)
    if how is not None and WIDTH <= MOST_REGISTERS * how.entries:
        taken = pick(frame, vector, WIDTH, lane, kind, how)
    else:
        taken = _taken_from_memory(frame, vector, lane, kind)
    return frame.let("taken", f"trunc <{WIDTH} x i32> {taken} to {lanes_type(value.type)}") if small else taken


def _taken_from_memory(frame: Frame, vector: str, lane: str, kind: str) -> str:
    slot = frame.writer.slot(f"[{WIDTH} x {kind}]", "shuffled", 64)
    frame.emit(f"store <{WIDTH} x {kind}> {vector}, ptr {slot}, align 64")
    wide = frame.let("index", f"zext <{WIDTH} x i32> {lane} to <{WIDTH} x i64>")
    places = frame.let("places", f"getelementptr {kind}, ptr {slot}, <{WIDTH} x i64> {wide}")
    everyone = f"<{WIDTH} x i1> splat (i1 true)"
    suffix = f"v{WIDTH}{kind}.v{WIDTH}p0"
    align = 8 if kind == "i64" else 4
    return frame.let(
        "taken",
        f"call <{WIDTH} x {kind}> @llvm.masked.gather.{suffix}(<{WIDTH} x ptr> {places}, i32 {align}, {everyone}, "
        f"<{WIDTH} x {kind}> poison)",
    )


def _fold(frame: Frame, inst: Instruction) -> None:
    operation, value = lane_function(inst.callee), inst.operands[0]
    if isinstance(value.type, IntType):
        frame.define(inst, _fold_integers(frame, operation, value))
    elif operation == "sum":
        frame.define(inst, _tree(frame, value, _add) if frame.full else _sum_in_order(frame, value))
    else:
        frame.define(inst, _tree(frame, value, lambda kind, a, b: _extreme(operation, kind, a, b)))


def _fold_integers(frame: Frame, operation: str, value: Value) -> str:
    kind, whole, vector = str(value.type), lanes_type(value.type), frame.vector(value)
    if not frame.full:
        idle = f"splat ({kind} {_NEUTRAL[operation]})"
        vector = frame.let("busy", f"select <{WIDTH} x i1> {frame.lanes()}, {whole} {vector}, {whole} {idle}")
    name = _REDUCE.get(operation, operation)
    return frame.let("fold", f"call {kind} @llvm.vector.reduce.{name}.v{WIDTH}{kind}({whole} {vector})")


def _add(kind: str, left: str, right: str) -> str:
    return f"fadd {kind} {left}, {right}"


def _extreme(operation: str, kind: str, left: str, right: str) -> str:
    suffix = "f32" if kind == "float" else f"v{kind[1:].split(' ')[0]}f32"
    return f"call {kind} @llvm.{operation}num.{suffix}({kind} {left}, {kind} {right})"


def _tree(frame: Frame, value: Value, join: Callable[[str, str, str], str]) -> str:
    """Halves against halves. What idle lanes repeat changes no extreme."""
    vector, width = _busy(frame, value), WIDTH
    while width > 2:
        whole, half = f"<{width} x float>", f"<{width // 2} x float>"
        ends = []
        for start in (0, width // 2):
            places = ", ".join(f"i32 {i}" for i in range(start, start + width // 2))
            ends.append(
                frame.let("half", f"shufflevector {whole} {vector}, {whole} poison, <{width // 2} x i32> <{places}>")
            )
        width //= 2
        vector = frame.let("fold", join(half, *ends))
    left = frame.let("left", f"extractelement <2 x float> {vector}, i64 0")
    right = frame.let("right", f"extractelement <2 x float> {vector}, i64 1")
    return frame.let("fold", join("float", left, right))


def _sum_in_order(frame: Frame, value: Value) -> str:
    """The lanes at work one after the other; the sum begins with the first of them."""
    total = frame.writer.slot("float", "total")
    # Adding to minus zero keeps every number as it is.
    frame.emit(f"store float -0.0, ptr {total}")

    def work(read: Callable[[Value], str]) -> list[str]:
        before = frame.let("before", f"load float, ptr {total}")
        after = frame.let("after", f"fadd float {before}, {read(value)}")
        frame.emit(f"store float {after}, ptr {total}")
        return []

    in_turn(frame, [value], [], work)
    return frame.let("fold", f"load float, ptr {total}")


def _meet(frame: Frame, inst: Instruction) -> None:
    combine = frame.scalar(inst.operands[0])
    if combine != "null":
        inbox = boxes(frame)
        outbox = frame.let("outbox", f"getelementptr i8, ptr {inbox}, i64 {OUTBOX}")
        frame.emit(f"call void {combine}(ptr {inbox}, ptr {outbox}, i32 {frame.mask})")
    if inst.name:
        frame.define(inst, frame.mask)


def _once(frame: Frame, inst: Instruction) -> None:
    function, *rest = inst.operands
    arguments = ", ".join(f"{operand.type} {first_lane(frame, operand)}" for operand in rest)
    frame.emit(f"call void {frame.scalar(function)}({arguments})")


def _barrier(frame: Frame, inst: Instruction) -> None:
    frame.declare("declare void @soft_lanes_barrier(ptr, i32)")
    flags = first_lane(frame, inst.operands[0])
    frame.emit(f"call void @soft_lanes_barrier(ptr %fiber, i32 {flags})")


def _fence(frame: Frame, inst: Instruction) -> None:
    frame.emit('fence syncscope("singlethread") seq_cst')


_WRITERS: dict[str, Callable[[Frame, Instruction], None]] = {
    "group": _group,
    "simdgroup": _simdgroup,
    **dict.fromkeys(("x", "y", "z"), _position),
    "boxes": _boxes,
    "active": _active,
    "ballot": _ballot,
    "first": _first,
    "shuffle": _shuffle,
    **dict.fromkeys(_NEUTRAL, _fold),
    "meet": _meet,
    "once": _once,
    "barrier": _barrier,
    "fence": _fence,
    "dot": dot,
}

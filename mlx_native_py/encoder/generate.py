"""Functions written for one kernel: one that sends a bound dispatch, and one that checks, tracks and sends a call.

What a dispatch costs in Python is loops over arguments and look-ups of facts that never change for a kernel. So both
functions are generated with the loops unrolled and the facts filled in, once for each kernel and each pattern of
buffers and numbers among its arguments. `send` is the only thing that talks to a compute encoder; `encode` is a check
of plain arguments, the tracker's check and record, and `send`'s own lines. Whatever `encode` does not know (numpy's
numbers, None, a closed encoder, memory with aliases) it hands to the encoder's slow way before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import error as StructError
from threading import get_ident
from typing import Any

from ..hazards.tracker import widened
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Binding, Pipeline
from .arguments import INLINE_LIMIT, Out, check_buffer, requirement

__all__ = ["Aliased", "NOTHING", "Pattern", "encoder", "pattern_of_arguments", "pattern_of_values", "sender"]

Pattern = tuple[str, ...]
"""For each slot: "buffer", "out" for one that is only written, "number", "bytes", or "none" without an argument."""
Function = Callable[..., None]
_BUFFERS = ("buffer", "out")


class Aliased(Exception):
    """A buffer lies over the same bytes as another one, which only the slow way knows how to track."""


class _Nothing:
    """Stands in a slot in which no buffer is bound."""

    mtl = None
    offset = -1


NOTHING = _Nothing()


def pattern_of_values(values: Sequence[Any]) -> Pattern:
    """The pattern of what a bound dispatch has in its slots."""
    return tuple("none" if v is None else "bytes" if type(v) is bytes else "buffer" for v in values)


def pattern_of_arguments(pipeline: Pipeline, args: Sequence[Any]) -> Pattern | None:
    """The pattern of a call's arguments; None where some of them take the slow way."""
    pattern = []
    for binding, given in zip(pipeline.buffers, args, strict=True):
        kind = type(given)
        if binding is None:
            pattern.append("none")
        elif kind is MlxBuffer or kind is Out:
            pattern.append("buffer")
        elif kind is bytes and not binding.writes:
            pattern.append("bytes")
        elif (kind is int or kind is float) and _pack(binding) is not None:
            pattern.append("number")
        else:
            return None
    return tuple(pattern)


def sender(pipeline: Pipeline, pattern: Pattern, arena: bool) -> Function:
    """`send(sending, launch, values)`, where `sending` is a `Sender`."""
    key = (pattern, arena)
    if (send := pipeline.senders.get(key)) is None:
        lines = [
            "def send(sending, launch, values):",
            *_indented(_unpack_lines(pattern)),
            *_indented(_send_lines(pattern, arena)),
        ]
        send = pipeline.senders[key] = _compiled("send", lines, _send_names(pipeline))
    return send


def encoder(pipeline: Pipeline, pattern: Pattern, arena: bool) -> Function:
    """`encode(enc, launch, args)`: checks the arguments, places a barrier where one is needed, and sends."""
    key = (pattern, arena)
    if (encode := pipeline.encoders.get(key)) is None:
        body = [*_check_lines(pipeline, pattern), *_track_lines(pipeline, pattern), _log_line(pattern)]
        body += ["sending = enc.sender", *_send_lines(pattern, arena)]
        lines = ["def encode(enc, launch, args):", *_indented(body)]
        names = {**_send_names(pipeline), **_check_names(pipeline)}
        encode = pipeline.encoders[key] = _compiled("encode", lines, names)
    return encode


def _unpack_lines(pattern: Pattern) -> list[str]:
    return [f"{''.join(f'v{slot}, ' for slot in range(len(pattern)))}= values"] if pattern else []


def _indented(lines: Iterator[str] | list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _compiled(name: str, lines: list[str], names: dict[str, Any]) -> Function:
    exec(compile("\n".join(lines), f"<{name} of {names['PIPELINE'].label}>", "exec"), names)
    # Taken out of its own namespace, so that the function, and the pipeline that it names, are freed with it.
    function: Function = names.pop(name)
    return function


def _pack(binding: Binding) -> Callable[..., bytes] | None:
    """Packs plain ints and floats; None where a value needs more thought."""
    scalar = None if binding.writes else binding.scalar
    return None if scalar is None or scalar.lanes != 1 else scalar.quick(binding.size)


def _send_names(pipeline: Pipeline) -> dict[str, Any]:
    return {"PIPELINE": pipeline, "STATE": pipeline.mtl, "NOTHING": NOTHING}


def _check_names(pipeline: Pipeline) -> dict[str, Any]:
    names = {"get_ident": get_ident, "Out": Out, "StructError": StructError, "Aliased": Aliased}
    packs = {f"pack{slot}": _pack(b) for slot, b in enumerate(pipeline.buffers) if b is not None}
    return {**names, **packs, "check": check_buffer, "widened": widened}


def _slots(pattern: Pattern, *kinds: str) -> list[int]:
    return [slot for slot, kind in enumerate(pattern) if kind in kinds]


def _check_lines(pipeline: Pipeline, pattern: Pattern) -> Iterator[str]:
    """Values from arguments: `v0`, `v1` ...; each buffer's use in this encoder's tracker: `u0`, `u1` ..."""
    slow = "return enc.dispatch_slowly(PIPELINE, launch, args)"
    yield f"if get_ident() != enc.owner: {slow}"
    yield "tracker = enc.mem_ranges"
    yield f"outs = {sum(1 << slot for slot in _slots(pattern, 'out'))}"
    yield "try:"
    yield f"    {''.join(f'v{slot}, ' for slot in range(len(pattern)))}= args" if pattern else f"    if args: {slow}"
    for slot in _slots(pattern, "none"):
        yield f"    if v{slot} is not None: {slow}"
    buffers = [
        (slot, binding) for slot in _slots(pattern, *_BUFFERS) if (binding := pipeline.buffers[slot]) is not None
    ]
    for slot, binding in buffers:
        if binding.writes and pattern[slot] == "buffer":
            yield f"    if v{slot}.__class__ is Out: v{slot} = v{slot}.buffer; outs |= {1 << slot}"
        yield f"    u{slot} = v{slot}.allocation.use"
        yield f"    if u{slot}.tracker is not tracker: u{slot} = enc.touch(PIPELINE, v{slot})"
    for needed in sorted({requirement(binding) for _, binding in buffers}):
        slots = [slot for slot, binding in buffers if requirement(binding) == needed]
        passed = " & ".join(f"v{slot}.passed" for slot in slots)
        yield f"    if not {passed} & {needed}: {'; '.join(f'check(PIPELINE, {slot}, v{slot})' for slot in slots)}"
    for slot in _slots(pattern, "number"):
        yield f"    if v{slot}.__class__ is not int and v{slot}.__class__ is not float: {slow}"
        yield f"    v{slot} = pack{slot}(v{slot})"
    for slot in _slots(pattern, "bytes"):
        size = getattr(pipeline.buffers[slot], "size", 0)
        yield f"    if v{slot}.__class__ is not bytes or not {size} <= len(v{slot}) <= {INLINE_LIMIT}: {slow}"
    yield f"except (AttributeError, ValueError, StructError, OverflowError, Aliased): {slow}"


def _track_lines(pipeline: Pipeline, pattern: Pattern) -> Iterator[str]:
    """The tracker's check and record; what a kernel writes need not be recorded as read as well."""
    yield "epoch = tracker.epoch"
    roles = [(slot, b.writes) for slot in _slots(pattern, *_BUFFERS) if (b := pipeline.buffers[slot]) is not None]
    tests = [_meets(slot, "written", "write_epoch") for slot, _ in roles]
    tests += [_meets(slot, "read", "read_epoch") for slot, writes in roles if writes]
    if tests:
        yield f"if {' or '.join(tests)}: epoch = enc.hazard_barrier()"
    for slot, writes in roles:
        part, mark = ("written", "write_epoch") if writes else ("read", "read_epoch")
        yield f"if u{slot}.{mark} is not epoch: u{slot}.{mark} = epoch; u{slot}.{part} = v{slot}"
        yield f"elif u{slot}.{part} is not v{slot}: u{slot}.{part} = widened(u{slot}.{part}, v{slot})"


def _meets(slot: int, part: str, mark: str) -> str:
    value = f"v{slot}"
    return (
        f"(u{slot}.{mark} is epoch and {value}.start < (t := u{slot}.{part}).end and t.start < {value}.end"
        f" and (t.intervals is None or t.intervals.meets({value}.start, {value}.end)))"
    )


def _log_line(pattern: Pattern) -> str:
    """The encoder's tally is counted from the log when it is read."""
    spans = "".join(f", v{slot}.span" if kind in _BUFFERS else ", None" for slot, kind in enumerate(pattern))
    return f"tracker.log.append((PIPELINE, outs{spans}))"


def _send_lines(pattern: Pattern, arena: bool) -> Iterator[str]:
    """State that is already set is not sent; with `arena`, numbers are sent as buffers that hold them."""
    yield "buffers, numbers, set_pipeline, set_buffer, set_offset, set_bytes, threads, threadgroups = sending.calls"
    yield "if sending.pipeline is not PIPELINE: set_pipeline(STATE); sending.pipeline = PIPELINE"
    for slot, kind in enumerate(pattern):
        if kind in _BUFFERS or (arena and kind != "none"):
            if kind not in _BUFFERS:
                yield f"v{slot} = sending.cells.get(v{slot}) or sending.new_cell(v{slot})"
            yield f"if (old := buffers[{slot}]) is not v{slot}:"
            yield f"    if old.mtl is not v{slot}.mtl: set_buffer(v{slot}.mtl, v{slot}.offset, {slot})"
            yield f"    elif old.offset != v{slot}.offset: set_offset(v{slot}.offset, {slot})"
            yield f"    buffers[{slot}] = v{slot}"
        elif kind != "none":
            yield f"if numbers[{slot}] != v{slot} or buffers[{slot}] is not NOTHING:"
            yield f"    set_bytes(v{slot}, len(v{slot}), {slot}); numbers[{slot}] = v{slot}; buffers[{slot}] = NOTHING"
    yield "grid, group, by_threads, shared = launch.sizes"
    yield "if shared: sending.set_shared(shared)"
    yield "if by_threads: threads(grid, group)"
    yield "else: threadgroups(grid, group)"

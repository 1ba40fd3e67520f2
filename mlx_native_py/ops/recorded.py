"""Recorded ops: the dispatches of an op depend only on types, shapes and options, so they are computed once.

The second call with the same types, shapes and options runs the op on a recorder, over placeholder buffers. Its
dispatches become a generated function, which sends them for the buffers of this and later calls. The op itself runs
where that is not possible: on a recorder, on an encoder that is timed, with unhashable options.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Sequence
from functools import partial, update_wrapper
from threading import get_ident
from typing import Any, TypeVar

from ..counters import Tally
from ..dtypes import DType
from ..encoder import CapturedOpKind, CommandEncoder, DeviceContext, Dispatch, Recorder
from ..encoder.dispatch_code import CALLS, DispatchCode, Slot, indented
from ..encoder.generate import NAMES
from ..errors import MlxError
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..memory.placeholder import placeholder
from ..memory.shapes import as_shape
from ..memory.signature import Signature
from .refusals import MISSING, unexpected

__all__ = ["direct", "recorded"]

F = TypeVar("F", bound=Callable[..., Any])
_MAX_CALLS = 4096  # calls cached per device; the cache is cleared when full
_SEVERAL_BUFFERS = ("Sequence[MlxBuffer]", "Outputs", "QuantizedRows")  # annotations of parameters
_SEVERAL_NUMBERS = ("Sequence[int]", "Sequence[int] | None")


def recorded(function: F) -> F:
    """Wraps an op in a function of the same signature that replays recorded calls."""
    parameters = list(inspect.signature(function).parameters.values())
    names = [each.name for each in parameters[1:]]
    space: dict[str, Any] = {
        "CommandEncoder": CommandEncoder,
        "MlxBuffer": MlxBuffer,
        "StructError": struct.error,
        "get_ident": get_ident,
        "learn": _learn,
        "pack": struct.Struct("<d").pack,
        "signatures": _signatures,
    }
    lines = [
        "    if enc.__class__ is CommandEncoder and (get_ident() == enc.owner or enc.open_fast_path()):",
        "        try:",
        f"            key = (op, {''.join(f'{_key(each)}, ' for each in parameters[1:])})",
        "            run = enc.device.recorded_ops.get(key, False)",
        "        except (TypeError, StructError):",
        "            run = None",
        f"        if run is False: run = learn(enc.device, key, op, dict({_by_name(names)}))",
        f"        if run is not None: return run(enc, {', '.join(names)})",
    ]
    return _front(function, lines, space)


def direct(function: F) -> F:
    """The same for an op whose calls are not recorded."""
    return _front(function, [], {})


def _front(function: F, lines: Sequence[str], space: dict[str, Any]) -> F:
    """A function of an op's arguments that runs these lines, then the op; it refuses arguments that the op has not.

    Those that are missing go to the op, which says so, since the lines know no call with them.
    """
    parameters = list(inspect.signature(function).parameters.values())
    space |= {f"default_{each.name}": MISSING if each.default is each.empty else each.default for each in parameters}
    space |= {"op": function, "unexpected": partial(unexpected, function)}
    whole = [
        f"def front({', '.join(_declared(parameters))}):",
        "    if extra or unknown: raise unexpected(extra, unknown)",
        *lines,
        f"    return op(enc, {_by_name([each.name for each in parameters[1:]])})",
    ]
    exec(compile("\n".join(whole), f"<{function.__name__}>", "exec"), space)
    front: F = space.pop("front")
    update_wrapper(front, function)
    return front


def _by_name(names: Sequence[str]) -> str:
    return ", ".join(f"{name}={name}" for name in names)


def _declared(parameters: Sequence[inspect.Parameter]) -> list[str]:
    words = [(each.kind is each.KEYWORD_ONLY, f"{each.name}=default_{each.name}") for each in parameters]
    by_place = [word for named_only, word in words if not named_only]
    return [*by_place, "*extra", *(word for named_only, word in words if named_only), "**unknown"]


def _key(parameter: inspect.Parameter) -> str:
    """The part of the cache key for a parameter: a buffer's signature, a float's bits, or value and type."""
    name, kind = parameter.name, str(parameter.annotation)
    if kind == "float":
        return f"pack({name})"
    if kind in ("int", "bool", "str"):
        return f"{name}, {name}.__class__"
    if kind in _SEVERAL_BUFFERS:
        return f"signatures({name})"
    if kind in _SEVERAL_NUMBERS:
        return f"(tuple({name}) if {name}.__class__ is list else {name}), {name}.__class__"
    return f"({name}.signed or {name}.signature if {name}.__class__ is MlxBuffer else {name}), {name}.__class__"


def _signatures(buffers: Any) -> tuple[Signature, ...] | None:
    """The signatures of a list of buffers; raises TypeError for anything else."""
    if buffers is None:
        return None
    if buffers.__class__ not in (list, tuple) or not all(each.__class__ is MlxBuffer for each in buffers):
        raise TypeError("not a list of buffers")
    return tuple([each.signature for each in buffers])


class _PlaceholderRecorder(Recorder):
    """Records over placeholder buffers."""

    def __init__(self, device: DeviceContext) -> None:
        super().__init__(device, Tally())

    def empty(self, shape: int | Sequence[int], dtype: Any) -> MlxBuffer:
        buffer = placeholder(self.device.residency, DType.of(dtype), as_shape(shape)[0])
        self.temporaries.append(buffer)
        return buffer


def _learn(device: DeviceContext, key: Any, op: Callable[..., Any], given: dict[str, Any]) -> Callable[..., Any] | None:
    """The generated function for a call with this key; None if the dispatches cannot be known in advance.

    The first call also returns None, since shapes that never recur are not worth recording.
    """
    memory = device.recorded_ops
    if key not in memory:
        if len(memory) >= _MAX_CALLS:
            memory.clear()
        memory[key] = False
        return None
    recorder = _PlaceholderRecorder(device)
    stand_ins = {name: _stand_in(device, value) for name, value in given.items()}
    try:
        answer = op(recorder, **stand_ins)
        run = _Writer(recorder, stand_ins).function(answer)
    except (MlxError, _Unknown):
        # An op reports invalid arguments itself when it runs on them.
        run = None
    memory[key] = run
    return run


def _stand_in(device: DeviceContext, value: Any) -> Any:
    """A placeholder for a buffer, and for each of a list; other values are returned unchanged."""
    if isinstance(value, MlxBuffer):
        misalignment, readonly = value.signature.misalignment, value.readonly
        return placeholder(device.residency, value.dtype, value.shape, misalignment, readonly=readonly)
    if value.__class__ in (list, tuple) and all(isinstance(each, MlxBuffer) for each in value):
        return value.__class__(_stand_in(device, each) for each in value)
    return value


class _Unknown(Exception):
    """The call depends on more than types, shapes and options."""


class _Writer:
    """Generates the function that sends recorded dispatches with other buffers."""

    def __init__(self, recorder: _PlaceholderRecorder, arguments: dict[str, Any]) -> None:
        self._recorder = recorder
        self._lines: list[str] = []
        self._names: dict[Allocation, tuple[str, MlxBuffer]] = {}
        # Arguments are numbered, since their names could clash with names in the generated code.
        self._parameters = [f"p{number}" for number in range(len(arguments))]
        for parameter, value in zip(self._parameters, arguments.values(), strict=True):
            self._name(parameter, value)
        self._untouched = {each.allocation for each in recorder.temporaries}
        for number, each in enumerate(recorder.temporaries):
            self._names[each.allocation] = (f"t{number}", each)
        self._space: dict[str, Any] = {**NAMES, "view": _view}
        self._views: dict[tuple[Any, ...], str] = {}

    def _name(self, parameter: str, value: Any) -> None:
        """Says how the code calls a buffer, or each buffer of a list."""
        if isinstance(value, MlxBuffer):
            self._names[value.allocation] = (parameter, value)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], MlxBuffer):
            names = [f"{parameter}_{index}" for index in range(len(value))]
            self._lines.append(f"{', '.join(names)}, = {parameter}")
            self._names |= {each.allocation: (name, each) for name, each in zip(names, value, strict=True)}

    def function(self, answer: Any) -> Callable[..., Any]:
        self._lines.append("tracker = enc.mem_ranges")
        for number, each in enumerate(self._recorder.temporaries):
            self._lines.append(f"t{number} = enc.result({self._constant(each.signature)})")
        for node in self._recorder.nodes:
            if not isinstance(node, Dispatch) or node.declared:
                raise _Unknown
            self._dispatch(node)
        self._lines.append(f"return {self._answer(answer)}")
        source = "\n".join([f"def run(enc, {', '.join(self._parameters)}):", *indented(self._lines)])
        exec(compile(source, "<recorded op>", "exec"), self._space)
        run: Callable[..., Any] = self._space.pop("run")
        return run

    def _dispatch(self, node: Dispatch) -> None:
        """The arguments need no checks: their requirements follow from the call's key."""
        slots = [self._slot(node, index) for index in range(len(node.values))]
        self._untouched -= {each.allocation for each in node.buffers}
        pipeline, launch = self._constant(node.pipeline), self._constant(node.launch)
        arena = self._recorder.device.parameters is not None
        code = DispatchCode(slots, arena, pipeline, self._constant(node.pipeline.mtl))
        given = "".join(f"Out({slot.value}), " if slot.kind == "out" else f"{slot.value}, " for slot in slots)
        self._lines += ["try:", *indented(list(code.find_uses()) or ["pass"])]
        self._lines += [f"except Aliased: enc.dispatch_slowly({pipeline}, {launch}, ({given}))", "else:"]
        self._lines += indented(["sending = enc.sender", CALLS, *code.track(), *code.send(node.launch)])
        if node.op_kind is not CapturedOpKind.Other:
            self._lines.append(f"enc.ticket.kinds[len(tracker.log) - 1] = {self._constant(node.op_kind)}")

    def _slot(self, node: Dispatch, index: int) -> Slot:
        value, binding = node.values[index], node.pipeline.buffers[index]
        if isinstance(value, MlxBuffer):
            only_written = binding is not None and binding.writes and value.span not in {r.span for r in node.reads}
            kind, fresh = "out" if only_written else "buffer", value.allocation in self._untouched
            return Slot(index, kind, binding, self._buffer(value), fresh=fresh)
        if isinstance(value, bytes):
            return Slot(index, "bytes", binding, self._constant(value), str(len(value)))
        return Slot(index, "none", binding, "None")

    def _buffer(self, value: MlxBuffer) -> str:
        """The name of a buffer in the function; one that is neither an argument nor a temporary is a constant of the
        op."""
        if value.allocation not in self._names:
            return self._constant(value)
        name, whole = self._names[value.allocation]
        if (value.offset, value.nbytes) == (whole.offset, whole.nbytes):
            return name
        return self._view(name, value, whole)

    def _view(self, name: str, value: MlxBuffer, whole: MlxBuffer) -> str:
        key = (name, value.offset - whole.offset, value.dtype, value.shape)
        if key not in self._views:
            self._views[key] = f"v{len(self._views)}"
            words = f"{name}, {key[1]}, {value.nbytes}, {self._constant(value.dtype)}, {value.shape!r}"
            self._lines.append(f"{self._views[key]} = view({words})")
        return self._views[key]

    def _answer(self, answer: Any) -> str:
        if isinstance(answer, tuple):
            return f"({''.join(f'{self._answer(each)}, ' for each in answer)})"
        if answer is None:
            return "None"
        if not isinstance(answer, MlxBuffer) or answer.allocation not in self._names:
            raise _Unknown
        name, whole = self._names[answer.allocation]
        same = (answer.offset, answer.dtype, answer.shape) == (whole.offset, whole.dtype, whole.shape)
        return name if same else self._view(name, answer, whole)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._space)}"
        self._space[name] = value
        return name


def _view(of: MlxBuffer, distance: int, nbytes: int, dtype: DType, shape: tuple[int, ...]) -> MlxBuffer:
    return MlxBuffer(of.allocation, dtype, shape, of.offset + distance, nbytes)

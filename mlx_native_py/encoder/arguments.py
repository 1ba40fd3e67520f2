"""Kernel arguments: checked against the kernel's declaration and converted to what Metal binds."""

from __future__ import annotations

import ctypes
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Binding, Pipeline
from ..pipelines.structs import struct_of_argument

__all__ = ["INLINE_LIMIT", "Out", "argument", "check_buffer", "is_modest", "refuse_count", "requirement"]

INLINE_LIMIT = 4096
"""The most bytes that Metal accepts inline (`setBytes`); longer values go in a buffer."""

Spill = Callable[[bytes], MlxBuffer]
_RAW = (bytes, bytearray, memoryview, ctypes.Structure, ctypes.Array, ctypes._SimpleCData)


class Out:
    """Marks an argument that the kernel only writes, so that no barrier is needed for reading its old contents.

    >>> enc.dispatch(axpy, x, Out(y), 2.0, threads=4)
    >>> enc.discard()
    """

    __slots__ = ("buffer",)

    def __init__(self, buffer: MlxBuffer) -> None:
        self.buffer = buffer

    def __repr__(self) -> str:
        return f"Out({self.buffer!r})"


def refuse_count(pipeline: Pipeline, given: Sequence[Any]) -> InvalidArgument:
    """Builds the error for a wrong number of arguments."""
    slots = pipeline.buffers
    wanted = ", ".join(f"{slot}: " + ("-" if b is None else b.name) for slot, b in enumerate(slots)) or "none"
    return InvalidArgument(
        f"kernel {pipeline.label!r} takes {len(slots)} arguments by slot ({wanted}); {len(given)} were given"
    )


_VECTOR_BYTES = 16  # bytes: size and alignment of the largest vectors
_requirements: dict[tuple[int, int, bool], int] = {}


def requirement(binding: Binding) -> int:
    """The bit for what an argument requires of a buffer; arguments with the same requirements share one."""
    return _requirements.setdefault((binding.size, binding.alignment, binding.writes), 1 << len(_requirements))


def is_modest(binding: Binding) -> bool:
    """Whether a buffer that `suits_most` arguments is good enough for this one."""
    return binding.size <= _VECTOR_BYTES and _VECTOR_BYTES % binding.alignment == 0


def argument(
    pipeline: Pipeline, slot: int, given: Any, bound: Callable[[int], Any], spill: Spill
) -> MlxBuffer | bytes | None:
    """Converts `given` to what is bound at `slot`: a buffer, inline bytes, or None if the kernel has no argument there.

    `bound` returns what is already bound at a slot, which is kept if `given` is None. `spill` puts long bytes in a
    buffer.
    """
    binding = pipeline.buffers[slot]
    if binding is None:
        if given is not None:
            raise InvalidArgument(
                f"kernel {pipeline.label!r} has no argument at slot {slot}; pass None there, not {_shown(given)}"
            )
        return None
    if isinstance(given, Out):
        if not binding.writes:
            raise _refusal(pipeline, binding, "is marked Out, but the kernel only reads it")
        given = given.buffer
    if given is None:
        given = bound(slot)
        if given is None and binding.used:
            raise _refusal(
                pipeline,
                binding,
                "is None, and nothing was bound there before that could stay; pass a buffer or a value",
            )
    if isinstance(given, MlxBuffer):
        check_buffer(pipeline, slot, given)
        return given
    return None if given is None else _inline(pipeline, binding, given, spill)


def check_buffer(pipeline: Pipeline, slot: int, given: MlxBuffer) -> None:
    """Raises if a buffer is too short, misaligned, released, or read-only where the kernel writes."""
    given.allocation.require_live()
    binding = pipeline.buffers[slot]
    if binding is None:
        return
    if binding.writes and given.allocation.readonly:
        raise _refusal(pipeline, binding, f"may be written, but {_shown(given)} is over memory that is read-only")
    if given.nbytes < binding.size:
        raise _refusal(pipeline, binding, f"holds values of {binding.size} bytes; {_shown(given)} has {given.nbytes}")
    if given.offset % binding.alignment:
        raise _refusal(
            pipeline,
            binding,
            f"needs an offset that is a multiple of {binding.alignment}; {_shown(given)} starts at byte {given.offset}",
        )
    given.passed |= requirement(binding)
    aligned = given.nbytes >= _VECTOR_BYTES and given.offset % _VECTOR_BYTES == 0
    given.suits_most = aligned and not given.allocation.readonly


def _refusal(pipeline: Pipeline, binding: Binding, problem: str) -> InvalidArgument:
    return InvalidArgument(f"kernel {pipeline.label!r}: {binding} {problem}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _inline(pipeline: Pipeline, binding: Binding, given: Any, spill: Spill) -> MlxBuffer | bytes:
    if binding.writes and isinstance(given, np.ndarray):
        raise _refusal(pipeline, binding, "may be written, and an encoder writes to buffers; pass device.buffer(array)")
    if binding.writes:
        raise _refusal(pipeline, binding, f"may be written, so it needs a buffer or an array, not {_shown(given)}")
    if isinstance(given, np.ndarray) and given.ndim and (binding.scalar is None or given.size != binding.scalar.lanes):
        raise _refusal(
            pipeline, binding, f"is an array of {given.size} elements; pass device.buffer(array) or array.tobytes()"
        )
    data = bytes(given) if isinstance(given, _RAW) else _packed(pipeline, binding, given)
    if len(data) < binding.size:
        raise _refusal(pipeline, binding, f"holds values of {binding.size} bytes; {len(data)} were given")
    return data if len(data) <= INLINE_LIMIT else spill(data)


def _record(pipeline: Pipeline, binding: Binding, given: Any) -> bytes:
    """Packs a dict or numpy record by the struct's layout; a record of unknown layout is passed as its bytes."""
    library = pipeline.origin[0]
    struct = struct_of_argument(library.source, pipeline.name, binding.name, binding.size)
    try:
        if struct is not None and (isinstance(given, Mapping) or given.dtype.names is not None):
            return struct.pack(given)
    except InvalidArgument as problem:
        raise _refusal(pipeline, binding, f"is a struct: {problem}") from None
    if isinstance(given, Mapping):
        raise _refusal(
            pipeline,
            binding,
            f"has a type whose members the source does not tell; pass bytes of {binding.size}, not {_shown(given)}",
        )
    data: bytes = given.tobytes()
    return data


def _packed(pipeline: Pipeline, binding: Binding, given: Any) -> bytes:
    if isinstance(given, (np.void, Mapping)):
        return _record(pipeline, binding, given)
    kind = binding.scalar
    if kind is not None and isinstance(given, (list, tuple, range)) and kind.lanes == 1:
        dtype = kind.dtype.numpy
        raise _refusal(
            pipeline,
            binding,
            f"is declared {kind.name}, and was given {_shown(given)}; for an array pass np.array([...], "
            f"np.{dtype}) to a kernel, or device.buffer([...], {str(kind.dtype)!r}) to any dispatch",
        )
    if kind is None or not isinstance(given, (numbers.Number, np.generic, np.ndarray, Sequence)):
        wanted = (
            "bytes, since its type is a struct (for which a dict serves too), an array or a matrix"
            if kind is None
            else f"a {kind.name}"
        )
        raise _refusal(pipeline, binding, f"expects a buffer or {wanted}, not {_shown(given)}")
    try:
        return kind.pack(given, binding.size)
    except InvalidArgument as problem:
        raise _refusal(pipeline, binding, f"is declared {kind.name}: {problem}") from None

"""Binding: turns the arguments of a call into one checked, immutable `Dispatch`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import InvalidArgument
from ..hazards.ranges import BufferRange, MemRangeRole
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline
from .arguments import Out, argument, check_buffer, refuse_count
from .context import DeviceContext
from .dispatch import CapturedOpKind, Dispatch, Value
from .launch import Launch
from .textures import check_textures, split_textures

__all__ = ["bind", "require_device", "revalidate"]


def bind(
    device: DeviceContext,
    pipeline: Pipeline,
    args: Sequence[Any],
    launch: Launch,
    *,
    reads: Iterable[MlxBuffer] | None = None,
    writes: Iterable[MlxBuffer] | None = None,
    kind: CapturedOpKind = CapturedOpKind.Other,
    bound: Callable[[int], Value] = lambda slot: None,
) -> Dispatch:
    """Checks a call of `enc.dispatch` and returns it as a value; `bound` says what a slot holds if it is given None."""
    _require_own(device, pipeline)
    args, textures = split_textures(pipeline, args)
    if len(args) != len(pipeline.buffers):
        raise refuse_count(pipeline, args)
    values = [argument(pipeline, slot, given, bound, device.buffer) for slot, given in enumerate(args)]
    of_textures = check_textures(pipeline, textures)
    for each in (*values, *of_textures[0], *of_textures[1]):
        if isinstance(each, MlxBuffer):
            require_device(device, pipeline, each)
    by_signature = _touched(pipeline, args, values)
    said = [None if buffers is None else _named(buffers) for buffers in (reads, writes)]
    read, written = (
        (signature if named is None else named) + textures
        for signature, named, textures in zip(by_signature, said, of_textures, strict=True)
    )
    declared = dict.fromkeys(each for buffers in (*said, *of_textures) for each in buffers or ())
    src = tuple(BufferRange.from_buffer(each, MemRangeRole.Src) for each in read)
    dst = tuple(BufferRange.from_buffer(each, MemRangeRole.Dst) for each in written)
    return Dispatch(pipeline, tuple(values), launch, kind, src, dst, tuple(declared), textures)


def _touched(
    pipeline: Pipeline, args: Sequence[Any], values: Sequence[Value]
) -> tuple[list[MlxBuffer], list[MlxBuffer]]:
    """What the kernel reads and writes according to its signature; arguments marked `Out` are not read."""
    read, written = [], []
    for given, value, binding in zip(args, values, pipeline.buffers, strict=True):
        if isinstance(value, MlxBuffer) and binding is not None:
            if binding.reads and not isinstance(given, Out):
                read.append(value)
            if binding.writes:
                written.append(value)
    return read, written


def revalidate(device: DeviceContext, dispatch: Dispatch) -> None:
    """Raises if a recorded dispatch belongs to another device or uses memory that has been released."""
    pipeline = dispatch.pipeline
    _require_own(device, pipeline)
    for slot, value in enumerate(dispatch.values):
        if isinstance(value, MlxBuffer):
            check_buffer(pipeline, slot, value)
            require_device(device, pipeline, value)
    check_textures(pipeline, dispatch.textures)
    for buffer in dispatch.declared:
        buffer.allocation.require_live()


def require_device(device: DeviceContext, pipeline: Pipeline, buffer: MlxBuffer) -> None:
    """Raises if a buffer belongs to another device."""
    if buffer.allocation.residency is not device.residency:
        raise InvalidArgument(f"kernel {pipeline.label!r}: {buffer!r} belongs to another device")


def _require_own(device: DeviceContext, pipeline: Pipeline) -> None:
    if pipeline.device is not device.mtl:
        raise InvalidArgument(f"kernel {pipeline.label!r} was compiled for another device")


def _named(buffers: Iterable[MlxBuffer]) -> list[MlxBuffer]:
    """The buffers of `reads=` or `writes=`, checked; they need not be bound."""
    if not isinstance(buffers, Iterable):
        raise InvalidArgument(f"reads= and writes= take buffers and views, not {buffers!r}")
    named: list[MlxBuffer] = list((buffers,) if isinstance(buffers, MlxBuffer) else buffers)
    for each in named:
        if not isinstance(each, MlxBuffer):
            raise InvalidArgument(f"reads= and writes= take buffers and views, not {each!r}")
        each.allocation.require_live()
    return named

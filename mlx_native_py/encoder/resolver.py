"""From the arguments of a dispatch to what is bound at each slot, and to the bytes that are read and written."""

from __future__ import annotations

from collections.abc import Iterable
from struct import error as StructError
from typing import TYPE_CHECKING, Any

from ..errors import InvalidArgument
from ..hazards.ranges import Span
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import Pipeline
from .arguments import INLINE_LIMIT, Out, argument, foreign, refuse_count
from .compute_pass import ComputePass, Values
from .nodes import RecordedBinding

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["Resolver", "Values"]


class Resolver:
    """Checks arguments before anything is sent; plain buffers and numbers take the short way."""

    __slots__ = ("_device", "_mtl", "_residency", "captured", "opened")

    def __init__(self, device: MlxDevice) -> None:
        self._device = device
        self._mtl = device.mtl
        self._residency = device.residency
        self.opened: ComputePass
        self.captured: Values | None = None
        """What captured dispatches have left at each slot; None outside of capture mode."""

    def resolve(self, pipeline: Pipeline, args: tuple[Any, ...]) -> tuple[Values, list[Span], list[Span]]:
        """What to bind at each slot, what is read, what is written."""
        if pipeline.device is not self._mtl:
            self.own(pipeline)
        if len(args) != len(pipeline.specs):
            raise refuse_count(pipeline, args)
        values: Values = []
        read: list[Span] = []
        written: list[Span] = []
        residency = self._residency
        for spec, arg in zip(pipeline.specs, args, strict=True):
            kind = type(arg)
            if spec is None:
                self._convert(pipeline, arg, values, read, written)
            elif kind is MlxBuffer:
                size, misaligned, reading, writing, _ = spec
                home = arg.allocation
                if arg.nbytes < size or arg.offset & misaligned or home.released or (writing and home.readonly):
                    argument(pipeline, len(values), arg, None, self._spill)
                if home.residency is not residency:
                    raise foreign(pipeline, arg)
                values.append(arg)
                if reading:
                    read.append(arg.span)
                if writing:
                    written.append(arg.span)
            elif kind is Out and type(arg.buffer) is MlxBuffer and spec[3]:
                arg = arg.buffer
                home = arg.allocation
                if arg.nbytes < spec[0] or arg.offset & spec[1] or home.released or home.readonly:
                    argument(pipeline, len(values), arg, None, self._spill)
                if home.residency is not residency:
                    raise foreign(pipeline, arg)
                values.append(arg)
                written.append(arg.span)
            elif (kind is float or kind is int) and spec[4] is not None:
                try:
                    values.append(spec[4](arg))
                except (StructError, OverflowError):
                    self._convert(pipeline, arg, values, read, written)
            elif kind is bytes and spec[0] <= len(arg) <= INLINE_LIMIT and not spec[3]:
                values.append(arg)
            else:
                self._convert(pipeline, arg, values, read, written)
        return values, read, written

    def own(self, pipeline: Pipeline) -> None:
        """Refuses kernels of other devices."""
        if pipeline.device is not self._mtl:
            raise InvalidArgument(f"kernel {pipeline.label!r} was compiled for another device")

    def check(self, pipeline: Pipeline, slot: int, value: MlxBuffer) -> None:
        """A buffer that was bound once before."""
        argument(pipeline, slot, value, None, self._spill)
        if value.allocation.residency is not self._residency:
            raise foreign(pipeline, value)

    def spans(self, buffers: Iterable[MlxBuffer]) -> tuple[list[Span], tuple[MlxBuffer, ...]]:
        """Of what the caller says is touched, with the buffers; they need not be bound, so they are kept alive here."""
        found = []
        if not isinstance(buffers, Iterable):
            raise InvalidArgument(f"reads= and writes= take buffers and views, not {buffers!r}")
        for each in (buffers,) if isinstance(buffers, MlxBuffer) else buffers:
            if not isinstance(each, MlxBuffer):
                raise InvalidArgument(f"reads= and writes= take buffers and views, not {each!r}")
            each.allocation.require_live()
            self.opened.keep(each.allocation)
            found.append(each)
        return [each.span for each in found], tuple(found)

    def note(self, bindings: Iterable[RecordedBinding]) -> None:
        """What a captured dispatch leaves behind."""
        if self.captured is not None:
            for binding in bindings:
                self.captured[binding.slot] = binding.value

    def _convert(self, pipeline: Pipeline, arg: Any, values: Values, read: list[Span], written: list[Span]) -> None:
        """Whatever is not simply a buffer or a number."""
        slot = len(values)
        current = self.opened.bound(slot) if self.captured is None else self.captured[slot]
        value = argument(pipeline, slot, arg, current, self._spill)
        values.append(value)
        if isinstance(value, MlxBuffer):
            if value.allocation.residency is not self._residency:
                raise foreign(pipeline, value)
            binding = pipeline.buffers[slot]
            if binding is not None and binding.reads and not isinstance(arg, Out):
                read.append(value.span)
            if binding is not None and binding.writes:
                written.append(value.span)

    def _spill(self, data: bytes) -> MlxBuffer:
        return self._device.buffer(data)

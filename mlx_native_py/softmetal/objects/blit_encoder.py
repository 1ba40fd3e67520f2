"""The blit encoder: copies, fills, counter resolution and indirect command buffer management."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from .. import constants as c
from ..execution.command_buffer import CommandBufferState
from ..execution.commands import Blit, BlitPass
from ..misuse import InvalidValue, MetalMisuse
from ..values import NSRange, instance, natural, truth, whole, within
from .buffer import MTLBuffer
from .counters import ENTRY_BYTES, MTLCounterSampleBuffer
from .encoder import MTLCommandEncoder
from .indirect import MTLIndirectCommandBuffer
from .owned import Owned

STEP = 4  # macOS wants offsets and sizes of blits in words


def _part(buffer: Any, start: Any, length: Any, what: str) -> tuple[MTLBuffer, int, int]:
    """A checked range of a buffer."""
    target = instance(buffer, MTLBuffer, what)
    run = within((natural(start, f"{what} offset"), natural(length, "size")), target.length(), f"range of {what}")
    if run.location % STEP or run.length % STEP or not run.length:
        raise InvalidValue(
            f"range of {what} is ({run.location}, {run.length}): both must be multiples of {STEP}, the length not 0"
        )
    return target, run.location, run.length


class MTLBlitCommandEncoder(MTLCommandEncoder):
    """Runs its commands in encoding order."""

    _pass: BlitPass

    def __init__(self, owner: Owned, state: CommandBufferState, work: BlitPass) -> None:
        self._owner, self._buffer, self._pass = owner, state, work

    def setLabel_(self, label: str | None) -> None:
        super().setLabel_(label)
        self._pass.label = self._label

    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        self, source: MTLBuffer, source_offset: int, target: MTLBuffer, target_offset: int, size: int
    ) -> None:
        self._alive("copyFromBuffer")
        giver, start, length = _part(source, source_offset, size, "sourceBuffer")
        taker, place, _ = _part(target, target_offset, size, "destinationBuffer")
        first, second = giver.allocation.address + start, taker.allocation.address + place
        if first < second + length and second < first + length:
            raise InvalidValue(f"copy of {length} bytes from offset {start} to {place}: the ranges overlap")
        self._record(
            "copy",
            f"{length} bytes from {giver!r}+{start} to {taker!r}+{place}",
            (giver, taker),
            lambda: ctypes.memmove(second, first, length),
            (first, first + length),
            (second, second + length),
        )

    def fillBuffer_range_value_(self, buffer: MTLBuffer, run: tuple[int, int], value: int) -> None:
        """PyObjC types the value as a signed char: -128 to 127, where -1 is 0xFF."""
        self._alive("fillBuffer_range_value_")
        byte = whole(value, "value")
        if not -128 <= byte <= 127:
            raise InvalidValue(f"value {byte}: PyObjC takes a signed char, -128 to 127; pass {byte - 256} for {byte}")
        part = within(run, 1 << 62, "range")
        target, start, length = _part(buffer, part.location, part.length, "buffer")
        address = target.allocation.address + start
        self._record(
            "fill",
            f"{length} bytes of {target!r}+{start} with {byte & 0xFF}",
            (target,),
            lambda: ctypes.memset(address, byte & 0xFF, length),
            writes=(address, address + length),
        )

    def resolveCounters_inRange_destinationBuffer_destinationOffset_(
        self, samples: MTLCounterSampleBuffer, run: tuple[int, int], buffer: MTLBuffer, offset: int
    ) -> None:
        self._alive("resolveCounters")
        source = instance(samples, MTLCounterSampleBuffer, "sampleBuffer")
        part = within(run, source.sampleCount(), "range")
        target, start, length = _part(buffer, offset, part.length * ENTRY_BYTES, "destinationBuffer")
        address = target.allocation.address + start
        self._record(
            "resolve counters",
            f"{part.length} samples to {target!r}+{start}",
            (target,),
            lambda: ctypes.memmove(address, source.packed(part.location, part.length), length),
        )

    def optimizeIndirectCommandBuffer_withRange_(
        self, commands: MTLIndirectCommandBuffer, run: tuple[int, int]
    ) -> None:
        """Checks its arguments; the software has nothing to gain from it."""
        self._commands_part("optimizeIndirectCommandBuffer_withRange_", commands, run)

    def resetCommandsInBuffer_withRange_(self, commands: MTLIndirectCommandBuffer, run: tuple[int, int]) -> None:
        part = self._commands_part("resetCommandsInBuffer_withRange_", commands, run)
        self._record("reset commands", f"{part}", (), lambda: commands.resetWithRange_(part))

    def copyIndirectCommandBuffer_sourceRange_destination_destinationIndex_(
        self, source: MTLIndirectCommandBuffer, run: tuple[int, int], target: MTLIndirectCommandBuffer, index: int
    ) -> None:
        part = self._commands_part("copyIndirectCommandBuffer", source, run)
        place = natural(index, "destinationIndex")
        self._commands_part("copyIndirectCommandBuffer", target, (place, part.length))
        self._record(
            "copy commands",
            f"{part} to {place}",
            (),
            lambda: target.state.copy(source.state, part.location, part.length, place),
        )

    def sampleCountersInBuffer_atSampleIndex_withBarrier_(
        self, samples: MTLCounterSampleBuffer, index: int, barrier: bool
    ) -> None:
        self._alive("sampleCountersInBuffer")
        target = instance(samples, MTLCounterSampleBuffer, "sampleBuffer")
        place = target.place(index, "sampleIndex")
        truth(barrier, "withBarrier")
        if not self.device().supportsCounterSampling_(c.MTLCounterSamplingPointAtBlitBoundary):
            raise MetalMisuse(
                "sampleCountersInBuffer: this device does not sample at blit boundaries "
                "(on Metal the process dies here)"
            )
        self._record("sample", f"{place}", (), lambda: target.samples.__setitem__(place, time.monotonic_ns()))

    def synchronizeResource_(self, resource: MTLBuffer) -> None:
        self._alive("synchronizeResource_")
        if instance(resource, MTLBuffer, "resource").storageMode() != c.MTLStorageModeManaged:
            raise MetalMisuse(f"synchronizeResource_ of {resource!r}: only managed storage needs it")

    def _commands_part(self, call: str, commands: MTLIndirectCommandBuffer, run: tuple[int, int]) -> NSRange:
        self._alive(call)
        part = within(run, instance(commands, MTLIndirectCommandBuffer, "commands").size(), "range")
        self._buffer.retain(commands)
        return part

    def _record(
        self,
        name: str,
        detail: str,
        buffers: tuple[MTLBuffer, ...],
        perform: Callable[[], object],
        reads: tuple[int, int] | None = None,
        writes: tuple[int, int] | None = None,
    ) -> None:
        for buffer in buffers:
            self._buffer.retain(buffer)
        allocations = tuple(buffer.allocation for buffer in buffers)
        self._pass.blits.append(Blit(name, detail, allocations, perform, reads, writes))

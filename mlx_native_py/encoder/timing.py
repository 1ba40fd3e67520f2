"""GPU times of single dispatches, from counter samples."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..forks import Lock
from ..metal import Backend, Capabilities, ns_error
from ..profiling import kernel_profile
from ..profiling.kernel_profile import (
    DispatchEntry,
    Provenance,
    convert_gpu_ticks_to_ns,
    record_clock_pair,
    unsupported,
)
from .dispatch import Dispatched

if TYPE_CHECKING:
    from .ticket import Ticket

__all__ = ["SAMPLE_LIMIT", "SampleBuffers", "Samples"]

SAMPLE_LIMIT = 4096
"""The most samples that one MTLCounterSampleBuffer holds."""
_PAIRS = SAMPLE_LIMIT // 2
_READINGS, _CLOSE_NS = 8, 5_000


class SampleBuffers:
    """The counter sample buffers of a device, which are reused because a process may have only a few."""

    def __init__(self, backend: Backend, mtl: Any, able: Capabilities) -> None:
        self._backend = backend
        self._mtl = mtl
        self.in_pass = able.timestamp_counters and able.dispatch_boundary_sampling
        """Whether the device can sample inside a pass; otherwise each dispatch gets its own pass."""
        self.reason = ""
        """Why single dispatches cannot be timed."""
        if not able.timestamp_counters:
            self.reason = "the device has no timestamp counters"
        elif not self.in_pass and not able.stage_boundary_sampling:
            self.reason = "the device samples neither at dispatch nor at stage boundaries"
        self._lock = Lock()
        self._free: list[Any] = []

    def samples(self) -> Samples:
        """The samples of one command buffer."""
        if not self.reason:
            self.note_clock()
        return Samples(self)

    def take(self) -> tuple[Any, str]:
        """(sample buffer, "") or (None, why there is none)."""
        with self._lock:
            if self._free:
                return self._free.pop(), ""
        metal = self._backend.Metal
        wanted = str(metal.MTLCommonCounterSetTimestamp)
        counters = next(each for each in self._mtl.counterSets() if str(each.name()) == wanted)
        descriptor = metal.MTLCounterSampleBufferDescriptor.alloc().init()
        descriptor.setCounterSet_(counters)
        descriptor.setSampleCount_(SAMPLE_LIMIT)
        descriptor.setStorageMode_(metal.MTLStorageModeShared)
        descriptor.setLabel_("mlx_native.dispatch_samples")
        samples, error = self._mtl.newCounterSampleBufferWithDescriptor_error_(descriptor, None)
        return samples, "" if samples is not None else ns_error.reason(error)

    def give(self, buffers: Sequence[Any]) -> None:
        """Returns sample buffers for reuse."""
        with self._lock:
            self._free.extend(buffers)

    def note_clock(self) -> None:
        """Records a pair of CPU and GPU timestamps that are close together.

        The CPU clock is read before and after the GPU clock, and the closest of several readings is used, since the
        thread may be interrupted in between.
        """
        readings = []
        for _ in range(_READINGS):
            before = time.monotonic_ns()
            _, ticks = self._mtl.sampleTimestamps_gpuTimestamp_(None, None)
            apart = time.monotonic_ns() - before
            readings.append((apart, before + apart // 2, int(ticks)))
            if apart < _CLOSE_NS:
                break
        _, cpu, gpu = min(readings)
        record_clock_pair(cpu, gpu)

    def new_fence(self) -> Any:
        """A fence that keeps passes from overlapping, so that each one's time is its own."""
        return self._mtl.newFence()

    def pass_descriptor(self, dispatch_type: int, sample: tuple[Any, int] | None) -> Any:
        """The descriptor of a compute pass, sampled at its start and end."""
        metal = self._backend.Metal
        descriptor = metal.MTLComputePassDescriptor.computePassDescriptor()
        descriptor.setDispatchType_(dispatch_type)
        if sample is not None:
            attachment = descriptor.sampleBufferAttachments().objectAtIndexedSubscript_(0)
            attachment.setSampleBuffer_(sample[0])
            attachment.setStartOfEncoderSampleIndex_(sample[1])
            attachment.setEndOfEncoderSampleIndex_(sample[1] + 1)
        return descriptor


class Samples:
    """Two timestamp samples per dispatch of one command buffer."""

    def __init__(self, pool: SampleBuffers) -> None:
        self._pool = pool
        self._buffers: list[Any] = []
        self._count = 0
        self._reason = pool.reason
        self._fence: Any = None
        self.in_pass = pool.in_pass
        self.own_passes = not pool.in_pass and not pool.reason

    def next(self) -> tuple[Any, int] | None:
        """Where the next dispatch's two samples go; None if it cannot be sampled."""
        if self._reason:
            return None
        chunk, place = divmod(self._count, _PAIRS)
        if chunk == len(self._buffers):
            samples, self._reason = self._pool.take()
            if samples is None:
                return None
            self._buffers.append(samples)
        self._count += 1
        return self._buffers[chunk], 2 * place

    def next_pass(self, dispatch_type: int) -> Any:
        """The descriptor of a compute pass for one dispatch."""
        return self._pool.pass_descriptor(dispatch_type, self.next())

    def begin_dispatch(self, opened: Any) -> None:
        """Before the only dispatch of a pass: waits for the previous pass."""
        if self._fence is None:
            self._fence = self._pool.new_fence()
        else:
            opened.waitForFence_(self._fence)

    def end_dispatch(self, opened: Any) -> None:
        """After the only dispatch of a pass."""
        opened.updateFence_(self._fence)

    def finish(self, label: str, ticket: Ticket, source: Provenance, failed: bool) -> Provenance:
        """Records the times of a completed command buffer, and returns how they were obtained."""
        buffers, self._buffers = self._buffers, []
        try:
            if failed:
                return unsupported("the command buffer failed")
            if buffers:
                self._pool.note_clock()
                self._read(label, ticket, source, buffers)
        finally:
            self._pool.give(buffers)
        return unsupported(self._reason) if self._reason else source

    def _read(self, label: str, ticket: Ticket, source: Provenance, buffers: Sequence[Any]) -> None:
        dispatches = ticket.dispatches
        for chunk, buffer in enumerate(buffers):
            count = min(_PAIRS, self._count - chunk * _PAIRS)
            raw = bytes(buffer.resolveCounterRange_((0, 2 * count)) or b"")
            ticks = struct.unpack(f"<{len(raw) // 8}Q", raw)
            for place in range(len(ticks) // 2):
                dispatch = dispatches[chunk * _PAIRS + place]
                start, end = ticks[2 * place], ticks[2 * place + 1]
                entry = _entry(label, ticket.sequence, dispatch, start, end, source)
                kernel_profile.record_dispatch(entry)
                if ticket.notes is not None:
                    ticket.notes.dispatches.append(entry)


def _entry(label: str, sequence: int, dispatch: Dispatched, start: int, end: int, source: Provenance) -> DispatchEntry:
    index, kind, kernel = dispatch.index, dispatch.kind.value, dispatch.pipeline.label
    # Zero was never written; all ones is Metal's value for a failed sample.
    if start in (0, 2**64 - 1) or end in (0, 2**64 - 1):
        return DispatchEntry(label, kind, index, 0, 0, 0, kernel, sequence, unsupported("the GPU took no sample"))
    begin, finish = convert_gpu_ticks_to_ns(start), convert_gpu_ticks_to_ns(end)
    return DispatchEntry(label, kind, index, max(0, finish - begin), begin, finish, kernel, sequence, source)

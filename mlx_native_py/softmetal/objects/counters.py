"""Counter sets and timestamp sample buffers."""

from __future__ import annotations

import struct

from .. import constants as c
from ..execution.device import MOST_SAMPLE_BUFFERS
from ..misuse import InvalidValue, MetalMisuse
from ..values import instance, maybe, natural, optional_text, within
from .base import Descriptor, NSObject, attribute
from .foundation import NSArray, NSData, NSError
from .owned import DeviceObject, Owned

ENTRY_BYTES = 8
MOST_BYTES = 32768


class MTLCounter(NSObject):
    """One quantity that a counter set measures."""

    def name(self) -> str:
        return c.MTLCommonCounterTimestamp


class MTLCounterSet(NSObject):
    """The timestamp counter set, the only one."""

    def name(self) -> str:
        return c.MTLCommonCounterSetTimestamp

    def counters(self) -> NSArray[MTLCounter]:
        return NSArray((MTLCounter(),))


class MTLCounterSampleBufferDescriptor(Descriptor):
    """The counter set and the number of samples."""

    label, setLabel_ = attribute("label", optional_text, None)
    counterSet, setCounterSet_ = attribute("counterSet", maybe(MTLCounterSet), None)
    sampleCount, setSampleCount_ = attribute("sampleCount", natural, 0)
    storageMode, setStorageMode_ = attribute("storageMode", natural, c.MTLStorageModeShared)


class MTLCounterSampleBuffer(Owned):
    """Timestamps in nanoseconds; zero if not sampled."""

    def __init__(self, device: DeviceObject, descriptor: MTLCounterSampleBufferDescriptor) -> None:
        super().__init__(device)
        self._label = descriptor.label()
        self._private = descriptor.storageMode() == c.MTLStorageModePrivate
        self.samples = [0] * descriptor.sampleCount()

    def label(self) -> str | None:
        return self._label

    def sampleCount(self) -> int:
        return len(self.samples)

    def resolveCounterRange_(self, span: tuple[int, int]) -> NSData | None:
        run = within(span, len(self.samples), "range")
        if self._private:
            raise MetalMisuse(f"resolveCounterRange_ of {self!r}: the CPU cannot see private storage; resolve by blit")
        return NSData(self.packed(run.location, run.length))

    def packed(self, first: int, count: int) -> bytes:
        """Samples as they lie in memory."""
        return struct.pack(f"<{count}Q", *self.samples[first : first + count])

    def place(self, index: int, what: str) -> int:
        """A checked index of a sample."""
        place = natural(index, what)
        if place >= len(self.samples):
            raise InvalidValue(f"{what} {place}: {self!r} has {len(self.samples)} samples")
        return place


def counter_error(code: int, message: str) -> NSError:
    return NSError(c.MTLCounterErrorDomain, code, message)


def new_sample_buffer(
    device: DeviceObject,
    descriptor: MTLCounterSampleBufferDescriptor,
) -> tuple[MTLCounterSampleBuffer | None, NSError | None]:
    """A sample buffer, within the limits of real devices."""
    asked = instance(descriptor, MTLCounterSampleBufferDescriptor, "descriptor")
    length = asked.sampleCount() * ENTRY_BYTES
    if asked.counterSet() is None:
        return None, counter_error(c.MTLCounterSampleBufferErrorInvalid, "Descriptor has no counter set")
    if not ENTRY_BYTES <= length <= MOST_BYTES:
        return None, counter_error(
            c.MTLCounterSampleBufferErrorInvalid,
            f"Invalid sample buffer length: {length} B. Expected range: {ENTRY_BYTES} -> {MOST_BYTES}",
        )
    if asked.storageMode() not in (c.MTLStorageModeShared, c.MTLStorageModePrivate):
        return None, counter_error(c.MTLCounterSampleBufferErrorInvalid, "Storage mode must be shared or private")
    buffer = MTLCounterSampleBuffer(device, asked)
    if not device.state.count_sample_buffer(buffer):
        return None, counter_error(
            c.MTLCounterSampleBufferErrorOutOfMemory, f"Cannot allocate sample buffer: {MOST_SAMPLE_BUFFERS} are alive"
        )
    return buffer, None

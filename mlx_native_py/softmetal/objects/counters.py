"""Counter sets and the buffers that timestamps are sampled into."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from .. import constants as c
from ..misuse import InvalidValue, MetalMisuse
from .base import Descriptor, NSObject, attribute
from .foundation import NSArray, NSData, NSError
from .values import instance, maybe, natural, optional_text, within

if TYPE_CHECKING:
    from .device import MTLDevice

ENTRY_BYTES = 8
MOST_BYTES = 32768
MOST_BUFFERS = 32


class MTLCounter(NSObject):
    """One quantity that a counter set measures."""

    def name(self) -> str:
        return c.MTLCommonCounterTimestamp


class MTLCounterSet(NSObject):
    """The set of timestamps, the only one there is."""

    def name(self) -> str:
        return c.MTLCommonCounterSetTimestamp

    def counters(self) -> NSArray[MTLCounter]:
        return NSArray((MTLCounter(),))


class MTLCounterSampleBufferDescriptor(Descriptor):
    """How many samples of which set."""

    label, setLabel_ = attribute("label", optional_text, None)
    counterSet, setCounterSet_ = attribute("counterSet", maybe(MTLCounterSet), None)
    sampleCount, setSampleCount_ = attribute("sampleCount", natural, 0)
    storageMode, setStorageMode_ = attribute("storageMode", natural, c.MTLStorageModeShared)


class MTLCounterSampleBuffer(NSObject):
    """Timestamps in nanoseconds; zero where nothing has been sampled."""

    def __init__(self, device: MTLDevice, descriptor: MTLCounterSampleBufferDescriptor) -> None:
        self._device = device
        self._label = descriptor.label()
        self._private = descriptor.storageMode() == c.MTLStorageModePrivate
        self._samples = [0] * descriptor.sampleCount()

    def device(self) -> MTLDevice:
        return self._device

    def label(self) -> str | None:
        return self._label

    def sampleCount(self) -> int:
        return len(self._samples)

    def resolveCounterRange_(self, span: tuple[int, int]) -> NSData | None:
        run = within(span, len(self._samples), "range")
        if self._private:
            raise MetalMisuse(f"resolveCounterRange_ of {self!r}: the CPU cannot see private storage; resolve by blit")
        return NSData(self._bytes(run.location, run.length))

    def _bytes(self, first: int, count: int) -> bytes:
        return struct.pack(f"<{count}Q", *self._samples[first : first + count])

    def _check(self, index: int, what: str) -> int:
        place = natural(index, what)
        if place >= len(self._samples):
            raise InvalidValue(f"{what} {place}: {self!r} has {len(self._samples)} samples")
        return place

    def __del__(self) -> None:
        if sys is not None and not sys.is_finalizing() and "_samples" in self.__dict__:
            self._device._count_sample_buffer(-1)


def counter_error(code: int, message: str) -> NSError:
    return NSError(c.MTLCounterErrorDomain, code, message)


def new_sample_buffer(
    device: MTLDevice,
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
    if not device._count_sample_buffer(1):
        return None, counter_error(
            c.MTLCounterSampleBufferErrorOutOfMemory, f"Cannot allocate sample buffer: {MOST_BUFFERS} are alive"
        )
    return MTLCounterSampleBuffer(device, asked), None

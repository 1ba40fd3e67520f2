"""Descriptors of compute passes and their counter samples."""

from __future__ import annotations

from typing import Any

from .. import constants as c
from ..execution.passes import Attachment, Pass
from ..misuse import InvalidValue, MetalMisuse
from ..values import instance, maybe, natural
from .base import Descriptor, NSObject, attribute
from .counters import MTLCounterSampleBuffer
from .owned import DeviceObject


class MTLComputePassSampleBufferAttachmentDescriptor(Descriptor):
    """Where the start and the end of a pass are sampled."""

    sampleBuffer, setSampleBuffer_ = attribute("sampleBuffer", maybe(MTLCounterSampleBuffer), None)
    startOfEncoderSampleIndex, setStartOfEncoderSampleIndex_ = attribute("startOfEncoderSampleIndex", natural, 0)
    endOfEncoderSampleIndex, setEndOfEncoderSampleIndex_ = attribute("endOfEncoderSampleIndex", natural, 0)


class MTLComputePassSampleBufferAttachmentDescriptorArray(NSObject):
    """The attachments of one pass."""

    def __init__(self) -> None:
        self.items = [MTLComputePassSampleBufferAttachmentDescriptor() for _ in range(c.MTLMaxComputePassSampleBuffers)]

    def objectAtIndexedSubscript_(self, index: int) -> MTLComputePassSampleBufferAttachmentDescriptor:
        return self.items[self._place(index)]

    def setObject_atIndexedSubscript_(self, item: Any, index: int) -> None:
        attachment = MTLComputePassSampleBufferAttachmentDescriptor()
        if item is not None:
            attachment = instance(item, MTLComputePassSampleBufferAttachmentDescriptor, "attachment").copy()
        self.items[self._place(index)] = attachment

    def _place(self, index: int) -> int:
        place = natural(index, "index")
        if place >= len(self.items):
            raise InvalidValue(f"attachment {place}: a compute pass has {len(self.items)}")
        return place


def _dispatch_type(value: Any, what: str) -> int:
    kind = natural(value, what)
    if kind > c.MTLDispatchTypeConcurrent:
        raise InvalidValue(f"{what} {kind}: expected serial (0) or concurrent (1)")
    return kind


class MTLComputePassDescriptor(Descriptor):
    """How a compute pass orders its dispatches and what it samples."""

    def __init__(self) -> None:
        self._attachments = MTLComputePassSampleBufferAttachmentDescriptorArray()

    dispatchType, setDispatchType_ = attribute("dispatchType", _dispatch_type, c.MTLDispatchTypeSerial)

    @classmethod
    def computePassDescriptor(cls) -> MTLComputePassDescriptor:
        return cls()

    def sampleBufferAttachments(self) -> MTLComputePassSampleBufferAttachmentDescriptorArray:
        return self._attachments


def _attachment(described: MTLComputePassSampleBufferAttachmentDescriptor) -> Attachment | None:
    buffer = described.sampleBuffer()
    if buffer is None:
        return None
    start, end = described.startOfEncoderSampleIndex(), described.endOfEncoderSampleIndex()
    return Attachment(
        buffer.samples,
        None if start == c.MTLCounterDontSample else buffer.place(start, "startOfEncoderSampleIndex"),
        None if end == c.MTLCounterDontSample else buffer.place(end, "endOfEncoderSampleIndex"),
    )


def open_pass(descriptor: MTLComputePassDescriptor, device: DeviceObject) -> Pass:
    """A pass as described now."""
    described = map(_attachment, descriptor.sampleBufferAttachments().items)
    attachments = tuple(each for each in described if each is not None)
    if attachments and not device.supportsCounterSampling_(c.MTLCounterSamplingPointAtStageBoundary):
        raise MetalMisuse("a pass with sample attachments: this device does not sample at stage boundaries")
    return Pass(descriptor.dispatchType() == c.MTLDispatchTypeConcurrent, attachments)

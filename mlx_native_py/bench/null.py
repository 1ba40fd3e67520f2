"""Fake queues whose messages cost almost nothing or are counted, to measure Python's own work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ..device import MlxDevice

__all__ = ["counting_device", "free_device"]

_COMPLETED = 4  # MTLCommandBufferStatusCompleted
_ENCODER: dict[str, Callable[..., Any]] = {
    # Builtin methods that take as many arguments as the message and do nothing with them.
    "setComputePipelineState_": {}.get,
    "setBufferOffset_atIndex_": {}.get,
    "dispatchThreads_threadsPerThreadgroup_": {}.get,
    "dispatchThreadgroups_threadsPerThreadgroup_": {}.get,
    "setThreadgroupMemoryLength_atIndex_": {}.get,
    "memoryBarrierWithScope_": {}.get,
    "setBuffer_offset_atIndex_": "".format,
    "setBytes_length_atIndex_": "".format,
    "useResources_count_usage_": "".format,
    "executeCommandsInBuffer_withRange_": "".format,
}


class _Encoder:
    """Stands in for an MTLComputeCommandEncoder."""

    def __init__(self, method: Callable[[str], Callable[..., Any]]) -> None:
        for name in _ENCODER:
            setattr(self, name, method(name))

    def endEncoding(self) -> None: ...

    def setLabel_(self, _: str) -> None: ...


class _Commands:
    """Stands in for an MTLCommandBuffer that completes when committed."""

    def __init__(self, encoder: Callable[[], _Encoder]) -> None:
        self._encoder = encoder

    def computeCommandEncoderWithDispatchType_(self, _: int) -> _Encoder:
        return self._encoder()

    def status(self) -> int:
        return _COMPLETED

    def error(self) -> None:
        return None

    def GPUStartTime(self) -> float:
        return 0.0

    GPUEndTime = GPUStartTime

    def waitUntilCompleted(self) -> None: ...

    def commit(self) -> None: ...

    def setLabel_(self, _: str) -> None: ...

    def encodeSignalEvent_value_(self, event: Any, value: int) -> None:
        event.setSignaledValue_(value)


class _Queue:
    def __init__(self, encoder: Callable[[], _Encoder]) -> None:
        self._encoder = encoder

    def commandBuffer(self) -> _Commands:
        return _Commands(self._encoder)

    commandBufferWithUnretainedReferences = commandBuffer


def free_device(device: MlxDevice) -> MlxDevice:
    """Another device on the same Metal whose encoders do nothing."""
    other = MlxDevice(device.backend)
    shared = _Encoder(_ENCODER.__getitem__)
    other.queue = _Queue(lambda: shared)
    return other


def counting_device(device: MlxDevice) -> tuple[MlxDevice, Counter[str]]:
    """Another device on the same Metal whose encoders count messages by name."""
    other, counts = MlxDevice(device.backend), Counter[str]()

    def counted(name: str) -> Callable[..., Any]:
        def message(*_: Any) -> None:
            counts[name] += 1

        return message

    other.queue = _Queue(lambda: _Encoder(counted))
    return other, counts

"""Compiles one MSL source and times its kernels on a device through Metal's selectors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import MlxError
from ..metal import Backend
from ..pipelines.compile_options import CompileOptions

__all__ = ["Rig"]

Size = tuple[int, int, int]


class Rig:
    """A device, a queue and the pipelines of one source."""

    def __init__(self, backend: Backend, source: str) -> None:
        self.device = backend.default_device()
        self.queue = self.device.newCommandQueue()
        options = CompileOptions().mtl(backend, backend.capabilities(self.device))
        self.library = _value(self.device.newLibraryWithSource_options_error_(source, options, None))
        self._pipelines: dict[str, Any] = {}

    def buffer(self, array: NDArray[Any]) -> Any:
        """A shared buffer with the bytes of `array`."""
        buffer = self.device.newBufferWithLength_options_(array.nbytes, 0)
        buffer.contents().as_buffer(array.nbytes)[:] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        return buffer

    def read(self, buffer: Any, dtype: Any) -> NDArray[Any]:
        """The contents of `buffer`, copied."""
        return np.frombuffer(bytes(buffer.contents().as_buffer(buffer.length())), dtype)

    def pipeline(self, name: str) -> Any:
        """The pipeline of kernel `name`, compiled once."""
        if name not in self._pipelines:
            function = self.library.newFunctionWithName_(name)
            self._pipelines[name] = _value(self.device.newComputePipelineStateWithFunction_error_(function, None))
        return self._pipelines[name]

    def settled(self, name: str) -> bool:
        """Whether the software device will run kernel `name` as it does now; other devices never change."""
        answer = getattr(self.pipeline(name), "soft_settled", None)
        return answer is None or bool(answer())

    def run(self, name: str, arguments: Sequence[Any], threads: Size, group: Size) -> float:
        """Runs kernel `name` once and returns its GPU time in seconds."""
        commands = self.queue.commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(self.pipeline(name))
        for slot, argument in enumerate(arguments):
            if isinstance(argument, np.generic):
                encoder.setBytes_length_atIndex_(argument.tobytes(), argument.nbytes, slot)
            else:
                encoder.setBuffer_offset_atIndex_(argument, 0, slot)
        encoder.dispatchThreads_threadsPerThreadgroup_(threads, group)
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        if commands.error() is not None:
            raise MlxError(f"{name}: {commands.error().localizedDescription()}")
        return float(commands.GPUEndTime() - commands.GPUStartTime())

    def median(self, name: str, arguments: Sequence[Any], threads: Size, group: Size, rounds: int) -> float:
        """The median GPU time of `rounds` runs, after one that is not counted."""
        self.run(name, arguments, threads, group)
        return statistics.median(self.run(name, arguments, threads, group) for _ in range(rounds))

    def per_thread_ns(self, name: str, output: Any, threads: int, group: int, rounds: int) -> float:
        """What one of many loop rounds costs a thread, on one core: the slope between two round counts."""
        few, many = np.uint32(50), np.uint32(450)
        times = [self.median(name, [output, n], (threads, 1, 1), (group, 1, 1), rounds) for n in (few, many)]
        return (times[1] - times[0]) / (int(many) - int(few)) / threads * 1e9


def _value(result: tuple[Any, Any]) -> Any:
    value, error = result
    if value is None:
        raise MlxError(str(error.localizedDescription()))
    return value

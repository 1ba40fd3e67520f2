"""The same workloads on PoCL, if pyopencl and pocl-binary-distribution are installed."""

from __future__ import annotations

import importlib
import statistics
import time
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .works import KernelWork

__all__ = ["Pocl", "open_pocl"]


class Pocl:
    """A PoCL device with the workloads' kernels in OpenCL C."""

    def __init__(self, cl: Any, device: Any) -> None:
        self._cl = cl
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        self._program = cl.Program(self._context, resources.files(__package__).joinpath("pocl.cl").read_text()).build()
        self._kernels = {kernel.function_name for kernel in self._program.all_kernels()}

    def run(self, work: KernelWork, rounds: int) -> tuple[float, NDArray[np.float32]] | None:
        """The median milliseconds after a warm-up round, and the result; None without such a kernel."""
        if work.kernel not in self._kernels:
            return None
        flags = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.COPY_HOST_PTR
        arguments = [
            self._cl.Buffer(self._context, flags, hostbuf=np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a
            for a in work.arguments
        ]
        kernel = self._cl.Kernel(self._program, work.kernel)
        kernel.set_args(*arguments)
        times = [self._time(kernel, work) for _ in range(rounds + 1)]
        result = np.empty_like(work.arguments[work.output])
        self._cl.enqueue_copy(self._queue, result, arguments[work.output])
        return statistics.median(times[1:]) * 1e3, result

    def adding(self, size: int) -> Callable[[], object]:
        """A function that enqueues an addition of `size` numbers and waits for it."""
        flags, zeros = self._cl.mem_flags.READ_WRITE | self._cl.mem_flags.COPY_HOST_PTR, np.zeros(size, np.float32)
        buffers = [self._cl.Buffer(self._context, flags, hostbuf=zeros) for _ in range(3)]
        kernel = self._cl.Kernel(self._program, "add")

        def call() -> None:
            kernel(self._queue, (size,), None, *buffers)
            self._queue.finish()

        return call

    def _time(self, kernel: Any, work: KernelWork) -> float:
        start = time.perf_counter()
        self._cl.enqueue_nd_range_kernel(self._queue, kernel, work.threads, work.group).wait()
        return time.perf_counter() - start


def open_pocl() -> Pocl | None:
    """The PoCL device, or None."""
    try:
        cl: Any = importlib.import_module("pyopencl")
        platforms = cl.get_platforms()
    except Exception:  # without a driver the loader raises errors of its own
        return None
    for platform in platforms:
        if "Portable Computing Language" in platform.name:
            return Pocl(cl, platform.get_devices()[0])
    return None

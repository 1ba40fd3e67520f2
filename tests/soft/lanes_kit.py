"""Runs kernels on a chosen engine, and compares engines with each other."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlx_native_py import settings
from mlx_native_py import softmetal as Metal

Array = NDArray[Any]
Size = tuple[int, int, int]
ROOT = Path(__file__).parents[2]
HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
_unique = itertools.count()


@functools.cache
def device(engine: Any, checked: bool = False, watchdog_seconds: float = 20.0, cpu: str = "") -> Any:
    """A device for one engine, with the cache and, unless another is given, the instruction set of the settings."""
    now = settings.current()
    return Metal.open_device(
        Metal.SoftOptions(
            engine=engine,
            cpu=cpu or now.soft_cpu,
            cache_directory=now.kernel_cache,
            checked=checked,
            watchdog_seconds=watchdog_seconds,
        )
    )


EVERY = [(engine, False) for engine in ("flat", "fibers", "lanes", "auto")] + [("fibers", True)]
"""Each engine, and the one of checked mode with it."""


def fresh(source: str) -> str:
    """The same program as one that nobody has compiled before."""
    return f"{source}\n// {os.getpid()} {time.monotonic_ns()} {next(_unique)}\n"


def pipeline(source: str, on: Any, *, safe: bool = False) -> Any:
    """The kernel `k`; `safe` rounds every operation by itself."""
    options = Metal.MTLCompileOptions.alloc().init()
    if safe:
        options.setMathMode_(Metal.MTLMathModeSafe)
    library, error = on.newLibraryWithSource_options_error_(HEAD + source, options, None)
    assert library is not None, error
    state, error = on.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_("k"), None)
    assert state is not None, error
    return state


def launch(state: Any, arrays: Sequence[Array], threads: Size, group: Size) -> tuple[list[Array], Any]:
    """Runs a pipeline once; what the kernel left in the arrays, and the command buffer."""
    on = state.device()
    commands = on.newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    buffers = []
    for slot, array in enumerate(arrays):
        buffer = on.newBufferWithLength_options_(array.nbytes, 0)
        buffer.contents().as_buffer(array.nbytes)[:] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        encoder.setBuffer_offset_atIndex_(buffer, 0, slot)
        buffers.append(buffer)
    encoder.dispatchThreads_threadsPerThreadgroup_(threads, group)
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    raw = [bytes(buffer.contents().as_buffer(buffer.length())) for buffer in buffers]
    return [np.frombuffer(data, array.dtype) for data, array in zip(raw, arrays, strict=True)], commands


def run(
    source: str, arrays: Sequence[Array], threads: Size, group: Size, engine: str = "lanes", *, safe: bool = False
) -> list[Array]:
    """Runs a program that must succeed, and on lanes if that was asked for; flat serves where no thread waits."""
    state = pipeline(source, device(engine), safe=safe)
    left, commands = launch(state, arrays, threads, group)
    assert commands.error() is None, commands.error().localizedDescription()
    assert engine != "lanes" or state.soft_engine() == "lanes", state.soft_declined()
    return left


def compare(
    source: str, arrays: Sequence[Array], threads: Size, group: Size, engines: Sequence[str] = ("lanes", "fibers")
) -> list[Array]:
    """The same on each engine, bit by bit."""
    first, *others = (run(source, arrays, threads, group, engine) for engine in engines)
    for left, engine in zip(others, engines[1:], strict=True):
        for mine, theirs in zip(first, left, strict=True):
            np.testing.assert_array_equal(mine.view(np.uint8), theirs.view(np.uint8), err_msg=engine)
    return first

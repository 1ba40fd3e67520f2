"""Runs small programs on a checked software device."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .checked_programs import Address, Part, Program


@functools.cache
def device(schedule: str = "ordered") -> Any:
    """A device in checked mode."""
    from mlx_native_py.softmetal.objects.device import MTLDevice
    from mlx_native_py.softmetal.options import SoftOptions

    return MTLDevice(SoftOptions(checked=True, schedule=schedule))


@functools.cache
def pipeline(source: str, kernel: str) -> Any:
    library, error = device().newLibraryWithSource_options_error_(source, None, None)
    assert library is not None, error.localizedDescription()
    state, error = device().newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(kernel), None)
    assert state is not None, error.localizedDescription()
    return state


def buffer(array: Any, label: str = "") -> Any:
    data = np.ascontiguousarray(array)
    memory = device().newBufferWithLength_options_(data.nbytes, 0)
    memory.contents().as_buffer(data.nbytes)[:] = data.tobytes()
    if label:
        memory.setLabel_(label)
    return memory


def contents(made: Any, kind: Any) -> Any:
    return np.frombuffer(bytes(made.contents().as_buffer(made.length())), kind)


def bind(encoder: Any, args: Sequence[Any]) -> list[Any]:
    """Binds arguments by position; the buffers that they became."""
    made = []
    for slot, value in enumerate(args):
        if isinstance(value, Address):
            target = buffer(value.array)
            made.append(target)
            if value.resident:
                encoder.useResource_usage_(target, 1)
            value = struct.pack("Q", target.gpuAddress())
        if isinstance(value, bytes | np.generic):
            raw = value if isinstance(value, bytes) else value.tobytes()
            encoder.setBytes_length_atIndex_(raw, len(raw), slot)
            continue
        part = value if isinstance(value, Part) else Part(value)
        made.append(buffer(part.array))
        encoder.setBuffer_offset_atIndex_(made[-1], part.offset, slot)
    return made


def submit(program: Program, source: str) -> Any:
    """The command buffer of one dispatch, committed."""
    state = pipeline(source, "k")
    commands = device().newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    bind(encoder, program.args)
    for slot, length in enumerate(program.shared):
        encoder.setThreadgroupMemoryLength_atIndex_(length, slot)
    encoder.dispatchThreads_threadsPerThreadgroup_((program.threads, 1, 1), (program.group, 1, 1))
    encoder.endEncoding()
    commands.commit()
    return commands

"""Runs MSL source on the software device through Metal's selectors, numpy arrays in and out."""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from mlx_native_py.metal import open_metal

Metal: Any = open_metal("soft").Metal

Array = NDArray[Any]
Size = int | tuple[int, ...]

# MTLDataType by dtype and number of components.
_DATA_TYPES = {
    "float32": 3,
    "float16": 16,
    "int32": 29,
    "uint32": 33,
    "int16": 37,
    "uint16": 41,
    "int8": 45,
    "uint8": 49,
    "bool": 53,
    "int64": 81,
    "uint64": 85,
    "bfloat16": 121,
}
_MESSAGE = re.compile(
    r"^(?P<file>[^\n:]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<text>.*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Rejection:
    """One error of the compiler at a line of the source."""

    file: str
    line: int
    text: str


class Rejected(Exception):
    """The source did not compile."""

    def __init__(self, description: str) -> None:
        super().__init__(description)
        self.errors = [Rejection(m["file"], int(m["line"]), m["text"]) for m in _MESSAGE.finditer(description)]


class RunFailed(Exception):
    """The command buffer ended with an error."""


@functools.cache
def device(checked: bool = False) -> Any:
    """The software device as the settings describe it; with `checked`, one that watches every access of a kernel."""
    if checked:
        return Metal.open_device(Metal.SoftOptions(checked=True))
    return Metal.MTLCreateSystemDefaultDevice()


@functools.lru_cache(maxsize=64)
def library(
    source: str,
    macros: tuple[tuple[str, str], ...] = (),
    math_mode: int | None = None,
    checked: bool = False,
    language: int | None = None,
) -> Any:
    """The compiled library; raises Rejected."""
    options = Metal.MTLCompileOptions.alloc().init()
    if language is not None:
        options.setLanguageVersion_(language)
    if macros:
        options.setPreprocessorMacros_(dict(macros))
    if math_mode is not None:
        options.setMathMode_(math_mode)
    result, error = device(checked).newLibraryWithSource_options_error_(source, options, None)
    if result is None:
        raise Rejected(str(error.localizedDescription()))
    return result


def rejections(source: str, kernel: str | None = None, language: int | None = None) -> list[Rejection]:
    """What the compiler has against `source` (and, when named, against building `kernel`)."""
    try:
        compiled = library(source, language=language)
        if kernel is not None:
            _pipeline(compiled, kernel, None, False)
    except Rejected as refusal:
        return refusal.errors
    return []


def _constant_values(constants: Mapping[int | str, Any]) -> Any:
    values = Metal.MTLFunctionConstantValues.alloc().init()
    for key, value in constants.items():
        data = np.atleast_1d(np.asarray(value))
        kind = _DATA_TYPES[data.dtype.name] + data.size - 1
        if data.size == 3:
            data = np.append(data, data[:1])
        raw = ctypes.create_string_buffer(data.tobytes())
        if isinstance(key, str):
            values.setConstantValue_type_withName_(ctypes.addressof(raw), kind, key)
        else:
            values.setConstantValue_type_atIndex_(ctypes.addressof(raw), kind, key)
    return values


def _pipeline(compiled: Any, kernel: str, constants: Mapping[int | str, Any] | None, checked: bool) -> Any:
    if constants is None:
        function, error = compiled.newFunctionWithName_(kernel), None
    else:
        values = _constant_values(constants)
        function, error = compiled.newFunctionWithName_constantValues_error_(kernel, values, None)
    if function is None:
        raise Rejected(f"no kernel {kernel}" if error is None else str(error.localizedDescription()))
    state, error = device(checked).newComputePipelineStateWithFunction_error_(function, None)
    if state is None:
        raise Rejected(str(error.localizedDescription()))
    return state


def pipeline(source: str, kernel: str, constants: Mapping[int | str, Any] | None = None) -> Any:
    """The pipeline state of one kernel; raises Rejected."""
    return _pipeline(library(source), kernel, constants, False)


def buffer_of(array: Array, *, checked: bool = False) -> Any:
    """A shared buffer with the bytes of `array`."""
    data = np.ascontiguousarray(array)
    buffer = device(checked).newBufferWithLength_options_(max(data.nbytes, 1), 0)
    if data.nbytes:
        buffer.contents().as_buffer(data.nbytes)[:] = data.tobytes()
    return buffer


def _read_back(made: Any, like: Array) -> Array:
    raw = bytes(made.contents().as_buffer(like.nbytes)) if like.nbytes else b""
    return np.frombuffer(raw, dtype=like.dtype).reshape(like.shape).copy()


def _size(value: Size) -> tuple[int, int, int]:
    whole = (value,) if isinstance(value, int) else value
    return (*whole, 1, 1, 1)[:3]  # type: ignore[return-value]


def run(
    source: str,
    kernel: str,
    *args: Any,
    threads: Size | None = None,
    threadgroups: Size | None = None,
    group: Size = 32,
    constants: Mapping[int | str, Any] | None = None,
    shared: Sequence[int] = (),
    macros: Mapping[str, str] | None = None,
    math_mode: int | None = None,
    checked: bool = False,
    resident: Sequence[Any] = (),
) -> list[Array]:
    """Dispatches `kernel` once and returns every array argument as the kernel left it.

    Arrays become buffers, numpy scalars and bytes inline data, Metal buffers are bound as they are, None is left out.
    `resident` are the buffers that the kernel reaches by address.
    """
    compiled = library(source, tuple((macros or {}).items()), math_mode, checked)
    state = _pipeline(compiled, kernel, constants, checked)
    queue = device(checked).newCommandQueue()
    commands = queue.commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(state)
    outputs = _bind(encoder, args, checked)
    for made in resident:
        encoder.useResource_usage_(made, Metal.MTLResourceUsageRead | Metal.MTLResourceUsageWrite)
    for slot, length in enumerate(shared):
        encoder.setThreadgroupMemoryLength_atIndex_(length, slot)
    if threads is not None:
        encoder.dispatchThreads_threadsPerThreadgroup_(_size(threads), _size(group))
    elif threadgroups is not None:
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(_size(threadgroups), _size(group))
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    if commands.error() is not None:
        raise RunFailed(str(commands.error().localizedDescription()))
    return [_read_back(made, like) for made, like in outputs]


def _bind(encoder: Any, args: Sequence[Any], checked: bool) -> list[tuple[Any, Array]]:
    outputs = []
    for slot, value in enumerate(args):
        if isinstance(value, np.ndarray):
            made = buffer_of(value, checked=checked)
            outputs.append((made, value))
            encoder.setBuffer_offset_atIndex_(made, 0, slot)
        elif isinstance(value, np.generic | bytes):
            raw = bytes(value) if isinstance(value, bytes) else value.tobytes()
            encoder.setBytes_length_atIndex_(raw, len(raw), slot)
        elif value is not None:
            encoder.setBuffer_offset_atIndex_(value, 0, slot)
    return outputs


def groups_for(threads: int, group: int) -> int:
    """How many threadgroups of `group` cover `threads`."""
    return math.ceil(threads / group)


BFLOAT = np.dtype(ml_dtypes.bfloat16)

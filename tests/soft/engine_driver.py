"""Compiles hand-written kernels against the headers and runs them on the engines, without the front end."""

from __future__ import annotations

import ctypes
import functools
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlx_native_py.softmetal import engines
from mlx_native_py.softmetal.engines import abi
from mlx_native_py.softmetal.toolchain import CompiledKernel, Engine, MathMode, Toolchain, find_toolchain

HEAD = """#include "soft_vector.h"
#include "soft_atomic.h"
#include "soft_simdgroup_matrix.h"
#include "soft_logging.h"
#include "soft_entry.h"
using namespace metal;
#define device __attribute__((opencl_global_device))
#define constant const __global
#define threadgroup __local
"""
ZEROS = np.zeros(1 << 14, np.uint8)
Shape = int | tuple[int, ...]


@dataclass(frozen=True)
class Built:
    """A kernel ready to run."""

    image: ctypes.CDLL
    compiled: CompiledKernel
    engine: Engine


@functools.cache
def toolchain() -> Toolchain:
    return find_toolchain()


@functools.cache
def runtime() -> engines.Runtime:
    return engines.runtime()


@functools.cache
def build(source: str, engine: Engine = "fibers", math: MathMode = "fast") -> Built:
    """Compiles, links and loads; the files are gone afterwards."""
    runtime()
    with tempfile.TemporaryDirectory() as folder:
        path, target, image = Path(folder, "k.clcpp"), Path(folder, "k.o"), Path(folder, "k.so")
        path.write_text(HEAD + source)
        compiled = toolchain().compile_kernel(path, target, engine, math=math)
        toolchain().run(toolchain().link([target], image))
        return Built(ctypes.CDLL(str(image)), compiled, engine)


def _three(shape: Shape) -> tuple[int, int, int]:
    sizes = (shape,) if isinstance(shape, int) else shape
    return (*sizes, 1, 1)[:3]  # type: ignore[return-value]


def launch(
    built: Built, buffers: Sequence[Any], threads: Shape, group: Shape, shared: Sequence[int] = ()
) -> abi.SoftLaunch:
    """One dispatch of `threads` threads; `shared` are the bytes of threadgroup arguments."""
    result = abi.SoftLaunch()
    result.buffers[:] = [ZEROS.ctypes.data] * abi.SLOTS
    for i, array in enumerate(buffers):
        result.buffers[i], result.lengths[i] = array.ctypes.data, array.nbytes
    result.tg_bytes = -(-built.image.soft_tg_size() // 16) * 16
    for i, size in enumerate(shared):
        result.tg_offsets[i] = result.tg_bytes
        result.tg_bytes += -(-size // 16) * 16
    result.threads[:], result.group[:] = _three(threads), _three(group)
    result.groups[:] = [-(-t // g) for t, g in zip(_three(threads), _three(group), strict=True)]
    result.engine = abi.FLAT if built.engine == "flat" else abi.FIBERS
    result.stack_bytes = built.compiled.stack_bytes
    result.entry = ctypes.cast(built.image.soft_entry_point, ctypes.c_void_p).value
    return result


def run(source: str, buffers: Sequence[Any], threads: Shape, group: Shape, **options: Any) -> None:
    """Builds and runs a kernel once."""
    engine = options.pop("engine", "fibers")
    deadline = options.pop("deadline", 30.0)
    runtime().run([launch(build(source, engine), buffers, threads, group, **options)], deadline)

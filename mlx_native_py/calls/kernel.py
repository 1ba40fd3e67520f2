"""`kernel(source)`: compiles MSL source into Python callables."""

from __future__ import annotations

from pathlib import Path

from ..encoder import DeviceContext
from ..pipelines.compile_options import CompileOptions
from ..pipelines.function_constants import Constants
from ..pipelines.includes import Folders
from ..shared_device import default_device
from .library import Library, compiled

__all__ = ["kernel"]


def kernel(
    source: str | Path,
    *,
    device: DeviceContext | None = None,
    constants: Constants | None = None,
    options: CompileOptions | None = None,
    include: Folders = (),
) -> Library:
    """Compiles MSL, given as text or a path; each kernel is a callable attribute of the result.

    `constants` are values for function constants, by name or index. `device` defaults to `default_device()`. A file may
    include headers from its own folder and from the folders in `include`.

    >>> lib = kernel('''
    ... kernel void axpy(device float *y, device const float *x, constant float &a,
    ...                  uint i [[thread_position_in_grid]]) { y[i] += a * x[i]; }
    ... ''')
    >>> import numpy as np
    >>> y, x = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    >>> ticket = lib.axpy(y, x, 2.0)
    >>> y
    array([1., 3., 5., 7.], dtype=float32)
    """
    return compiled(default_device() if device is None else device, source, constants, options, include)

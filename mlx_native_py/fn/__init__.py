"""Ops as plain functions: numpy arrays or buffers in, a buffer with the result out, under MLX's names.

`fn.<name>(...)` runs at once and waits; the buffer that it returns is an array to numpy, without a copy. Each takes
`stream=`: the device to run on. To encode many ops and wait once, use `mlx_native_py.ops`.

>>> fn.add(np.ones(3, np.float32), np.arange(3, dtype=np.float32)).numpy()
array([1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    if _found.name != "call":
        globals().update({name: getattr(_module, name) for name in _module.__all__})


def __getattr__(name: str) -> Any:
    known = sorted(name for name, value in globals().items() if callable(value) and not name.startswith("_"))
    raise AttributeError(f"there is no function {name!r}; there are: {', '.join(known)}")

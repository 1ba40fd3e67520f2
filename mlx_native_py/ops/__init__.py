"""The ops: `ops.<name>(enc, ...)` encodes one. Each module of this package is a family, with kernels of the same name.

An op takes an encoder and buffers, checks them, and encodes its kernels; its result is `out`, or a new buffer where
that is left open. What it reads and writes follows from its kernels, so barriers need no thought.

>>> x = device.buffer(np.ones((2, 4), np.float32))
>>> with device.command_encoder() as enc:
...     total = ops.add(enc, x, x)
>>> total.numpy()
array([[2., 2., 2., 2.],
       [2., 2., 2., 2.]], dtype=float32)
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from .op import Op, table

__all__ = ["Op", "table"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
globals().update({name: found.function for name, found in table().items()})


def __dir__() -> list[str]:
    return sorted([*__all__, *table()])


def __getattr__(name: str) -> Any:
    raise AttributeError(f"there is no op {name!r}; there are: {', '.join(sorted(table()))}")

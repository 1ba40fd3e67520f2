"""Functions on arrays under MLX's names: numpy arrays or buffers in, a buffer with the result out.

`fn.<name>(...)` runs immediately and waits; numpy can use the returned buffer without a copy. It runs on the device of
its buffers, or on the default device, or on `stream=`. The operators `+ - * / @` of buffers use these functions. To
encode many ops and wait once, use `mlx_native_py.ops`.

>>> fn.add(np.ones(3, np.float32), np.arange(3, dtype=np.float32)).numpy()
array([1., 2., 3.], dtype=float32)
"""

from __future__ import annotations

from inspect import isfunction as _isfunction
from typing import TYPE_CHECKING

from ..ops.op import no_such_name
from . import written
from .derived import *
from .signed import signed as _signed
from .written import *

# Hidden from type checkers, which would otherwise accept any attribute name.
if not TYPE_CHECKING:
    globals().update({name: _signed(each) for name, each in vars(written).items() if _isfunction(each)})

    def __getattr__(name: str) -> None:
        raise no_such_name("function", name, globals())

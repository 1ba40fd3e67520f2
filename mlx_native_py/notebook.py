"""IPython extension: after `%load_ext mlx_native_py.notebook`, a cell that starts with `%%msl` compiles MSL."""

from __future__ import annotations

from typing import Any

from .calls.kernel import kernel
from .calls.library import Library
from .errors import InvalidArgument

__all__ = ["load_ipython_extension"]


def load_ipython_extension(shell: Any) -> None:
    """Adds `%%msl [NAME]`, which compiles a cell of MSL and stores its kernels as NAME (default: `lib`)."""

    def msl(line: str, cell: str) -> Library:
        name = line.strip() or "lib"
        if not name.isidentifier():
            raise InvalidArgument(f"%%msl takes one name for its kernels, not {name!r}")
        library: Library = kernel(cell)
        shell.user_ns[name] = library
        return library

    shell.register_magic_function(msl, "cell")

"""The Metal backend: Apple's Metal through PyObjC, or software Metal."""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from .. import settings
from ..errors import DeviceNotFound, SettingsError
from ..settings import BackendName
from .capabilities import SIMDGROUP_WIDTH, Capabilities, probe

__all__ = ["ASKED_FOR_SOFT", "Backend", "Capabilities", "SIMDGROUP_WIDTH", "open_metal"]

_Addresses = tuple[int, int]
ASKED_FOR_SOFT = "the software device was asked for"


class _NoPool:
    """Stands for an autorelease pool where there is none; its methods are functions written in C, which cost little."""

    __slots__ = ()
    __enter__: Any = "".format  # takes any arguments and returns something false
    __exit__: Any = "".format


@dataclass(frozen=True)
class Backend:
    """Metal as the rest of the package sees it; no code above decides by `kind`.

    >>> backend = open_metal("soft")
    >>> with backend.autorelease_pool():
    ...     print(backend.kind, backend.default_device().newBufferWithLength_options_(16, 0).length())
    soft 16
    """

    kind: Literal["metal", "soft"]
    Metal: Any
    """Metal's functions, classes and constants, under PyObjC's names."""
    autorelease_pool: Callable[[], AbstractContextManager[None]]
    """`with backend.autorelease_pool():` around each submission."""
    url: Callable[[str | Path], Any]
    """A file URL for selectors that take an NSURL."""
    declined: str = ""
    """Why Apple's Metal was not taken, where it was not."""
    timing: Literal["measured", "simulated"] = "measured"
    """What the device's times are: those of a GPU, or those of a CPU that stands for one."""
    parameter_arena: bool = False
    """Whether inline arguments go through a buffer: PyObjC takes pointers, as `setBytes` has one, by a slow way."""
    forget: Callable[[Any], None] | None = None
    """To be told of each MTLBuffer whose contents are not defined, or no longer; None where nobody wants to know."""
    declare: Callable[[Any, Mapping[int, int], Sequence[_Addresses], Sequence[_Addresses]], None] | None = None
    """To be told of each dispatch, before it is sent to a compute encoder: lengths of views by slot, and the addresses
    that it is said to read and to write; None where nobody wants to know."""
    in_orders: Callable[[Any, int], AbstractContextManager[Callable[[], int]]] | None = None
    """Has a device run every pass in so many orders for a block, and counts them; None where it cannot choose any."""

    def default_device(self) -> Any:
        """The default MTLDevice."""
        device = self.Metal.MTLCreateSystemDefaultDevice()
        if device is None:
            raise DeviceNotFound(f"the {self.kind} backend has no device")
        return device

    def capabilities(self, device: Any) -> Capabilities:
        """The capabilities of `device`."""
        with self.autorelease_pool():
            return probe(self.Metal, device)


def open_metal(backend: BackendName | None = None) -> Backend:
    """Opens Metal: `backend`, or `MLX_NATIVE_DEVICE`, selects auto, metal or soft."""
    for name, flag in settings.misspelt().items():
        warnings.warn(f"{name} is set, and there is no such setting; did you mean {flag}?", stacklevel=2)
    choice = settings.current().device if backend is None else backend
    if choice not in get_args(BackendName):
        raise SettingsError(f"device is {choice!r}; allowed: {', '.join(get_args(BackendName))}")
    if choice == "soft":
        return _open_soft(ASKED_FOR_SOFT)
    try:
        return _open_pyobjc()
    except (ImportError, DeviceNotFound) as reason:
        declined = f"{type(reason).__name__}: {reason}"
        if choice == "auto":
            return _open_soft(declined)
        raise DeviceNotFound(
            f"Metal was requested but is not available. Tried PyObjC's Metal: {declined}. On a Mac, "
            "`pip install pyobjc-framework-Metal`; elsewhere set MLX_NATIVE_DEVICE=soft (or auto) for software Metal"
        ) from reason


def _open_pyobjc() -> Backend:
    from . import pyobjc  # AppKit comes along, so only when wanted

    pyobjc.prepare()
    return Backend("metal", pyobjc.Metal, pyobjc.autorelease_pool, pyobjc.url, parameter_arena=True)


def _lacks_soft(declined: str) -> str:
    """Why software Metal cannot be opened here; empty if it can. On a Mac it must be requested."""
    from ..softmetal import system

    here = system.host()
    if here is None:
        return f"software Metal runs on Linux and on Apple silicon, and this is {sys.platform} on {platform.machine()}"
    if here.name == "darwin" and declined != ASKED_FOR_SOFT:
        return "MLX_NATIVE_DEVICE=soft opens software Metal on a Mac"
    if here.name == "darwin" and find_spec("ziglang") is None:
        return "software Metal needs its compiler: pip install 'mlx_native_py[soft]'"
    return ""


def _open_soft(declined: str) -> Backend:
    if lacking := _lacks_soft(declined):
        raise DeviceNotFound(f"{lacking}. Apple's Metal: {declined}")
    from . import soft

    now = settings.current()
    return Backend(
        "soft",
        soft.namespace(now),
        _NoPool,
        soft.url,
        declined,
        "simulated",
        forget=soft.forget if now.soft_checked else None,
        declare=soft.declare if now.soft_checked else None,
        in_orders=soft.in_orders,
    )

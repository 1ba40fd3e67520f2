"""Software Metal as a backend: a namespace with a default device of its own for each set of options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import softmetal
from ..errors import SettingsError
from ..settings import Settings
from ..softmetal.execution.passes import Declared
from ..softmetal.execution.repeating import orders

__all__ = ["SoftNamespace", "declare", "forget", "in_orders", "namespace", "url"]


class SoftNamespace:
    """Stands where PyObjC's `Metal` module would; backends with other options do not disturb its device."""

    def __init__(self, options: softmetal.SoftOptions) -> None:
        self._options = options
        self._device: Any = None
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(softmetal, name)
        return value

    def MTLCreateSystemDefaultDevice(self) -> Any:
        """The same device each time, as Metal does."""
        with self._lock:
            if self._device is None:
                self._device = softmetal.open_device(self._options)
            return self._device

    def MTLCopyAllDevices(self) -> list[Any]:
        return [self.MTLCreateSystemDefaultDevice()]


def namespace(now: Settings) -> SoftNamespace:
    """The namespace for the software device's settings; equal settings share one."""
    try:
        options = softmetal.SoftOptions(
            schedule=now.soft_schedule,
            checked=now.soft_checked,
            isolated=now.soft_isolated,
            threads=now.soft_threads,
            watchdog_seconds=now.soft_timeout,
            capture_enabled=now.metal_capture is not None,
            engine=now.soft_engine,
            cpu=now.soft_cpu,
            cache_directory=now.kernel_cache,
            cache_limit=now.soft_cache_limit << 20,
            compiler=now.soft_clang,
            compile_limits=softmetal.CompileLimits(
                seconds=now.soft_compile_timeout, memory_mib=now.soft_compile_memory, output_mib=now.soft_compile_output
            ),
        )
    except ValueError as refused:
        raise SettingsError(str(refused)) from None
    return _opened(options)


@lru_cache(maxsize=16)
def _opened(options: softmetal.SoftOptions) -> SoftNamespace:
    return SoftNamespace(options)


def declare(
    mtl: Any, lengths: Mapping[int, int], reads: Sequence[tuple[int, int]], writes: Sequence[tuple[int, int]]
) -> None:
    """Checked mode holds the next dispatch of a compute encoder to it."""
    mtl.declare(Declared(lengths, reads, writes))


def forget(mtl: Any) -> None:
    """Checked mode reports reads of the buffer's bytes from now on, until they are written."""
    mtl.allocation.forget()


@contextmanager
def in_orders(mtl: Any, count: int) -> Iterator[Callable[[], int]]:
    """Has the device run every pass in `count` orders for the block; the answer counts passes."""
    state = mtl.state
    before, start = state.orders, state.repeated
    state.orders = orders(count)
    try:
        yield lambda: int(state.repeated - start)
    finally:
        state.orders = before


def url(path: str | Path) -> Any:
    """A file URL for selectors that take an NSURL."""
    return softmetal.NSURL.fileURLWithPath_(str(path))

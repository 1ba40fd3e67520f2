"""Software Metal as a backend, with one default device per set of options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import softmetal
from ..errors import SettingsError
from ..forks import Lock
from ..settings import Settings
from ..softmetal.execution.passes import Declared
from ..softmetal.execution.repeating import orders

__all__ = ["SoftNamespace", "declare", "forget", "in_orders", "namespace", "url"]


class SoftNamespace:
    """Takes the place of PyObjC's `Metal` module; each set of options has its own device."""

    def __init__(self, options: softmetal.SoftOptions) -> None:
        self._options = options
        self._device: Any = None
        self._lock = Lock()

    def __getattr__(self, name: str) -> Any:
        value = self.__dict__[name] = getattr(softmetal, name)
        return value

    def MTLCreateSystemDefaultDevice(self) -> Any:
        """The same device each time, as in Metal."""
        with self._lock:
            if self._device is None:
                self._device = softmetal.open_device(self._options)
            return self._device

    def MTLCopyAllDevices(self) -> list[Any]:
        return [self.MTLCreateSystemDefaultDevice()]


def namespace(now: Settings) -> SoftNamespace:
    """The namespace for the software device's settings; shared by equal settings."""
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
    """In checked mode, restricts the next dispatch of a compute encoder to these accesses."""
    mtl.declare(Declared(lengths, reads, writes))


def forget(mtl: Any) -> None:
    """In checked mode, marks the buffer's bytes as uninitialised."""
    mtl.allocation.forget()


@contextmanager
def in_orders(mtl: Any, count: int) -> Iterator[Callable[[], int]]:
    """Makes the device run every pass in `count` orders during the block; yields a counter of passes."""
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

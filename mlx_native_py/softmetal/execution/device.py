"""A device's state: its options, its account of memory, and what its command buffers share."""

from __future__ import annotations

import threading
from functools import cached_property
from typing import Any

from .. import memory
from ..engines.abi import SLOTS, SoftLaunch
from ..engines.runtime import Runtime
from ..isolation.runtime import IsolatedRuntime
from ..isolation.space import shared_arena
from ..options import DeviceProfile, SoftOptions
from ..process import refuse_after_fork
from .inline_bytes import Chunk

MOST_SAMPLE_BUFFERS = 32


class DeviceState:
    """What the objects of one device share."""

    def __init__(self, options: SoftOptions, profile: DeviceProfile) -> None:
        self.options = options
        self.profile = profile
        self.allocated = 0
        self.arena = shared_arena() if options.isolated else memory.arena()
        self.inline_pool: list[Chunk] = []
        self._sample_buffers = 0
        self._lock = threading.RLock()  # reentrant, because the garbage collector may free memory anywhere

    def allocate(self, length: int) -> memory.DeviceMemory | None:
        """Charged pages, or None."""
        refuse_after_fork()
        pages = memory.pages(length)
        if not 0 < length <= self.profile.buffer_limit or not self.charge(pages):
            return None
        allocation = None
        try:
            allocation = self.arena.memory(length)
        finally:
            if allocation is None:
                self.charge(-pages)
        return allocation

    def charge(self, change: int) -> bool:
        """Keeps the account of allocated bytes; False when there is not enough memory."""
        with self._lock:
            if change > 0 and self.allocated + change > self.profile.memory:
                return False
            self.allocated += change
            return True

    def charge_caller(self, length: int) -> None:
        """Memory of the caller counts too, and is never refused."""
        with self._lock:
            self.allocated += length

    def count_sample_buffer(self, change: int) -> bool:
        """Keeps the number of sample buffers; False when there are too many."""
        with self._lock:
            if self._sample_buffers + change > MOST_SAMPLE_BUFFERS:
                return False
            self._sample_buffers += change
            return True

    @cached_property
    def runtime(self) -> Runtime | IsolatedRuntime:
        runtime: Runtime | IsolatedRuntime = self.compiler.runtime()
        return runtime

    @cached_property
    def compiler(self) -> Any:
        from ..msl import open_compiler  # slow to import, and not needed before the first kernel

        options = self.options
        clang = None if options.compiler is None else str(options.compiler)
        folder, room = options.cache_directory, options.cache_limit
        return open_compiler(folder, clang, options.engine, options.cpu, options.compile_limits, room, options.isolated)

    @cached_property
    def zero_page(self) -> memory.DeviceMemory:
        """What an argument sees that nothing is bound to."""
        page = self.arena.memory(memory.PAGE)
        if page is None:
            raise MemoryError("no memory left for a single page")
        return page

    @cached_property
    def blank_launch(self) -> SoftLaunch:
        blank = SoftLaunch()
        blank.buffers[:] = [self.zero_page.address] * SLOTS
        return blank

    def close(self) -> None:
        """Gives back what the device itself holds."""
        self.inline_pool.clear()
        if "zero_page" in self.__dict__:
            self.zero_page.release()

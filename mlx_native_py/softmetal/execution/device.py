"""The state of a device: options, memory accounting, and what its command buffers share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from operator import attrgetter
from typing import Any
from weakref import ref

from .. import memory
from ..engines.abi import SLOTS, SoftLaunch
from ..engines.runtime import Runtime, RuntimeCall
from ..isolation.runtime import IsolatedCall, IsolatedRuntime
from ..isolation.space import shared_arena
from ..options import DeviceProfile, SoftOptions
from ..process import refuse_after_fork
from .atomic import one_step
from .inline_bytes import InlineStore

MOST_SAMPLE_BUFFERS = 32


class _Charge(ref[object]):
    """Bytes charged to an account, until the memory or its owner is dropped."""

    __slots__ = ("nbytes",)
    nbytes: int


_nbytes = attrgetter("nbytes")  # no step of Python for each: a profile asks for the sum with every command buffer


class DeviceState:
    """What the objects of one device share."""

    def __init__(self, options: SoftOptions, profile: DeviceProfile) -> None:
        self.options = options
        self.profile = profile
        self._charges: set[_Charge] = set()
        self._at_most = 0  # bytes that may be allocated, so that they need not be added up each time
        self.orders: tuple[str, ...] = ()
        """Where there are some, every pass runs once in each of them, and must leave the same bytes."""
        self.is_plain = not options.checked and options.schedule == "ordered"
        """Whether passes may run as they are encoded, unless there are orders."""
        self.repeated = 0
        """How many passes have."""
        ours = memory.checked_arena if options.checked else memory.arena
        self.arena = shared_arena() if options.isolated else ours()
        self.inline = InlineStore(self.arena, shares=not options.isolated)
        self._sample_buffers: set[ref[object]] = set()
        self._lock = self.arena.lock

    def allocate(self, length: int) -> memory.DeviceMemory | None:
        """Charged pages, or None."""
        refuse_after_fork()
        pages = memory.pages(length)
        if not 0 < length <= self.profile.buffer_limit:
            return None
        with self._lock:  # until it is charged, so that no other thread is told of the same room
            allocation = self.arena.memory(length) if self._has_room(pages) else None
            if allocation is not None:
                self.charge(allocation, pages)
            return allocation

    @property
    def allocated(self) -> int:
        """Bytes that are charged now."""
        # A list, not a tuple: until it is made no garbage is collected, which would change the set.
        return sum(map(_nbytes, list(self._charges)))

    def charge(self, holder: object, nbytes: int) -> None:
        """Counts memory until its holder is dropped."""
        self._charges.add(self._charge(holder, nbytes))

    def _charge(self, holder: object, nbytes: int) -> _Charge:
        charge = _Charge(holder, self._charges.discard)
        charge.nbytes = nbytes
        return charge

    def hand_over(self, allocation: memory.DeviceMemory, owner: object) -> None:
        """Memory counts from now on until its owner is dropped, even where an encoder still knows it."""
        allocation.owner = ref(owner)
        owned = self._charge(owner, memory.pages(allocation.length))
        one_step((self._charges.add, owned), (self._charges.discard, _Charge(allocation)))

    def charge_caller(self, allocation: memory.DeviceMemory, nbytes: int) -> None:
        """Memory of the caller counts too, and is never refused."""
        with self._lock:
            self._at_most += nbytes
        self.charge(allocation, nbytes)

    def _has_room(self, nbytes: int) -> bool:
        self._at_most += nbytes
        if self._at_most > self.profile.memory:
            self._at_most = self.allocated + nbytes
        return self._at_most <= self.profile.memory

    def count_sample_buffer(self, buffer: object) -> bool:
        """Counts a sample buffer while it lives; False when there are too many."""
        with self._lock:
            if len(self._sample_buffers) >= MOST_SAMPLE_BUFFERS:
                return False
            self._sample_buffers.add(ref(buffer, self._sample_buffers.discard))
            return True

    @cached_property
    def runtime(self) -> Runtime | IsolatedRuntime:
        runtime: Runtime | IsolatedRuntime = self.compiler.runtime()
        return runtime

    @cached_property
    def prepare(self) -> Callable[..., RuntimeCall | IsolatedCall]:
        """The call of the runtime for launches: an array or a single one, their number, and whether they are `brief`:
        over before other Python threads miss the interpreter."""
        options = self.options
        return partial(self.runtime.prepare, deadline_s=options.watchdog_seconds, threads=options.threads or 0)

    @cached_property
    def rouse(self) -> Callable[[int], object]:
        """Wakes so many workers for work that is on its way; those of helper processes sleep until it is there."""
        runtime = self.runtime
        return int if isinstance(runtime, IsolatedRuntime) or self.options.threads == 1 else runtime.rouse

    @cached_property
    def compiler(self) -> Any:
        from ..msl import open_compiler  # slow to import, and not needed before the first kernel

        options = self.options
        clang = None if options.compiler is None else str(options.compiler)
        folder, room = options.cache_directory, options.cache_limit
        return open_compiler(folder, clang, options.engine, options.cpu, options.compile_limits, room, options.isolated)

    @cached_property
    def timeline(self) -> Any:
        """What checked mode knows of the order of the queues' work; None where nobody checks."""
        if not self.options.checked:
            return None
        from ..checked import Timeline  # which needs numpy

        return Timeline()

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

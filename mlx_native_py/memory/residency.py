"""The residency set of a device: changes are staged and committed at most once per command buffer."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ..metal import Backend, Capabilities

if TYPE_CHECKING:
    from .allocation import Allocation, InFlight

__all__ = ["Residency", "Writers", "open_residency"]

LABEL = "mlx_native_default"
CAPACITY = 256


class _Resident(Protocol):
    mtl: Any
    owner: object
    resident: int

    @property
    def root(self) -> _Resident: ...


class Writers(Protocol):
    """The queue of a device, as far as memory needs to know it."""

    def writer(self, allocation: Allocation, start: int, end: int) -> InFlight | None:
        """The last command buffer in flight that writes any of these bytes, if there is one."""


class Residency:
    """The residency set of a device, or the reason why there is none.

    An allocation that is added and dropped between two flushes never reaches the set. Removal takes no lock, because
    Python may drop objects at any moment.

    >>> for _ in range(100):
    ...     scratch = device.empty(16)
    >>> del scratch
    >>> device.command_encoder().commit_and_wait()
    >>> device.residency.commits
    1
    """

    def __init__(self, backend: Backend, mtl: Any, queue: Any, reason: str = "") -> None:
        self.backend = backend
        self.mtl = mtl
        self.reason = reason
        """Why there is no residency set."""
        self.device: Callable[[], Any] = lambda: None
        """Returns the device while it is alive."""
        self.commits = 0
        """How often the set was committed."""
        self.writers: Callable[[], Writers | None] = lambda: None
        """Returns the device's queue, once there is one."""
        self._queue = queue
        self._lock = threading.Lock()
        self._tokens = itertools.count(1)
        self._members: set[int] = set()
        self._additions: dict[int, Any] = {}
        self._removals: deque[tuple[Any, object]] = deque()
        self._is_torn = False  # whether some of the additions may be in the set already
        self.is_staged = False
        """Whether the next flush will commit."""

    def __repr__(self) -> str:
        return f"<Residency of {self.count} allocations{f', off: {self.reason}' if self.reason else ''}>"

    @property
    def enabled(self) -> bool:
        """Whether there is a residency set."""
        return self.mtl is not None

    @property
    def count(self) -> int:
        """The number of live allocations, including staged ones."""
        return len(self._members)

    def add(self, allocation: _Resident) -> bool:
        """Stages an allocation; False without a residency set. Adding again does nothing."""
        if self.mtl is None:
            return False
        root = allocation.root
        if not root.resident:
            token = next(self._tokens)
            self._additions[token] = root.mtl
            self._members.add(token)
            root.resident = token
            self.is_staged = True
        return True

    def remove(self, allocation: _Resident) -> bool:
        """Stages a removal; False without a residency set. Also called when an allocation is dropped."""
        if self.mtl is None:
            return False
        root = allocation.root
        token, root.resident = root.resident, 0
        if token:
            self._members.discard(token)
            # Settled by whoever removes the addition first: this call or a flush in another thread.
            if self._additions.pop(token, None) is None or self._is_torn:
                # Keeps the memory's owner alive until the set has released the memory.
                self._removals.append((root.mtl, root.owner))
            self.is_staged = True
        return True

    def flush(self) -> bool:
        """Commits staged changes, if there are any; called before each submission."""
        if not self.is_staged:
            return False
        with self._lock:
            if not self.is_staged:
                return False
            self.is_staged = False
            try:
                self._add_staged()
                removed = self._remove_staged()
                self.mtl.commit()
            except BaseException:  # what is left is for the next call
                self.is_staged = True
                raise
            self.commits += 1
            for _ in range(removed):
                self._removals.popleft()
        return True

    def _add_staged(self) -> None:
        additions: dict[Any, Any] = {}
        try:
            while self._additions:
                with suppress(KeyError):
                    additions.update((self._additions.popitem(),))
            if additions:
                self.mtl.addAllocations_count_(list(additions.values()), len(additions))
        except BaseException:  # to add or remove one twice does no harm
            self._is_torn = True
            self._additions.update(additions)
            raise
        self._is_torn = False

    def _remove_staged(self) -> int:
        """How many, which stay listed until the commit. Runs after the additions, because an allocation dropped
        meanwhile may be among them."""
        removed = tuple(self._removals)
        for mtl, _ in removed:
            self.mtl.removeAllocation_(mtl)
        return len(removed)

    def close(self) -> None:
        """Detaches the set from its queue and empties it."""
        with self._lock:
            if self.mtl is not None:
                self._queue.removeResidencySet_(self.mtl)
                self.mtl.endResidency()
                self.mtl.removeAllAllocations()
                self.mtl.commit()
            self.mtl, self.reason, self.is_staged = None, "the device is closed", False
            self._additions.clear()
            self._removals.clear()
            self._members.clear()


def open_residency(backend: Backend, device: Any, queue: Any, able: Capabilities, *, wanted: bool) -> Residency:
    """The residency set of `device`, attached to `queue`; disabled if unwanted or unsupported."""
    if not wanted:
        return Residency(backend, None, queue, "HF2Q_NO_RESIDENCY is set")
    if not able.residency_sets:
        return Residency(backend, None, queue, "the device has no residency sets (they need macOS 15 and Metal 3)")
    descriptor = backend.Metal.MTLResidencySetDescriptor.alloc().init()
    descriptor.setLabel_(LABEL)
    descriptor.setInitialCapacity_(CAPACITY)
    mtl, error = device.newResidencySetWithDescriptor_error_(descriptor, None)
    if mtl is None:
        # Residency affects speed, not results: Metal makes bound resources resident by itself.
        why = f": {error.localizedDescription()}" if error is not None else ""
        return Residency(backend, None, queue, f"the device refused a residency set{why}")
    mtl.requestResidency()
    queue.addResidencySet_(mtl)
    return Residency(backend, mtl, queue)

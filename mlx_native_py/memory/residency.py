"""The residency set of a device: changes are staged and committed at most once per command buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

from ..forks import Lock
from ..metal import Backend, Capabilities

if TYPE_CHECKING:
    from .allocation import Allocation, InFlight

__all__ = ["Residency", "Writers", "open_residency"]

LABEL = "mlx_native_default"
CAPACITY = 256


class _Resident(Protocol):
    mtl: Any
    owner: object

    @property
    def root(self) -> _Resident: ...


class _SetMember(ref[_Resident]):
    """An allocation of the set, with its memory and that memory's owner, which live until the set has let go of it."""

    __slots__ = ("mtl", "owner")
    mtl: Any
    owner: object


class Writers(Protocol):
    """The queue of a device, as far as memory needs to know it."""

    def writer(self, allocation: Allocation, start: int, end: int) -> InFlight | None:
        """The last command buffer in flight that writes any of these bytes, if there is one."""


class Residency:
    """The residency set of a device, or the reason why there is none.

    An allocation that is added and dropped between two flushes never reaches the set. What is dropped is noted by weak
    references, without a step of Python, in which CPython would lose a Ctrl-C.

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
        self._lock = Lock()
        self._added: set[ref[_Resident]] = set()  # since the last flush, and alive
        self._members: dict[ref[_Resident], _SetMember] = {}
        self._removed: deque[_SetMember] = deque()  # since the last flush

    def __repr__(self) -> str:
        return f"<Residency of {self.count} allocations{f', off: {self.reason}' if self.reason else ''}>"

    @property
    def enabled(self) -> bool:
        """Whether there is a residency set."""
        return self.mtl is not None

    @property
    def is_staged(self) -> bool:
        """Whether the next flush will commit."""
        return bool(self._added or self._removed)

    @property
    def count(self) -> int:
        """The number of live allocations, including staged ones."""
        return sum(member() is not None for member in {*self._added, *self._members})

    def add(self, allocation: _Resident) -> bool:
        """Stages an allocation; False without a residency set. Adding again does nothing."""
        if self.mtl is None:
            return False
        root = allocation.root
        if ref(root) not in self._members:
            self._added.add(ref(root, self._added.discard))
        return True

    def remove(self, allocation: _Resident) -> bool:
        """Stages a removal; False without a residency set."""
        if self.mtl is None:
            return False
        root = ref(allocation.root)
        with self._lock:
            self._added.discard(root)
            member = self._members.get(root)
            if member is not None:
                self._removed.append(member)
                self._members.pop(root)
        return True

    def flush(self) -> bool:
        """Commits staged changes, if there are any; called before each submission.

        What an exception leaves undone is for the next call; to add or remove one twice does no harm.
        """
        if not self.is_staged:
            return False
        with self._lock:
            # Lists, not tuples: until one is made no garbage is collected, which would change what it is made of.
            removed = list(self._removed)
            added = [(each, root) for each in list(self._added) if (root := each()) is not None]
            if not removed and not added:
                return False
            for member in removed:
                self.mtl.removeAllocation_(member.mtl)
            if added:
                self._members.update(map(self._joined, [root for _, root in added]))
                self.mtl.addAllocations_count_([root.mtl for _, root in added], len(added))
            self.mtl.commit()
            self.commits += 1
            self._let_go(removed)
            self._added.difference_update([each for each, _ in added])
        return True

    def _joined(self, root: _Resident) -> tuple[_SetMember, _SetMember]:
        member = _SetMember(root, self._removed.append)
        member.mtl, member.owner = root.mtl, root.owner
        return member, member

    def _let_go(self, removed: list[_SetMember]) -> None:
        for member in removed:
            self._members.pop(member, None)
            with suppress(ValueError):  # a finaliser that submits was faster
                self._removed.remove(member)

    def close(self) -> None:
        """Detaches the set from its queue and empties it."""
        with self._lock:
            if self.mtl is not None:
                self._queue.removeResidencySet_(self.mtl)
                self.mtl.endResidency()
                self.mtl.removeAllAllocations()
                self.mtl.commit()
            self.mtl, self.reason = None, "the device is closed"
            self._added.clear()
            self._members.clear()
            self._removed.clear()


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

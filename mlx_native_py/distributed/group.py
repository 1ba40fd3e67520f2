"""Groups of ranks: size, subgroups, and agreement between ranks."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..errors import DistributedError
from .message_rendezvous import MessageRendezvous
from .rendezvous import Call, SharedMemoryRendezvous

__all__ = ["Group"]


class Group:
    """Communicating processes; `rank` is this one's index among `size`.

    >>> group = Group(None, 60.0)
    >>> group
    <Group, rank 0 of 1>
    >>> group.split(color=1).size
    1
    """

    def __init__(self, comm: Any, timeout: float, *, is_background: bool = False) -> None:
        self.comm = comm
        """mpi4py's communicator, private to this group; None without MPI."""
        self.rank: int = 0 if comm is None else comm.rank
        self.size: int = 1 if comm is None else comm.size
        self.prepared: dict[Any, tuple[Any, ...]] = {}
        """MPI arguments of in-place reductions done before."""
        self.unfinished_sends: deque[tuple[Any, int, Any]] = deque()
        """Pending sends: MPI's request, the destination rank, and the memory it reads."""
        self.rendezvous: SharedMemoryRendezvous | MessageRendezvous | None = None
        """How ranks check that all have arrived; None for a single rank."""
        if self.size > 1:
            self.rendezvous = SharedMemoryRendezvous.shared_by(comm, patient=is_background) or MessageRendezvous(comm)
        self.background: Group | None = None
        """The same ranks on a communicator of its own, for collectives that run in the background."""
        if self.size > 1 and not is_background:
            self.background = Group(comm.Dup(), timeout, is_background=True)
        self.timeout = timeout

    @property
    def timeout(self) -> float:
        """Seconds that a collective waits for the other ranks."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._timeout = seconds
        if self.rendezvous is not None:
            self.rendezvous.timeout = seconds
        if self.background is not None:
            self.background.timeout = seconds

    def split(self, color: int, key: int = -1) -> Group:
        """The ranks with the same `color`, ordered by `key`; a negative key keeps the order."""
        if self.comm is None:
            return Group(None, self.timeout)
        self.meet(Call("split"))
        return Group(self.comm.Split(color, self.rank if key < 0 else key), self.timeout)

    def meet(self, call: Call) -> None:
        """Waits until every rank has made the same call; raises if one is missing or made another."""
        if self.rendezvous is not None:
            self.rendezvous.meet(call)

    def require_alive(self, what: str) -> None:
        """Raises if a rank is known to have ended."""
        if self.rendezvous is not None:
            self.rendezvous.require_alive(what)

    def gather_objects(self, value: Any) -> list[Any]:
        """The picklable values of all ranks, in rank order."""
        if self.size == 1:
            return [value]
        self.meet(Call("gather_objects"))
        return list(self.comm.allgather(value))

    def agree(self, name: str, value: Any) -> None:
        """Raises unless all ranks give an equal `value`; `name` describes it in the message.

        >>> Group(None, 60.0).agree("the digest of model.gguf", "5a1c")
        """
        given = self.gather_objects((name, value))
        if all(each == (name, value) for each in given):
            return
        shown = [f"{each[0]} is {each[1]!r} on {_holders(given, each)}" for each in _distinct(given)]
        raise DistributedError(f"the ranks do not agree: {'; '.join(shown)}")

    def __repr__(self) -> str:
        return f"<Group, rank {self.rank} of {self.size}>"


def _distinct(values: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for each in values:
        if each not in distinct:
            distinct.append(each)
    return distinct


def _holders(given: list[Any], value: Any) -> str:
    holders = [str(rank) for rank, each in enumerate(given) if each == value]
    return f"rank{'s' if len(holders) > 1 else ''} {', '.join(holders)}"

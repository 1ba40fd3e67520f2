"""A plan's lease on its memory, taken once rather than for each replay."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ReferenceType, ref

from ..encoder import Ticket
from ..memory import transfers
from ..memory.allocation import Allocation

__all__ = ["Lease"]

_MAX_REPLAYS = 64  # replays kept before completed ones are removed


class _Claim:
    """The completion of a lease: done when the lease is dropped and its last replay has completed."""

    __slots__ = ("lease", "tickets")

    def __init__(self, lease: Lease) -> None:
        self.lease: ReferenceType[Lease] = ref(lease)
        self.tickets: list[ReferenceType[Ticket]] = []
        """The tickets of the replays."""

    def done(self) -> bool:
        return self.lease() is None and not self.in_flight()

    def in_flight(self) -> list[Ticket]:
        """The pending replays."""
        return [ticket for each in self.tickets if (ticket := each()) is not None and not ticket.done()]


class Lease:
    """Keeps memory from being reused while the lease and its replays are alive.

    `also` is another object that the GPU needs until then.
    """

    __slots__ = ("_allocations", "_also", "_claim", "_releases", "__weakref__")

    def __init__(self, allocations: Iterable[Allocation], also: object) -> None:
        self._also = also
        self._allocations = tuple(allocations)
        self._claim = _Claim(self)
        self._releases = Allocation.releases
        for each in self._allocations:
            each.hold(self._claim)

    def use(self, ticket: Ticket) -> None:
        """Registers a replay in this command buffer; raises if some of the memory was released."""
        if self._releases != Allocation.releases:
            releases = Allocation.releases
            for each in self._allocations:
                each.require_live()
            self._releases = releases
        if transfers.under_way:
            transfers.wait_for(self._allocations)
        ticket.keep.add(self)
        tickets = self._claim.tickets
        if len(tickets) >= _MAX_REPLAYS:
            self._claim.tickets = tickets = [ref(each) for each in self._claim.in_flight()]
        tickets.append(ref(ticket))

"""A plan's claim on its memory, made once and not for each replay."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import ReferenceType, ref

from ..encoder import Ticket
from ..memory import transfers
from ..memory.allocation import Allocation

__all__ = ["Lease"]


class _Claim:
    """What an allocation remembers: it is free when the lease is gone and its last replay is done."""

    __slots__ = ("lease", "tickets")

    def __init__(self, lease: Lease) -> None:
        self.lease: ReferenceType[Lease] = ref(lease)
        self.tickets: list[Ticket] = []

    def done(self) -> bool:
        return self.lease() is None and all(ticket.done() for ticket in self.tickets)

    def in_flight(self) -> list[Ticket]:
        """The replays so far that are not done; the lease itself may live on."""
        return [ticket for ticket in self.tickets if not ticket.done()]


class Lease:
    """Keeps memory from being lent to others while it lives, and until the replays that it was told of are done."""

    __slots__ = ("_allocations", "_claim", "_releases", "__weakref__")

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._allocations = tuple(allocations)
        self._claim = _Claim(self)
        self._releases = Allocation.releases
        for each in self._allocations:
            each.hold(self._claim)

    def use(self, ticket: Ticket) -> None:
        """A replay in this command buffer uses the memory; refuses where some of it went back to its pool."""
        if self._releases != Allocation.releases:
            releases = Allocation.releases
            for each in self._allocations:
                each.require_live()
            self._releases = releases
        if transfers.under_way:
            transfers.wait_for(self._allocations)
        ticket.keep.add(self)
        claim = self._claim
        claim.tickets = [each for each in claim.tickets if not each.is_closed]
        claim.tickets.append(ticket)

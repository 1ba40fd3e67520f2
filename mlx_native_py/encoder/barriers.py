"""Memory barriers of a command buffer, each with the hazard that caused it."""

from __future__ import annotations

from dataclasses import replace

from ..hazards.ranges import Hazard
from ..hazards.tracker import Conflict, touched
from .ticket import Ticket

__all__ = ["Barrier"]


class Barrier:
    """A memory barrier before dispatch number `before`, caused by a hazard or requested by the caller.

    >>> with device.command_encoder() as enc:
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> enc.barriers[0].hazard.kind.name
    'RAW'
    """

    __slots__ = ("_at", "_since", "ticket")

    def __init__(self, ticket: Ticket, at: int, since: int | None) -> None:
        self.ticket = ticket
        self._at = at
        """The log entry that it precedes."""
        self._since = since
        """The first log entry that can have caused it; None if the caller placed it."""

    @property
    def before(self) -> int:
        return self.ticket.position(self._at)

    @property
    def by_hand(self) -> bool:
        return self._since is None

    @property
    def hazard(self) -> Hazard | None:
        """The two dispatches and the bytes they share; None if the caller placed the barrier."""
        log = self.ticket.log
        if self._since is None or self._at >= len(log):
            return None
        conflict = Conflict(log, self._since, self._at, touched(log[self._at]), self._at)
        earlier, hazard = conflict.look_up()
        dispatches, position = self.ticket.dispatches, self.ticket.position
        return replace(hazard, earlier=dispatches[position(earlier)], later=dispatches[position(self._at)])

    def __str__(self) -> str:
        return f"before dispatch {self.before}: {self.hazard or 'placed by hand'}"

    def __repr__(self) -> str:
        return f"<Barrier {self}>"

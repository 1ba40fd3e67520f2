"""Barriers of a pass, each with its reason."""

from __future__ import annotations

from dataclasses import replace

from ..hazards.ranges import Conflict, Hazard
from .ticket import Ticket

__all__ = ["Barrier"]


class Barrier:
    """A memory barrier before dispatch number `before`; asked for by hand, or because of a hazard.

    >>> with device.command_encoder() as enc:
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> enc.barriers[0].hazard.kind.name
    'RAW'
    """

    __slots__ = ("before", "conflict", "ticket")

    def __init__(self, before: int, ticket: Ticket, conflict: Conflict | None = None) -> None:
        self.before = before
        self.ticket = ticket
        self.conflict = conflict

    @property
    def by_hand(self) -> bool:
        return self.conflict is None

    @property
    def hazard(self) -> Hazard | None:
        """Both dispatches and the bytes; None where the barrier was placed by hand."""
        if self.conflict is None:
            return None
        found = self.conflict.hazard
        name = self.ticket.dispatched
        return replace(found, earlier=name(found.earlier), later=name(found.later))

    def __str__(self) -> str:
        return f"before dispatch {self.before}: {self.hazard or 'placed by hand'}"

    def __repr__(self) -> str:
        return f"<Barrier {self}>"

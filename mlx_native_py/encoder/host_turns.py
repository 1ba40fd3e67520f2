"""Command buffers that stop for the CPU, and go on when it has had its turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from .command_encoder import CommandEncoder
from .context import DeviceContext
from .ticket import Ticket

__all__ = ["HostTurns"]


class HostTurns:
    """Work of the CPU between dispatches of a command buffer, which waits for it by the values of a shared event.

    >>> turns = HostTurns(device)
    >>> with device.command_encoder() as enc:
    ...     enc.dispatch(axpy, x, y, 1.0, threads=4)
    ...     turns.stop(enc)
    ...     enc.dispatch(axpy, x, y, 1.0, threads=4)
    ...     ticket = enc.commit()
    >>> turns.take(ticket, [lambda: y.fill(0)])
    >>> y.numpy()
    array([0., 1., 2., 3.], dtype=float32)
    """

    def __init__(self, device: DeviceContext) -> None:
        self._queue = device.submissions
        self._event: Any = device.mtl.newSharedEvent()
        self._taken = self._encoded = 0
        """How many turns were taken, and how many there are in command buffers so far."""

    def stop(self, enc: CommandEncoder) -> None:
        """What is encoded behind this begins when the CPU has had its turn."""
        enc.stop_for_host(self._event, 2 * self._encoded + 1)
        self._encoded += 1

    def take(self, ticket: Ticket, works: Sequence[Callable[[], object]]) -> None:
        """The CPU's turns in a committed command buffer, a function for each stop; returns when the GPU is done too.

        In them, buffers can be read and written as if the command buffer was done. An error in one of them is raised
        when the GPU has been let go on, since stopped work would keep the queue and its memory for ever.
        """
        try:
            for number, work in enumerate(works, self._taken):
                self._queue.wait_for_stop(ticket, self._event, 2 * number + 1)
                ticket.turn = get_ident()
                work()
                ticket.turn = 0
                self._event.setSignaledValue_(2 * number + 2)
        finally:
            ticket.turn = 0
            self._taken = self._encoded
            self._event.setSignaledValue_(2 * self._encoded)
        ticket.wait()

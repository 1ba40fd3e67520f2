"""Command buffers that pause for work on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from .command_encoder import CommandEncoder
from .context import DeviceContext
from .ticket import Ticket

__all__ = ["HostTurns"]


class HostTurns:
    """Runs CPU work between dispatches of one command buffer, synchronised by a shared event.

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
        """How many pauses were served, and how many were encoded."""

    def stop(self, enc: CommandEncoder) -> None:
        """Pauses the command buffer here until the CPU has done its work."""
        enc.stop_for_host(self._event, 2 * self._encoded + 1)
        self._encoded += 1

    def take(self, ticket: Ticket, works: Sequence[Callable[[], object]]) -> None:
        """Runs one function per pause of a committed command buffer, and waits for its completion.

        The functions may read and write buffers as if the command buffer were complete. If one raises, the GPU is
        released first, since paused work would block the queue and its memory forever.
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

"""Encoder sessions: a chain of command buffers ordered by fences on the GPU."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from ..compat import SessionSpellings
from ..errors import EncoderStateError, InvalidArgument
from .command_encoder import CommandEncoder
from .context import DeviceContext
from .ticket import Ticket

__all__ = ["EncoderSession"]


class EncoderSession(SessionSpellings):
    """One encoder that goes through a chain of command buffers, called stages.

    A stage is encoded through `encoder()` and ended by `fence_stage()`; `reset_for_next_stage()` then starts the next
    one, which waits for the fence. `commit_stage()` and `commit_and_wait()` end a stage without a fence. Ending a stage
    again in the same way does nothing; calls that would lose work raise.

    >>> session = device.encoder_session()
    >>> for stage in ("first", "second"):
    ...     session.encoder().dispatch(axpy, x, y, 1.0, threads=4)
    ...     ticket = session.fence_stage(stage)
    ...     session.reset_for_next_stage()
    >>> session.commit_and_wait()
    >>> session.fence_value(), session.wait_count(), session.is_drained()
    (2, 2, True)
    """

    def __init__(self, device: DeviceContext, **options: Any) -> None:
        self._device = device
        self._encoder = CommandEncoder(device, **options)
        self._event: Any = None
        self._fence_value = 0
        self._wait_value = 0
        self._wait_count = 0
        self._label: str | None = None
        self._fenced = False

    def encoder(self) -> CommandEncoder:
        """The encoder of the current stage; raises if the stage has ended."""
        if self.is_drained():
            raise EncoderStateError("this stage has ended; call reset_for_next_stage() before encoding the next one")
        return self._encoder

    def begin_stage(self, label: str) -> None:
        """Sets the label of the current stage's command buffer."""
        if not isinstance(label, str) or not label:
            raise InvalidArgument(f"a stage's label is a non-empty str, not {label!r}")
        if self.is_drained():
            raise EncoderStateError(f"stage {label!r} cannot begin: call reset_for_next_stage() first")
        self._label = label

    def commit_stage(self) -> Ticket:
        """Submits the stage without a fence; if it has ended already, returns its ticket."""
        if not self.is_drained():
            self._encoder.commit(self._label)
        return self._encoder.ticket

    def commit_and_wait(self) -> None:
        """Submits the stage, if it has not ended, and waits; raises the errors of all stages."""
        if self.is_drained():
            self._encoder.wait_until_completed()
        else:
            self._encoder.commit_and_wait(self._label)

    def fence_stage(self, label: str | None = None) -> Ticket:
        """Submits the stage, which signals the session's event on completion; does nothing the second time."""
        if self._fenced:
            return self._encoder.ticket
        if self.is_drained():
            raise EncoderStateError("this stage was committed without a fence, which cannot be added later")
        if self._event is None:
            self._event = self._device.mtl.newSharedEvent()
        if label is not None:
            self._label = label
        ticket = self._encoder.fence_and_commit(self._event, self._fence_value + 1, self._label)
        self._fence_value += 1
        self._fenced = True
        return ticket

    def reset_for_next_stage(self) -> None:
        """Starts the next command buffer, after the fence if there is one; does nothing before the stage ends."""
        if not self.is_drained():
            return
        if self._fenced:
            self._encoder.next_command_buffer(self._event, self._fence_value)
            self._wait_count += 1
            self._wait_value = self._fence_value
        else:
            self._encoder.next_command_buffer()
        self._fenced = False
        self._label = None

    # Pure reads

    def is_drained(self) -> bool:
        """Whether the stage has ended, including by a direct commit of its encoder."""
        return not self._encoder.is_recording

    def is_fence_pending(self) -> bool:
        """Whether the stage ended with a fence that no next stage waits for yet."""
        return self._fenced

    def has_event(self) -> bool:
        """Whether a fence has been used."""
        return self._event is not None

    def fence_value(self) -> int:
        """The last value that a stage signals."""
        return self._fence_value

    def wait_value(self) -> int:
        """The last value that a stage waits for."""
        return self._wait_value

    def wait_count(self) -> int:
        """How many stages wait for a fence."""
        return self._wait_count

    @property
    def ticket(self) -> Ticket:
        """The ticket of the stage."""
        return self._encoder.ticket

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._encoder.discard()
        else:
            self.commit_and_wait()

    def __repr__(self) -> str:
        state = "fenced" if self._fenced else "drained" if self.is_drained() else "encoding"
        return f"<EncoderSession, {state}, {self._fence_value} fences, {self._wait_count} waits>"

"""The compute pass of a command buffer: opened lazily, and sampled when dispatches are timed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import call
from typing import Any, Protocol

from .. import settings
from ..errors import BackendError, EncoderStateError
from ..hazards.ranges import Span
from ..pipelines.pipeline import BUFFER_SLOTS, Pipeline
from ..profiling.observer import PlannedLaunch
from .context import DeviceContext
from .dispatch import Dispatch, Value
from .parameters import Parameters
from .sender import Sender
from .ticket import Ticket

__all__ = ["ComputePass", "Replayable"]

_Bound = Callable[[int], Value]
_drop = deque[object](maxlen=0).extend  # asks for each item and forgets it


class Replayable(Protocol):
    """The interface of a plan that an encoder needs to replay it."""

    device: DeviceContext
    pipelines: list[Pipeline]
    barrier_count: int

    @property
    def reads(self) -> Sequence[Span]: ...
    @property
    def writes(self) -> Sequence[Span]: ...
    def acquire(self, ticket: Ticket) -> None: ...
    def send(self, mtl: Any) -> None: ...
    def dispatches(self) -> Iterable[tuple[bool, Dispatch]]: ...
    def bound_after(self, slot: int) -> Value: ...
    def launches(self) -> Sequence[PlannedLaunch]: ...


class ComputePass:
    """Opens and ends the compute passes of one command buffer, and sends dispatches to them."""

    __slots__ = (
        "_backend",
        "_earlier",
        "_mtl",
        "_open_pass",
        "_own_passes",
        "_samples",
        "_scope",
        "_device",
        "_ticket",
        "barrier",
        "is_plain",
        "sender",
    )

    def __init__(self, device: DeviceContext, ticket: Ticket) -> None:
        self._backend = device.backend
        self._ticket = ticket
        self._device = device
        self._scope = 0
        """The barrier scope of the open pass: buffers, or buffers and textures."""
        self._samples = ticket.samples
        self._own_passes = self._samples is not None and self._samples.own_passes
        self.is_plain = self._samples is None and device.backend.declare is None
        """Whether dispatches need no sampling and no declarations."""
        self._mtl: Any = None
        self._open_pass: list[Any] = []
        """Holds the open pass; empty if there is none."""
        self._earlier: _Bound = _unbound
        """Bindings from before the current sender was created."""
        self.sender: Sender | None = None
        self.barrier: Callable[[], object] = _no_pass
        """Sends a memory barrier for all resources in scope."""

    @property
    def is_open(self) -> bool:
        return bool(self._open_pass)

    def bound(self, slot: int) -> Value:
        """The value that was bound last at `slot`."""
        value = None if self.sender is None else self.sender.bound(slot)
        return self._earlier(slot) if value is None else value

    def send(self, dispatch: Dispatch, parameters: Parameters | None) -> None:
        """Sends one dispatch, with counter samples around it if dispatches are timed."""
        if dispatch.textures and self._scope != self._device.barrier_scope:
            # Barriers of the pass cover buffers only, so a texture created after the pass began needs a new pass.
            self.end()
        if self._own_passes:
            self._open()
        sender = self.begin(parameters)
        place = self._samples.next() if self._samples is not None and self._samples.in_pass else None
        if place is not None:
            self._mtl.sampleCountersInBuffer_atSampleIndex_withBarrier_(*place, True)
        dispatch.declare(self._backend, self._mtl)
        sender.send(dispatch)
        if place is not None:
            self._mtl.sampleCountersInBuffer_atSampleIndex_withBarrier_(place[0], place[1] + 1, True)
        if self._own_passes:
            self._samples.end_dispatch(self._mtl)

    def begin(self, parameters: Parameters | None) -> Sender:
        """Opens a pass if none is open, and returns the sender that generated code uses."""
        if not self._open_pass:
            self._open()
        if (sender := self.sender) is None:
            self.sender = sender = Sender(self._mtl, self.barrier, parameters, self._ticket.hold)
        return sender

    def replay(self, plan: Replayable, parameters: Parameters | None) -> None:
        """Sends all messages of a plan, dispatch by dispatch if each one is timed."""
        if self._samples is not None:
            for barrier, dispatch in plan.dispatches():
                if barrier:
                    self.barrier()
                self.send(dispatch, parameters)
            return
        if not self._open_pass:
            self._open()
        # Cleared before the first message: a plan that fails halfway leaves unknown state bound.
        self._earlier = plan.bound_after
        self.sender = None
        plan.send(self._mtl)

    def end(self) -> None:
        """Ends the pass, if one is open."""
        if self._open_pass:
            # Bound selectors keep the pass alive, and the pass keeps its command buffer alive.
            self._mtl = self.sender = None
            self.barrier = _no_pass
            # One step, so that after a Ctrl-C the pass is either ended or still known to be open.
            _drop(map(call, (self._open_pass[0].endEncoding, self._open_pass.clear)))

    def set_label(self, label: str) -> None:
        if self._mtl is not None:
            self._mtl.setLabel_(label)

    def _open(self) -> None:
        commands, how = self._ticket.mtl, self._device.concurrent
        if settings.one("force_serial_dispatch"):
            how = (self._backend.Metal.MTLDispatchTypeSerial,)
        with self._backend.autorelease_pool():
            if self._open_pass:
                self._earlier = [self.bound(slot) for slot in range(BUFFER_SLOTS)].__getitem__
                self.end()
            if self._own_passes:
                open_with = commands.computeCommandEncoderWithDescriptor_
                how = (self._samples.next_pass(*how),)
            else:
                open_with = commands.computeCommandEncoderWithDispatchType_
            # A single bytecode step, so that after a Ctrl-C the pass is either closed or known to be open.
            self._open_pass.extend(map(open_with, how))
        opened = self._open_pass[0]
        if opened is None:
            self._open_pass.clear()
            raise BackendError("the device could not create a compute encoder")
        if self._own_passes:
            self._samples.begin_dispatch(opened)
        self._mtl = opened
        self._scope = self._device.barrier_scope
        self.barrier = partial(opened.memoryBarrierWithScope_, self._scope)


def _no_pass() -> None:
    raise EncoderStateError("there is no open pass for a barrier")


def _unbound(_: int) -> Value:
    return None

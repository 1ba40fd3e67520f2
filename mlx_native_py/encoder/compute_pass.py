"""The compute pass of a command buffer: opened when first needed, and spared every message that changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from operator import call
from typing import TYPE_CHECKING, Any, Protocol

from .. import settings
from ..errors import BackendError
from ..hazards.ranges import Span
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import BUFFER_SLOTS, Pipeline
from .launch import Launch
from .ticket import Ticket

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = ["ComputePass", "Replayable"]

Values = list[MlxBuffer | bytes | None]
Send = Callable[..., None]
_SELECTORS = ("_set_pipeline", "_set_buffer", "_set_offset", "_set_bytes", "_by_threads", "_by_threadgroups")


class Replayable(Protocol):
    """What an encoder needs of a plan."""

    device: MlxDevice
    pipelines: list[Pipeline]
    barrier_count: int

    @property
    def reads(self) -> Sequence[Span]: ...
    @property
    def writes(self) -> Sequence[Span]: ...
    def lend(self, ticket: Ticket) -> Iterable[Any]: ...
    def send(self, mtl: Any) -> None: ...
    def send_sampled(self, encode: Callable[..., None], barrier: Callable[[], None]) -> None: ...
    def left(self) -> Values: ...


class ComputePass:
    """Sends a dispatch's messages; remembers what is bound, so that each binding is sent once."""

    __slots__ = (
        "_by_threadgroups",
        "_by_threads",
        "_backend",
        "_earlier",
        "_in_pass",
        "_mtl",
        "_open_pass",
        "_own_passes",
        "_pipeline",
        "_samples",
        "_scope",
        "_sent",
        "_set_buffer",
        "_set_bytes",
        "_set_offset",
        "_set_pipeline",
        "_shared",
        "_ticket",
    )

    def __init__(self, device: MlxDevice, ticket: Ticket) -> None:
        self._backend = device.backend
        self._ticket = ticket
        self._scope = device.backend.Metal.MTLBarrierScopeBuffers
        self._samples = ticket.samples
        self._in_pass = ticket.samples is not None and ticket.samples.in_pass
        self._own_passes = ticket.samples is not None and ticket.samples.own_passes
        self._mtl: Any = None
        self._open_pass: list[Any] = []
        """The pass that has to be ended; empty where none is open."""
        self._sent: Values = [None] * BUFFER_SLOTS
        self._earlier = self._sent
        self._shared: dict[int, int] = {}
        self._pipeline: Pipeline | None = None
        self._set_pipeline: Send
        self._set_buffer: Send
        self._set_offset: Send
        self._set_bytes: Send
        self._by_threads: Send
        self._by_threadgroups: Send

    @property
    def is_open(self) -> bool:
        return bool(self._open_pass)

    def bound(self, slot: int) -> MlxBuffer | bytes | None:
        """What the last dispatch with something at `slot` left there."""
        value = self._sent[slot]
        return self._earlier[slot] if value is None else value

    def encode(self, pipeline: Pipeline, launch: Launch, values: Values) -> None:
        """One dispatch; everything has been checked."""
        if self._mtl is None or self._own_passes:
            self._open()
        if pipeline is not self._pipeline:
            self._set_pipeline(pipeline.mtl)
            self._pipeline = pipeline
        sent = self._sent
        slot = -1
        for value in values:
            slot += 1
            previous = sent[slot]
            if value is previous or value is None:
                continue
            if type(value) is MlxBuffer:
                if type(previous) is not MlxBuffer or previous.mtl is not value.mtl:
                    self._set_buffer(value.mtl, value.offset, slot)
                    self.keep(value.allocation)
                elif previous.offset != value.offset:
                    self._set_offset(value.offset, slot)
            elif type(previous) is not bytes or previous != value:
                self._set_bytes(value, len(value), slot)
            sent[slot] = value
        if launch.shared:
            self._set_shared(launch)
        if self._samples is not None:
            self._sampled(launch)
        elif launch.by_threads:
            self._by_threads(launch.grid, launch.group)
        else:
            self._by_threadgroups(launch.grid, launch.group)

    def replay(self, plan: Replayable) -> None:
        """All messages of a plan; with a sample around each dispatch, they are sent one dispatch at a time."""
        if self._samples is not None:
            plan.send_sampled(self.encode, self.barrier)
            return
        if self._mtl is None:
            self._open()
        # Forgotten before the first message, since a plan that breaks off has set whatever it had come to.
        self._earlier = plan.left()
        self._sent = [None] * BUFFER_SLOTS
        self._shared = {}
        self._pipeline = None
        plan.send(self._mtl)

    def barrier(self) -> None:
        """Of all buffers."""
        self._mtl.memoryBarrierWithScope_(self._scope)

    def end(self) -> None:
        """Ends the pass if one is open."""
        if self._open_pass:
            # Bound selectors hold the pass, and the pass holds its command buffer.
            self._mtl = None
            for selector in _SELECTORS:
                setattr(self, selector, None)
            _in_one_go(self._open_pass[0].endEncoding, self._open_pass.clear)

    def set_label(self, label: str) -> None:
        if self._mtl is not None:
            self._mtl.setLabel_(label)

    def keep(self, allocation: Any) -> None:
        """Holds on to memory until the GPU is done."""
        kept = self._ticket.keep
        if allocation not in kept:
            self._ticket.hold(allocation)
            kept.add(allocation)

    def _open(self) -> None:
        metal, commands = self._backend.Metal, self._ticket.mtl
        concurrent = not settings.current().force_serial_dispatch
        with self._backend.autorelease_pool():
            self.end()
            if self._own_passes:
                open_with, how = commands.computeCommandEncoderWithDescriptor_, self._samples.next_pass(concurrent)
            else:
                open_with = commands.computeCommandEncoderWithDispatchType_
                how = metal.MTLDispatchTypeConcurrent if concurrent else metal.MTLDispatchTypeSerial
            # One step for Python, so that after a Ctrl-C the pass is either not open or known to be.
            self._open_pass.extend(map(open_with, (how,)))
        opened = self._open_pass[0]
        if opened is None:
            self._open_pass.clear()
            raise BackendError("the device gives no compute encoder")
        if self._own_passes:
            self._samples.begin_dispatch(opened)
        self._mtl = opened
        self._earlier = [self.bound(slot) for slot in range(BUFFER_SLOTS)]
        self._sent = [None] * BUFFER_SLOTS
        self._shared = {}
        self._pipeline = None
        # Looking a selector up costs as much as sending it, so each is looked up once per pass.
        self._set_pipeline = opened.setComputePipelineState_
        self._set_buffer = opened.setBuffer_offset_atIndex_
        self._set_offset = opened.setBufferOffset_atIndex_
        self._set_bytes = opened.setBytes_length_atIndex_
        self._by_threads = opened.dispatchThreads_threadsPerThreadgroup_
        self._by_threadgroups = opened.dispatchThreadgroups_threadsPerThreadgroup_

    def _set_shared(self, launch: Launch) -> None:
        for index, length in launch.shared:
            if self._shared.get(index) != length:
                self._mtl.setThreadgroupMemoryLength_atIndex_(length, index)
                self._shared[index] = length

    def _sampled(self, launch: Launch) -> None:
        send = self._by_threads if launch.by_threads else self._by_threadgroups
        place = self._samples.next() if self._in_pass else None
        if place is not None:
            self._mtl.sampleCountersInBuffer_atSampleIndex_withBarrier_(*place, True)
        send(launch.grid, launch.group)
        if place is not None:
            self._mtl.sampleCountersInBuffer_atSampleIndex_withBarrier_(place[0], place[1] + 1, True)
        if self._own_passes:
            self._samples.end_dispatch(self._mtl)


def _in_one_go(*calls: Callable[[], object]) -> None:
    """Calls one after the other without giving Ctrl-C a chance in between."""
    deque(map(call, calls), maxlen=0)

"""The command encoder: one command buffer, one persistent compute pass, one verb to launch kernels."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Sequence
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import counters, settings
from ..errors import EncoderStateError, InvalidArgument
from ..hazards.ranges import BufferRange, MemRangeRole, Span
from ..hazards.tracker import MemRanges
from ..memory.buffer import MlxBuffer
from ..pipelines.pipeline import BUFFER_SLOTS, Pipeline
from .barriers import Barrier
from .compute_pass import ComputePass, Replayable
from .launch import Launch, plan_launch
from .nodes import CapturedBarrier, CapturedDispatch, CapturedNode, CapturedOpKind, RecordedBinding, checked_kind
from .resolver import Resolver, Values
from .ticket import Ticket

if TYPE_CHECKING:
    from ..device import MlxDevice
    from .submissions import Submissions

__all__ = ["CommandEncoder"]

_OTHER = CapturedOpKind.Other


class CommandEncoder:
    """Encodes dispatches into one command buffer; `device.command_encoder()` makes one.

    It belongs to the thread that made it. Used as a context manager it commits and waits at the end of the block;
    an exception in the block, or dropping the encoder, discards the work.

    >>> with device.command_encoder() as enc:
    ...     enc.dispatch(axpy, x, y, 2.0, threads=4)
    >>> y.numpy()
    array([1., 3., 5., 7.], dtype=float32)
    """

    def __init__(
        self, device: MlxDevice, *, auto_barrier: bool | None = None, unretained_refs: bool | None = None
    ) -> None:
        now = settings.current()
        self.device = device
        self.tally = counters.Tally()
        """What this encoder has done."""
        self.mem_ranges = MemRanges()
        """What the dispatches since the last barrier touch."""
        self.barriers: list[Barrier] = []
        """The barriers that were placed here, and why; those inside of a plan are the plan's."""
        self._auto_barrier = now.auto_barrier if auto_barrier is None else auto_barrier
        self._unretained = now.unretained_refs if unretained_refs is None else unretained_refs
        self._profile_cb, self._profile_dispatch = now.profile_cb, now.profile_dispatch
        self._profile_barriers = now.profile_barriers
        self._thread = get_ident()
        self._mine = counters.mine()
        self._queue = device.submissions
        self._resolver = Resolver(device)
        self._pending_kind = _OTHER
        self._captured: list[CapturedNode] | None = None
        self.temporaries: list[MlxBuffer] = []
        """What `empty` made since the capture began."""
        self._begin()

    def _begin(self) -> None:
        """A fresh command buffer, and everything that belongs to it."""
        self.device.require_open()
        ticket = self._queue.begin(unretained=self._unretained)
        try:
            ticket.timed = self._profile_cb
            if self._profile_dispatch:
                ticket.samples = self._queue.samples.samples()
            opened = ComputePass(self.device, ticket)
            self._end = weakref.finalize(self, _give_up, self._queue, ticket, opened)
        except BaseException:
            self._queue.abandon(ticket)
            raise
        self._ticket = ticket
        self._pass = self._resolver.opened = opened
        self.mem_ranges.reset()
        self._owner = self._thread
        self.tally.cmd_bufs += 1
        self._mine.cmd_bufs += 1

    # Encoding

    def dispatch(
        self,
        pipeline: Pipeline,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        shared: Any = (),
        reads: Iterable[MlxBuffer] | None = None,
        writes: Iterable[MlxBuffer] | None = None,
        kind: CapturedOpKind = _OTHER,
    ) -> None:
        """Launches a kernel over a grid of `threads`, or of `threadgroups` of `group` threads each.

        The position of an argument is its slot: a buffer or view, a number (or numbers, for a vector) of the type that
        the kernel declares, bytes, or None, which leaves the slot as it is. `shared` has the bytes of each threadgroup
        argument. What the kernel reads and writes follows from its signature; `Out` and `reads`, `writes` narrow it.
        """
        if get_ident() != self._owner:
            raise self._refusal("dispatch")
        try:
            launch = pipeline.launches[threads, threadgroups, group, shared]
        except (KeyError, TypeError, AttributeError):
            launch = plan_launch(pipeline, threads, threadgroups, group, shared)
        values, read, written = self._resolver.resolve(pipeline, args)
        declared: tuple[MlxBuffer, ...] = ()
        if reads is not None:
            read, declared = self._resolver.spans(reads)
        if writes is not None:
            written, more = self._resolver.spans(writes)
            declared += more
        if kind is not _OTHER or self._pending_kind is not _OTHER:
            kind, self._pending_kind = checked_kind(self._pending_kind if kind is _OTHER else kind), _OTHER
        self.tally.dispatches += 1
        self._mine.dispatches += 1
        if self._captured is not None:
            self._capture(pipeline, launch, values, read, written, kind, declared)
        else:
            self._encode(pipeline, launch, values, read, written, kind)

    def empty(self, shape: int | Sequence[int], dtype: Any) -> MlxBuffer:
        """A buffer for what is computed here; a capture remembers that nothing before it could know this memory.

        >>> enc.empty((2, 3), "f16")
        MlxBuffer(f16[2, 3], 12 bytes)
        """
        made = self.device.empty(shape, dtype)
        if self._captured is not None:
            self.temporaries.append(made)
        return made

    def replay_dispatch(self, node: CapturedDispatch) -> None:
        """Encodes a captured dispatch, also while capturing; it was counted when it was captured."""
        if get_ident() != self._owner:
            raise self._refusal("replay_dispatch")
        if not isinstance(node, CapturedDispatch):
            raise InvalidArgument(f"replay_dispatch takes a CapturedDispatch, not {node!r}")
        self._resolver.own(node.pipeline)
        values: Values = [None] * len(node.pipeline.buffers)
        for binding in node.bindings:
            if isinstance(binding.value, MlxBuffer):
                self._resolver.check(node.pipeline, binding.slot, binding.value)
            values[binding.slot] = binding.value
        for buffer in node.declared:
            self._pass.keep(buffer.allocation)
        kind, self._pending_kind = self._pending_kind, _OTHER
        read, written = [each.span for each in node.reads], [each.span for each in node.writes]
        self._encode(node.pipeline, node.launch, values, read, written, node.op_kind if kind is _OTHER else kind)

    def replay_plan(self, plan: Replayable) -> None:
        """Encodes a plan; its dispatches were counted when they were captured, its barriers count now."""
        if get_ident() != self._owner:
            raise self._refusal("replay_plan")
        if self._captured is not None:
            raise EncoderStateError("a plan cannot be captured; replay it on an encoder that is not capturing")
        if plan.device is not self.device:
            raise InvalidArgument("this plan was made for another device")
        ticket = self._ticket
        # Whatever can be refused comes before anything is recorded.
        for each in plan.lend(ticket):
            self._pass.keep(each)
        conflict = self.mem_ranges.track(plan.reads, plan.writes, len(ticket.dispatches))
        if conflict is not None:
            self._barrier(Barrier(len(ticket.dispatches), ticket, conflict))
        ticket.dispatches.extend(plan.pipelines)
        self._pass.replay(plan)
        self.tally.barriers += plan.barrier_count
        self._mine.barriers += plan.barrier_count

    def memory_barrier(self) -> None:
        """Orders the dispatches before it before those after it; without an open pass there is nothing to order."""
        if get_ident() != self._owner:
            raise self._refusal("memory_barrier")
        if self._captured is not None:
            self._captured.append(CapturedBarrier())
        elif self._pass.is_open:
            self._barrier(Barrier(len(self._ticket.dispatches), self._ticket))
            self.mem_ranges.reset()

    def force_barrier_and_reset_tracker(self) -> None:
        """A barrier, after which nothing before it can conflict; `memory_barrier` does the same."""
        self.memory_barrier()
        self.mem_ranges.reset()

    def mem_ranges_len(self) -> int:
        """How many ranges the tracker holds."""
        return self.mem_ranges.len()

    def set_op_kind(self, kind: CapturedOpKind) -> None:
        """Tags the next dispatch; the `kind` argument of `dispatch` says it in one go, and goes first."""
        if get_ident() != self._owner:
            raise self._refusal("set_op_kind")
        self._pending_kind = checked_kind(kind)

    # Capture

    def start_capture(self) -> None:
        """From now on dispatches and barriers become nodes instead of GPU commands."""
        if get_ident() != self._owner:
            raise self._refusal("start_capture")
        if self._captured:
            raise EncoderStateError(f"a capture of {len(self._captured)} nodes is under way; take_capture() first")
        self._captured = []
        self.temporaries = []
        self._resolver.captured = [None] * BUFFER_SLOTS

    def is_capturing(self) -> bool:
        return self._captured is not None

    def take_capture(self) -> list[CapturedNode] | None:
        """The nodes, and the end of capture mode; None outside of it."""
        if get_ident() != self._thread:
            raise self._refusal("take_capture")
        nodes, self._captured, self._resolver.captured = self._captured, None, None
        return nodes

    # Committing

    def commit(self, label: str | None = None) -> Ticket:
        """Submits the work and returns at once; the ticket tells when it is done.

        >>> enc = device.command_encoder()
        >>> ticket = enc.commit(label="nothing to do")
        >>> ticket.wait(timeout=10.0)
        >>> ticket.done()
        True
        """
        if get_ident() != self._owner:
            raise self._refusal("commit")
        self._apply_label(label)
        self._submit()
        return self._ticket

    def commit_and_wait(self, label: str | None = None) -> None:
        """Submits the work and returns when it is done; raises what went wrong."""
        if get_ident() != self._owner:
            raise self._refusal("commit_and_wait")
        self.tally.syncs += 1
        self._mine.syncs += 1
        self.commit(label).wait()

    def commit_wait_with_gpu_time(self, label: str | None = None) -> tuple[float, float]:
        """`commit_and_wait`, and when the GPU began and ended, in seconds."""
        self.commit_and_wait(label)
        return self._ticket.gpu_interval

    def wait_until_completed(self, timeout: float | None = None) -> None:
        """Waits for committed work; `timeout` in seconds."""
        if not self._ticket.is_submitted:
            raise self._refusal("wait_until_completed")
        self._ticket.wait(timeout)

    @property
    def ticket(self) -> Ticket:
        """That of the current command buffer, committed or not."""
        return self._ticket

    def metal_command_buffer(self) -> Any:
        """The MTLCommandBuffer, or None once it is done with."""
        return self._ticket.mtl

    @property
    def is_recording(self) -> bool:
        """Whether it takes dispatches: neither committed nor discarded."""
        return self._owner == self._thread

    def discard(self) -> None:
        """Ends the pass and drops the work; a second time, or after a commit, there is nothing left to drop."""
        if self.is_recording:
            if get_ident() != self._owner:
                raise self._refusal("discard")
            self._owner = 0
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self.discard()
        elif self.is_recording:
            self.commit_and_wait()

    def __repr__(self) -> str:
        state = "recording" if self.is_recording else "committed" if self._ticket.is_submitted else "discarded"
        return f"<CommandEncoder, {state}, {len(self._ticket.dispatches)} dispatches, {len(self.barriers)} barriers>"

    def _encode(
        self, pipeline: Pipeline, launch: Launch, values: Values, read: list[Span], written: list[Span], kind: Any
    ) -> None:
        ticket = self._ticket
        index = len(ticket.dispatches)
        if kind is not _OTHER:
            ticket.kinds[index] = kind
        if self._auto_barrier:
            conflict = self.mem_ranges.track(read, written, index)
            if conflict is None:
                self.tally.auto_concurrent += 1
                self._mine.auto_concurrent += 1
            else:
                self.tally.auto_barriers += 1
                self._mine.auto_barriers += 1
                self._barrier(Barrier(index, ticket, conflict))
        ticket.dispatches.append(pipeline)
        self._pass.encode(pipeline, launch, values)

    def _barrier(self, barrier: Barrier) -> None:
        begin = time.perf_counter_ns() if self._profile_barriers else 0
        self._pass.barrier()
        if self._profile_barriers:
            spent = time.perf_counter_ns() - begin
            self.tally.barrier_ns += spent
            self._mine.barrier_ns += spent
        self.tally.barriers += 1
        self._mine.barriers += 1
        self.barriers.append(barrier)

    def _capture(
        self,
        pipeline: Pipeline,
        launch: Launch,
        values: Values,
        read: list[Span],
        written: list[Span],
        kind: Any,
        declared: tuple[MlxBuffer, ...],
    ) -> None:
        bindings = tuple(RecordedBinding(slot, value) for slot, value in enumerate(values) if value is not None)
        reads = tuple(BufferRange(*span, MemRangeRole.Src) for span in read)
        writes = tuple(BufferRange(*span, MemRangeRole.Dst) for span in written)
        self._resolver.note(bindings)
        if self._captured is not None:
            self._captured.append(CapturedDispatch(pipeline, bindings, launch, kind, reads, writes, declared))

    def _apply_label(self, label: str | None) -> None:
        if label is None:
            return
        if not isinstance(label, str) or not label:
            raise InvalidArgument(f"a label is a non-empty str, not {label!r}")
        self._ticket.label = label
        with self.device.backend.autorelease_pool():
            self._ticket.mtl.setLabel_(label)
            self._pass.set_label(label)

    def fence_and_commit(self, event: Any, value: int, label: str | None = None) -> Ticket:
        """For sessions: submits the work, which signals `value` of an MTLEvent when it is done."""
        if get_ident() != self._owner:
            raise self._refusal("fence_and_commit")
        self._apply_label(label)
        self.device.require_open()
        self._pass.end()
        self._ticket.mtl.encodeSignalEvent_value_(event, value)
        self._ticket.fence = (event, value)
        self._submit()
        return self._ticket

    def next_command_buffer(self, event: Any = None, value: int = 0) -> None:
        """For sessions: after a commit, goes on in a fresh command buffer, which may begin when `event` has `value`."""
        if self.is_recording or get_ident() != self._thread:
            raise EncoderStateError("the next command buffer comes after a commit, in the encoder's own thread")
        self._begin()
        if event is not None:
            self._ticket.keep.add(event)
            self._ticket.mtl.encodeWaitForEvent_value_(event, value)

    def _submit(self) -> None:
        self.device.require_open()
        self._pass.end()
        self._owner = 0
        self._queue.submit(self._ticket)
        self._end.detach()

    def _refusal(self, call: str) -> EncoderStateError:
        if self._ticket.is_closed and not self._ticket.is_submitted:
            return EncoderStateError(f"{call}: this encoder was discarded; make another one")
        if call == "wait_until_completed":
            return EncoderStateError("wait_until_completed before commit would never end")
        if self._ticket.is_submitted:
            return EncoderStateError(f"{call}: {self._ticket.describe()} is committed already; make another encoder")
        return EncoderStateError(
            f"{call} from thread {get_ident()}: this encoder belongs to thread {self._thread}; make one per thread"
        )


def _give_up(queue: Submissions, ticket: Ticket, opened: ComputePass) -> None:
    """Ends a pass that nobody will, since Metal aborts the process where one is dropped open."""
    opened.end()
    queue.abandon(ticket)

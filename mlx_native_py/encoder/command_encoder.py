"""The command encoder: one command buffer, one persistent compute pass, one verb to launch kernels."""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from .. import counters, settings
from ..buffer import MlxBuffer
from ..errors import EncoderStateError, InvalidArgument
from ..hazards import BufferRange, MemRangeRole, Span
from ..mem_ranges import MemRanges
from ..pipeline import Pipeline
from .arguments import Out, argument, refuse_count
from .barriers import Barrier
from .compute_pass import ComputePass
from .launch import Launch, plan_launch
from .nodes import CapturedBarrier, CapturedDispatch, CapturedNode, CapturedOpKind, Dispatched, RecordedBinding
from .ticket import Ticket

if TYPE_CHECKING:
    from ..device import MlxDevice
    from .submissions import Submissions

__all__ = ["CommandEncoder"]

_OTHER = CapturedOpKind.Other
Values = list[MlxBuffer | bytes | None]


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
        """Every barrier of the pass, and why it is there."""
        self._auto_barrier = now.auto_barrier if auto_barrier is None else auto_barrier
        self._unretained = now.unretained_refs if unretained_refs is None else unretained_refs
        self._profile_cb, self._profile_dispatch = now.profile_cb, now.profile_dispatch
        self._profile_barriers = now.profile_barriers
        self._thread = get_ident()
        self._mine = counters.mine()
        self._queue = device.submissions
        self._residency = device.residency
        self._pending_kind = _OTHER
        self._captured: list[CapturedNode] | None = None
        self._capture_bound: Values = []
        self._begin()

    def _begin(self) -> None:
        """A fresh command buffer, and everything that belongs to it."""
        self._ticket = self._queue.begin(unretained=self._unretained)
        self._ticket.timed = self._profile_cb
        if self._profile_dispatch:
            self._ticket.samples = self._queue.samples.samples()
        self._pass = ComputePass(self.device, self._ticket)
        self._end = weakref.finalize(self, _give_up, self._queue, self._ticket, self._pass)
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
        except (KeyError, TypeError):
            launch = plan_launch(pipeline, threads, threadgroups, group, shared)
        values, read, written = self._resolve(pipeline, args)
        if reads is not None:
            read = self._spans(reads)
        if writes is not None:
            written = self._spans(writes)
        if self._pending_kind is not _OTHER:
            kind, self._pending_kind = (self._pending_kind if kind is _OTHER else kind), _OTHER
        self.tally.dispatches += 1
        self._mine.dispatches += 1
        if self._captured is not None:
            self._capture(pipeline, launch, values, read, written, kind)
        else:
            self._encode(pipeline, launch, values, read, written, kind)

    def replay_dispatch(self, node: CapturedDispatch) -> None:
        """Encodes a captured dispatch, also while capturing; it was counted when it was captured."""
        if get_ident() != self._owner:
            raise self._refusal("replay_dispatch")
        if not isinstance(node, CapturedDispatch):
            raise InvalidArgument(f"replay_dispatch takes a CapturedDispatch, not {node!r}")
        values: Values = [None] * len(node.pipeline.buffers)
        for binding in node.bindings:
            if isinstance(binding.value, MlxBuffer):
                argument(node.pipeline, binding.slot, binding.value, None, self._spill)
            values[binding.slot] = binding.value
        kind, self._pending_kind = self._pending_kind, _OTHER
        read, written = [each.span for each in node.reads], [each.span for each in node.writes]
        self._encode(node.pipeline, node.launch, values, read, written, node.op_kind if kind is _OTHER else kind)

    def memory_barrier(self) -> None:
        """Orders the dispatches before it before those after it; without an open pass there is nothing to order."""
        if get_ident() != self._owner:
            raise self._refusal("memory_barrier")
        if self._captured is not None:
            self._captured.append(CapturedBarrier())
        elif self._pass.is_open:
            self._barrier(Barrier(len(self._ticket.dispatches)))
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
        self._pending_kind = kind

    # Capture

    def start_capture(self) -> None:
        """From now on dispatches and barriers become nodes instead of GPU commands."""
        if get_ident() != self._owner:
            raise self._refusal("start_capture")
        if self._captured:
            raise EncoderStateError(f"a capture of {len(self._captured)} nodes is under way; take_capture() first")
        self._captured = []
        self._capture_bound = [None] * 31

    def is_capturing(self) -> bool:
        return self._captured is not None

    def take_capture(self) -> list[CapturedNode] | None:
        """The nodes, and the end of capture mode; None outside of it."""
        nodes, self._captured = self._captured, None
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

    @property
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

    # Inside

    def _resolve(self, pipeline: Pipeline, args: tuple[Any, ...]) -> tuple[Values, list[Span], list[Span]]:
        """What to bind at each slot, and the spans that are read and written; nothing has been sent yet."""
        if len(args) != len(pipeline.specs):
            raise refuse_count(pipeline, args)
        values: Values = []
        read: list[Span] = []
        written: list[Span] = []
        residency = self._residency
        for spec, arg in zip(pipeline.specs, args, strict=True):
            if type(arg) is not MlxBuffer or spec is None:
                self._convert(pipeline, arg, values, read, written)
                continue
            size, misaligned, reading, writing = spec
            home = arg.allocation
            if arg.nbytes < size or arg.offset & misaligned or home.released or (writing and home.readonly):
                argument(pipeline, len(values), arg, None, self._spill)
            if home.residency is not residency:
                raise InvalidArgument(f"kernel {pipeline.label!r}: {arg!r} belongs to another device")
            values.append(arg)
            if reading:
                read.append(arg.span)
            if writing:
                written.append(arg.span)
        return values, read, written

    def _convert(self, pipeline: Pipeline, arg: Any, values: Values, read: list[Span], written: list[Span]) -> None:
        """Whatever is not simply a buffer."""
        slot = len(values)
        current = self._pass.bound(slot) if self._captured is None else self._capture_bound[slot]
        value = argument(pipeline, slot, arg, current, self._spill)
        values.append(value)
        if isinstance(value, MlxBuffer):
            if value.allocation.residency is not self._residency:
                raise InvalidArgument(f"kernel {pipeline.label!r}: {value!r} belongs to another device")
            binding = pipeline.buffers[slot]
            if binding is not None and binding.reads and not isinstance(arg, Out):
                read.append(value.span)
            if binding is not None and binding.writes:
                written.append(value.span)

    def _spans(self, buffers: Iterable[MlxBuffer]) -> list[Span]:
        """Of what the caller says is touched; it need not be bound, so it is kept alive here."""
        found = []
        for each in buffers:
            if not isinstance(each, MlxBuffer):
                raise InvalidArgument(f"reads= and writes= take buffers and views, not {each!r}")
            each.allocation.require_live()
            self._pass.keep(each.allocation)
            found.append(each.span)
        return found

    def _spill(self, data: bytes) -> MlxBuffer:
        return self.device.buffer(data)

    def _encode(
        self, pipeline: Pipeline, launch: Launch, values: Values, read: list[Span], written: list[Span], kind: Any
    ) -> None:
        ticket = self._ticket
        this = Dispatched(len(ticket.dispatches), pipeline, kind)
        if self._auto_barrier:
            conflict = self.mem_ranges.track(read, written, this)
            if conflict is None:
                self.tally.auto_concurrent += 1
                self._mine.auto_concurrent += 1
            else:
                self.tally.auto_barriers += 1
                self._mine.auto_barriers += 1
                self._barrier(Barrier(this.index, conflict))
        ticket.dispatches.append(this)
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
        self, pipeline: Pipeline, launch: Launch, values: Values, read: list[Span], written: list[Span], kind: Any
    ) -> None:
        bindings = []
        for slot, value in enumerate(values):
            if value is not None:
                self._capture_bound[slot] = value
                bindings.append(RecordedBinding(slot, value))
        reads = tuple(BufferRange(*span, MemRangeRole.Src) for span in read)
        writes = tuple(BufferRange(*span, MemRangeRole.Dst) for span in written)
        nodes = self._captured
        assert nodes is not None
        nodes.append(CapturedDispatch(pipeline, tuple(bindings), launch, kind, reads, writes))

    def _apply_label(self, label: str | None) -> None:
        if label is None:
            return
        if not isinstance(label, str) or not label:
            raise InvalidArgument(f"a label is a non-empty str, not {label!r}")
        self._ticket.label = label
        self._ticket.mtl.setLabel_(label)
        self._pass.set_label(label)

    def _submit(self) -> None:
        self.device.require_open()
        self._pass.end()
        self._queue.submit(self._ticket)
        self._owner = 0
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

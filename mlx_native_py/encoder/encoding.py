"""Encoding into a command buffer: dispatches, automatic barriers, capture and replay."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from threading import get_ident
from typing import Any, cast

from .. import counters, settings
from ..dtypes import DType
from ..errors import EncoderStateError, InvalidArgument
from ..hazards.tracker import MemoryUse, MemRanges
from ..memory.buffer import MlxBuffer
from ..memory.shapes import as_shape
from ..memory.signature import Signature, signature_of
from ..pipelines.pipeline import Pipeline
from .barriers import Barrier
from .bind import bind, require_device, revalidate
from .compute_pass import ComputePass, Replayable
from .context import DeviceContext
from .dispatch import CapturedNode, CapturedOpKind, Dispatch, DispatchOptions, checked_kind
from .generate import Aliased, encoder, pattern_of_arguments
from .launch import Launch, Launchable, is_nothing, pipeline_of, plan_launch
from .named import take_named
from .recorder import Recorder
from .sender import Sender
from .tally import EncoderTally
from .ticket import Ticket

__all__ = ["DispatchEncoder"]

_OTHER = CapturedOpKind.Other
_NO_OPTIONS: DispatchOptions = {}


class DispatchEncoder:
    """Encodes dispatches; its subclass `CommandEncoder` opens and submits the command buffers."""

    ticket: Ticket
    """The ticket of the current command buffer, committed or not."""
    _pass: ComputePass
    _is_plain: bool
    """Whether dispatches need nothing but automatic barriers."""

    def __init__(self, device: DeviceContext, auto_barrier: bool | None) -> None:
        self._settings = now = settings.current()
        self.device = device
        self.mem_ranges = MemRanges()
        """The hazard tracker of the current command buffer."""
        self._tally = EncoderTally(tracker=self.mem_ranges)
        counters.open_tally(self, self._tally)
        self.owner = 0
        """The thread that may use generated code; 0 while the encoder is closed, capturing or timed."""
        self.sender: Sender | None = None
        """The state of the open pass, for generated code."""
        self._auto_barrier = now.auto_barrier if auto_barrier is None else auto_barrier
        self._profile_barriers = now.profile_barriers
        self._thread = get_ident()
        self._recording = False
        self._parameters = device.parameters
        self._pending_kind = _OTHER
        self._recorder: Recorder | None = None
        self._unexpanded: Replayable | None = None
        self._tickets: list[Ticket] = []
        """Tickets of all command buffers so far that have barriers, and the current one."""

    @property
    def tally(self) -> counters.Tally:
        """A copy of this encoder's counters."""
        self._tally.settle()
        return self._tally + counters.Tally()

    def dispatch(
        self,
        kernel: Pipeline | Launchable,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        **options: Any,
    ) -> None:
        """Launches a kernel over `threads` threads, or over `threadgroups` groups of `group` threads each.

        Arguments are positional by slot, or keywords by the kernel's parameter names: a buffer or view, a number (or a
        sequence of numbers for a vector), bytes, or None to keep what is bound. `shared` gives the bytes of each
        threadgroup argument. Reads and writes follow from the kernel's signature; `Out`, `reads` and `writes` narrow
        them. A grid of zero threads does nothing.
        """
        pipeline: Any = kernel  # most often it is one; what is not fails at the first look-up
        encode: Any = None
        try:
            if threadgroups is None and group is None and not options:
                launch, encode = pipeline.thread_launches[threads], pipeline.encode
            elif not options:
                launch, encode = pipeline.launches[threads, threadgroups, group, ()], pipeline.encode
        except (KeyError, TypeError, AttributeError):
            pass
        if encode is None:
            self._dispatch(kernel, args, threads, threadgroups, group, options)
        else:
            encode(self, launch, args)

    def _dispatch(
        self,
        kernel: Pipeline | Launchable,
        args: tuple[Any, ...],
        threads: Any,
        threadgroups: Any,
        group: Any,
        options: dict[str, Any],
    ) -> None:
        """The slow path of `dispatch`: options, new launch shapes, or a `Kernel` instead of a pipeline."""
        self._require("dispatch")
        pipeline = pipeline_of(kernel, self.device)
        args = take_named(pipeline, args, options)
        if is_nothing(threads, threadgroups):
            return
        shared = options.get("shared", ())
        try:
            launch = pipeline.launches[threads, threadgroups, group, shared]
        except (KeyError, TypeError):
            launch = plan_launch(pipeline, threads, threadgroups, group, shared)
        if pipeline.encode is None or options.keys() - {"shared"}:
            self.dispatch_slowly(pipeline, launch, args, cast(DispatchOptions, options))
        else:
            pipeline.encode(self, launch, args)

    def dispatch_slowly(
        self, pipeline: Pipeline, launch: Launch, args: Sequence[Any], options: DispatchOptions = _NO_OPTIONS
    ) -> None:
        """Dispatches through a bound value; the next call with the same argument pattern uses generated code."""
        pattern = pattern_of_arguments(pipeline, args)
        known = pipeline.encoders.get((pattern, self._parameters is not None))
        if known is not None and not options and (self.open_fast_path() or self.owner and known is not pipeline.encode):
            pipeline.encode = known
            known(self, launch, args)
            return
        self._require("dispatch")
        kind = checked_kind(options.get("kind", _OTHER))
        if kind is _OTHER:
            kind = self._pending_kind
        self._pending_kind = _OTHER
        reads, writes = options.get("reads"), options.get("writes")
        if self._recorder is not None:
            self._recorder.record(pipeline, launch, args, reads, writes, kind)
            return
        bound = self._pass.bound
        dispatch = bind(self.device, pipeline, args, launch, reads=reads, writes=writes, kind=kind, bound=bound)
        self._encode(dispatch, counts=True)
        if pattern is not None:
            pipeline.encode = encoder(pipeline, pattern, arena=self._parameters is not None)

    def open_fast_path(self) -> bool:
        """Opens the pass so that generated code may send to it; returns whether it did."""
        if self.owner or not self._recording or get_ident() != self._thread or not self._is_plain:
            return False
        if self._recorder is not None or self._unexpanded or self._pending_kind is not _OTHER:
            return False
        self.sender = self._pass.begin(self._parameters)
        self.owner = self._thread
        return True

    def _encode(self, dispatch: Dispatch, *, counts: bool) -> None:
        reads, writes = dispatch.spans
        for buffer in dispatch.buffers:
            self.ticket.hold(buffer.allocation)
        self._expand_plan()
        tracker = self.mem_ranges
        if self._auto_barrier and tracker.meets(reads, writes):
            self._barrier()
            tracker.force()
        tracker.record(reads, writes, dispatch.pipeline)
        self._tally.skip()
        self._tally.dispatches += counts
        self._tally.auto_concurrent += self._auto_barrier
        if dispatch.op_kind is not _OTHER:
            self.ticket.kinds[len(tracker.log) - 1] = dispatch.op_kind
        self._pass.send(dispatch, self._parameters)
        self.sender = self._pass.sender
        if self._is_plain and self._recorder is None:
            self.owner = self._thread

    def touch(self, pipeline: Pipeline, buffer: MlxBuffer) -> MemoryUse:
        """For generated code: registers the first use of a buffer's memory in this command buffer."""
        allocation, tracker, ticket = buffer.allocation, self.mem_ranges, self.ticket
        memory, uses = allocation.memory, tracker.uses
        if allocation.residency is not self.device.residency:
            require_device(self.device, pipeline, buffer)
        if memory.aliases:
            for alias in memory.aliases:
                if (other := alias()) in uses:
                    uses[other].tracker = None
            raise Aliased
        if allocation.released:
            allocation.require_live()
        if allocation not in ticket.keep:
            allocation.hold(ticket)
            ticket.keep.add(allocation)
        if (use := uses.get(memory)) is None:
            use = MemoryUse()
            use.tracker, uses[memory] = tracker, use
        allocation.use = use
        return use

    def _barrier(self) -> None:
        """Sends a barrier to the pass, and times it if that is enabled."""
        if not self._profile_barriers:
            self._pass.barrier()
            return
        begin = time.perf_counter_ns()
        self._pass.barrier()
        self._tally.barrier_ns += time.perf_counter_ns() - begin

    def empty(self, shape: int | Sequence[int], dtype: Any) -> MlxBuffer:
        """A result buffer with undefined contents, from recycled memory if there is some."""
        if self._recorder is not None:
            return self._recorder.empty(shape, dtype)
        return self.result(signature_of(DType.of(dtype), as_shape(shape)[0]))

    def result(self, signature: Signature) -> MlxBuffer:
        """For recorded ops: `empty` by signature. No other dispatch knows the memory, so its first use is not
        checked."""
        buffer = self.device.recycler.take(signature)
        if self._recording:
            ticket, allocation, tracker = self.ticket, buffer.allocation, self.mem_ranges
            ticket.results.append(buffer)
            ticket.keep.add(allocation)
            allocation.pending = ticket
            allocation.use = use = MemoryUse()
            use.tracker, tracker.uses[buffer.span[0]] = tracker, use
        return buffer

    def memory_barrier(self) -> None:
        """Inserts a memory barrier; does nothing if no pass is open."""
        self._require("memory_barrier")
        if self._recorder is not None:
            self._recorder.memory_barrier()
        elif self._pass.is_open:
            self._barrier()
            self._unexpanded = None
            self.mem_ranges.force_by_hand()

    @property
    def barriers(self) -> list[Barrier]:
        """The barriers of this encoder and their reasons; barriers inside plans belong to the plans."""
        return [Barrier(ticket, *each) for ticket in self._tickets for each in ticket.barriers]

    def set_op_kind(self, kind: CapturedOpKind) -> None:
        """Tags the next dispatch, unless that call passes `kind` itself."""
        self._require("set_op_kind")
        self._pending_kind = checked_kind(kind)
        self.owner = 0

    # Replay

    def replay_dispatch(self, dispatch: Dispatch) -> None:
        """Encodes a recorded dispatch, even while capturing; it is not counted again."""
        self._require("replay_dispatch")
        if not isinstance(dispatch, Dispatch):
            raise InvalidArgument(f"replay_dispatch takes a Dispatch, not {dispatch!r}")
        revalidate(self.device, dispatch)
        if self._pending_kind is not _OTHER:
            dispatch, self._pending_kind = replace(dispatch, op_kind=self._pending_kind), _OTHER
        self._encode(dispatch, counts=False)

    def replay_plan(self, plan: Replayable) -> None:
        """Encodes a plan; its dispatches were counted when they were recorded, its barriers are counted now."""
        self._require("replay_plan")
        if self._recorder is not None:
            raise EncoderStateError("a plan cannot be captured; replay it on an encoder that is not capturing")
        if plan.device is not self.device:
            raise InvalidArgument("this plan was made for another device")
        # All checks come before anything is recorded.
        plan.acquire(self.ticket)
        tracker = self.mem_ranges
        if len(tracker.log) > tracker.since:
            self._expand_plan()
            if tracker.meets(plan.reads, plan.writes):
                self._barrier()
                tracker.force()
                self._tally.skip_hazard()
        if self.ticket.notes is not None:
            self.ticket.notes.plans[len(tracker.log)] = plan.launches()
        tracker.log.append((plan.pipelines, plan.reads, plan.writes))
        self._tally.skip()
        self._unexpanded = plan
        self.owner = 0
        self._pass.replay(plan, self._parameters)
        self.sender = self._pass.sender
        self._tally.barriers += plan.barrier_count

    def _expand_plan(self) -> None:
        """Records the accesses of the last plan in the tracker, once something follows it."""
        if self._unexpanded is not None:
            self.mem_ranges.note(self._unexpanded.reads, self._unexpanded.writes)
            self._unexpanded = None

    # Capture

    def start_capture(self) -> None:
        """Records dispatches and barriers from now on instead of sending them; see also `device.capture()`."""
        self._require("start_capture")
        if self._recorder is not None and self._recorder.nodes:
            raise EncoderStateError(
                f"a capture of {len(self._recorder.nodes)} nodes is under way; take_capture() first"
            )
        self._recorder = Recorder(self.device, self._tally)
        self.owner = 0

    def is_capturing(self) -> bool:
        return self._recorder is not None

    def take_capture(self) -> list[CapturedNode] | None:
        """Ends the capture and returns its nodes; None if there was no capture."""
        if get_ident() != self._thread:
            raise self._refusal("take_capture")
        recorder, self._recorder = self._recorder, None
        return None if recorder is None else recorder.nodes

    def _require(self, call: str) -> None:
        if not self._recording or get_ident() != self._thread:
            raise self._refusal(call)

    def _refusal(self, call: str) -> EncoderStateError:
        if self.ticket.is_closed and not self.ticket.is_submitted:
            return EncoderStateError(f"{call}: this encoder was discarded; make another one")
        if call == "wait_until_completed":
            return EncoderStateError("wait_until_completed before commit would never end")
        if self.ticket.is_submitted:
            return EncoderStateError(f"{call}: {self.ticket.describe()} is committed already; make another encoder")
        return EncoderStateError(
            f"{call} from thread {get_ident()}: this encoder belongs to thread {self._thread}; make one per thread"
        )

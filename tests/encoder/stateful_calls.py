"""Legal calls in any order, on any thread, against a model; what the state forbids has to be refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from kit.encoding import Namespace
from kit.programs import numbers, pipelines
from kit.validation import guarded

from encoder.stateful_chaos import Bench
from encoder.stateful_draws import either_of, flag, rule, several, together, whole
from encoder.stateful_model import WORDS, Block, Encoder, Session, Step, View, refused, step
from mlx_native_py import EncoderStateError, InvalidArgument, WaitTimeout, settings, softmetal
from mlx_native_py.encoder import CapturedBarrier, Dispatch
from mlx_native_py.metal import open_metal

PICK = whole(0, 7)
SPAN = together(PICK, either_of(range(0, WORDS, 8)), either_of([8, 16, WORDS, 5]))
KERNELS = either_of(["fill", "twist", "add", "axpy", "table", "total"])


class World:
    """What all sequences share."""

    def __init__(self, residency: bool = True) -> None:
        profile = softmetal.DeviceProfile(residency_sets=residency)
        options = softmetal.SoftOptions(schedule="shuffled:5")
        backend = open_metal("soft")
        self.device, self.layer = guarded(
            type(backend)("soft", Namespace(profile, options), backend.autorelease_pool, backend.url)
        )
        other, _ = guarded(backend)
        names = ("fill", "twist", "add", "axpy", "table", "total", "wide", "gap", "narrow")
        self.kernels = dict(zip(names, pipelines(self.device, *names), strict=True))
        scratch = self.device.empty(1 << 14, "u32")
        self.bench = Bench(self.device, other, self.kernels, scratch, numbers(other, 1, 2, 3, 4))
        self.sequences = self.steps = self.refusals = 0


worlds: list[World] = []


class Calls:
    """Encoders, sessions, buffers, pools, captures and threads, used and misused in any order."""

    def __init__(self) -> None:
        self.world = worlds[0]
        self.world.sequences += 1
        self.world.layer.violations.clear()
        self.device = self.world.device
        self.pool = self.device.buffer_pool(zero=True)
        self.encoders: list[Encoder] = []
        self.sessions: list[Session] = []
        self.nodes: list[tuple[Any, Step | None]] = []
        self.lent: list[Block] = []
        self.blocks = [self._block(), self._block()]
        self.encoder(by_hand=False, unretained=True, profiled=False)
        self.session(unretained=False)

    def _block(self) -> Block:
        return Block(self.device.alloc_buffer(4 * WORDS, "u32", WORDS), np.zeros(WORDS, np.uint32))

    def _view(self, span: tuple[int, int, int]) -> View:
        which, start, count = span
        return View(self.blocks[which % len(self.blocks)], start, min(count, WORDS - start))

    def _pick(self, things: list[Any], which: int) -> Any:
        return things[which % len(things)]

    def _encoder(self, which: int) -> Encoder:
        """One that is recording, mostly; a new one where all are committed."""
        recording = [each for each in self.encoders if each.recording]
        if which < 6 and not recording:
            self.encoder(by_hand=which % 2 == 1, unretained=which > 2, profiled=which % 3 == 0)
            return self.encoders[-1]
        return self._pick(recording if which < 6 else self.encoders, which)  # type: ignore[no-any-return]

    # Memory

    @rule()
    def allocate(self) -> None:
        self.blocks.append(self._block())

    @rule()
    def lend(self) -> None:
        buffer = self.pool.alloc(4 * WORDS, "u32", WORDS)
        self.lent.append(Block(buffer, np.zeros(WORDS, np.uint32), pooled=True))
        self.blocks.append(self.lent[-1])

    @rule(which=PICK)
    def release(self, which: int) -> None:
        block = self._pick(self.blocks, which)
        if block.pooled and not block.released:
            self.pool.release(block.buffer)
            block.released = True
        else:
            refused(lambda: self.pool.release(block.buffer), InvalidArgument, naming="released|pool")

    @rule()
    def reset_pool(self) -> None:
        self.pool.reset()
        for block in self.lent:  # also those that were dropped, which captured dispatches may have
            block.released = True

    @rule(which=PICK)
    def drop_a_buffer(self, which: int) -> None:
        """Only the core holds it from now on, where it must."""
        if len(self.blocks) > 2:
            block = self.blocks.pop(which % len(self.blocks))
            for encoder in self.encoders:
                if encoder.last is not None and any(view.block is block for view in encoder.last[1].views):
                    encoder.last = None
            del block.buffer

    @rule(which=PICK, value=whole(0, 1000))
    def write_from_the_cpu(self, which: int, value: int) -> None:
        block = self._pick(self.blocks, which)
        if block.released:
            refused(lambda: block.buffer.fill(value), EncoderStateError, naming="pool")
            return
        self._drain()
        block.buffer.fill(value)
        block.expected[:] = value

    # Encoders

    @rule(by_hand=flag, unretained=flag, profiled=flag)
    def encoder(self, by_hand: bool, unretained: bool, profiled: bool) -> None:
        with settings.override(profile_dispatch=profiled, profile_cb=profiled):
            real = self.device.command_encoder(auto_barrier=not by_hand, unretained_refs=unretained)
        self.encoders.append(Encoder(real, by_hand))

    @rule(unretained=flag)
    def session(self, unretained: bool) -> None:
        real = self.device.encoder_session(unretained_refs=unretained)
        encoder = Encoder(real.encoder(), by_hand=False)
        self.encoders.append(encoder)
        encoder.session = Session(real, encoder)
        self.sessions.append(encoder.session)

    @rule(which=PICK, chain=several(together(KERNELS, SPAN, SPAN, SPAN, whole(0, 2**20)), 1, 6))
    def dispatch(self, which: int, chain: list[Any]) -> None:
        encoder = self._encoder(which)
        for kernel, *spans, value in chain:
            call = step(kernel, [self._view(span) for span in spans], value)
            if call is not None:
                self._send(encoder, call, call.arguments)

    @rule(which=PICK)
    def dispatch_what_is_bound(self, which: int) -> None:
        encoder = self._encoder(which)
        if encoder.last is None or encoder.last[0] != (encoder.captured is not None):
            nothing = (None,) * len(self.world.kernels["axpy"].buffers)
            if encoder.recording and encoder.real.ticket.dispatches == [] and encoder.captured is None:
                refused(lambda: encoder.real.dispatch(self.world.kernels["axpy"], *nothing, threads=1), naming="axpy")
            return
        call = encoder.last[1]
        self._send(encoder, call, tuple(None for _ in call.arguments))

    def _send(self, encoder: Encoder, outcome: Step, arguments: tuple[Any, ...]) -> None:
        def call() -> None:
            encoder.real.dispatch(self.world.kernels[outcome.kernel], *arguments, **outcome.shape)

        if not encoder.recording:
            refused(call, EncoderStateError, naming="dispatch")
        elif not outcome.is_live:
            refused(call, EncoderStateError, naming="pool")
        else:
            call()
            encoder.last = (encoder.captured is not None, outcome)
            if encoder.captured is not None:
                encoder.captured.append(outcome)
                return
            encoder.pending.append(outcome.effect)
            if encoder.by_hand:
                encoder.real.memory_barrier()

    @rule(which=PICK, twice=flag)
    def barrier(self, which: int, twice: bool) -> None:
        encoder = self._encoder(which)
        call = encoder.real.force_barrier_and_reset_tracker if twice else encoder.real.memory_barrier
        if encoder.recording:
            call()
        else:
            refused(call, EncoderStateError, naming="memory_barrier")

    # Capture

    @rule(which=PICK)
    def start_capture(self, which: int) -> None:
        encoder = self._encoder(which)
        if encoder.recording and not (encoder.captured or encoder.real.is_capturing()):
            encoder.real.start_capture()
            encoder.captured = []
        elif not encoder.recording:
            refused(encoder.real.start_capture, EncoderStateError, naming="start_capture")

    @rule(which=PICK)
    def take_capture(self, which: int) -> None:
        encoder = self._encoder(which)
        steps, encoder.captured = encoder.captured, None
        if encoder.last is not None and encoder.last[0]:
            encoder.last = None  # the next capture begins with nothing bound
        nodes = encoder.real.take_capture()
        assert (nodes is None) == (steps is None)
        dispatches = [node for node in nodes or () if isinstance(node, Dispatch)]
        assert len(dispatches) == len(steps or ())
        replayed = iter(steps or ())
        self.nodes += [(node, next(replayed) if isinstance(node, Dispatch) else None) for node in nodes or ()]

    @rule(which=PICK, node=whole(0, 30))
    def replay(self, which: int, node: int) -> None:
        if not self.nodes:
            return
        encoder, (real, call) = self._encoder(which), self._pick(self.nodes, node)
        if isinstance(real, CapturedBarrier) or call is None:
            refused(lambda: encoder.real.replay_dispatch(real), naming="replay_dispatch")
        elif not encoder.recording or not call.is_live:
            refused(lambda: encoder.real.replay_dispatch(real), EncoderStateError)
        else:
            encoder.real.replay_dispatch(real)
            encoder.pending.append(call.effect)
            encoder.last = None
            if encoder.by_hand and encoder.captured is None:
                encoder.real.memory_barrier()
            elif encoder.by_hand:
                # A barrier would be captured; committing is the other way to keep replays apart.
                self._commit(encoder)

    # Committing

    def _commit(self, encoder: Encoder) -> None:
        encoder.real.commit()
        encoder.commit()

    @rule(which=PICK, label=either_of([None, "step"]), wait=flag)
    def commit(self, which: int, label: str | None, wait: bool) -> None:
        encoder = self._encoder(which)
        call = encoder.real.commit_and_wait if wait else encoder.real.commit
        if encoder.recording:
            call(label)
            encoder.commit()
        else:
            refused(lambda: call(label), EncoderStateError, naming="commit")

    @rule(which=PICK, timeout=either_of([None, 0, -1.0, 1e-6, 30.0, float("inf")]))
    def wait(self, which: int, timeout: float | None) -> None:
        encoder = self._pick(self.encoders, which)
        if encoder.state != "committed":
            refused(lambda: encoder.real.wait_until_completed(timeout), EncoderStateError)
            refused(lambda: encoder.real.ticket.wait(timeout), EncoderStateError, naming="Ticket")
            return
        try:
            encoder.real.wait_until_completed(timeout)
        except WaitTimeout as late:
            assert timeout is not None and timeout < 1 and "command buffer" in str(late)
        else:
            assert encoder.real.ticket.done() and encoder.real.ticket.gpu_time >= 0

    @rule(which=PICK, how=either_of(["discard", "drop", "raise"]))
    def give_up(self, which: int, how: str) -> None:
        encoder = self._encoder(which)
        was_recording = encoder.recording
        if how == "discard":
            encoder.real.discard()
        elif how == "raise":
            with pytest.raises(KeyError), encoder.real:
                raise KeyError
        elif encoder.session is None:
            self.encoders.remove(encoder)
            return
        else:
            return
        if was_recording:
            encoder.state = "discarded"
            encoder.pending.clear()

    # Sessions

    @rule(which=PICK, how=either_of(["commit_stage", "commit_and_wait", "fence_stage"]))
    def end_stage(self, which: int, how: str) -> None:
        session = self._pick(self.sessions, which)
        encoder, call = session.encoder, getattr(session.real, how)
        if encoder.recording:
            call()
            encoder.commit()
            session.fenced = how == "fence_stage"
            session.fences += session.fenced
        elif encoder.state == "discarded":
            if how != "commit_stage":
                refused(call, EncoderStateError)
        elif how == "fence_stage" and not session.fenced:
            refused(call, EncoderStateError, naming="fence")
        else:
            call()
        assert session.real.fence_value() == session.fences

    @rule(which=PICK)
    def next_stage(self, which: int) -> None:
        session = self._pick(self.sessions, which)
        if not session.encoder.recording:
            refused(session.real.encoder, EncoderStateError, naming="reset_for_next_stage")
            refused(lambda: session.real.begin_stage("s"), EncoderStateError, naming="reset_for_next_stage")
            session.waits += session.fenced
            session.fenced, session.encoder.state, session.encoder.last = False, "recording", None
        session.real.reset_for_next_stage()
        assert session.real.wait_count() == session.waits
        assert session.real.encoder() is session.encoder.real
        assert not session.real.is_drained()

    # Results

    def _drain(self) -> None:
        self.device.submissions.wait_all()

    @rule()
    def compare(self) -> None:
        self._drain()
        for block in self.blocks:
            if not block.released:
                assert block.buffer.numpy().tolist() == block.expected.tolist()

    def holds(self) -> None:
        self.world.steps += 1
        assert self.world.layer.violations == []

    def teardown(self) -> None:
        for encoder in self.encoders:
            encoder.real.discard()
        self.compare()
        if len(self.device.submissions._open):  # dropped ones, held by the tracebacks of refusals
            gc.collect()
        assert not len(self.device.submissions._open)
        assert self.world.layer.violations == []

"""The fast path of a synchronous call: one dispatch in its own command buffer, then a wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from operator import call
from typing import Any

from .. import counters, settings
from ..memory import transfers
from ..pipelines.pipeline import Pipeline
from ..profiling import observer
from .command_encoder import CommandEncoder, give_up
from .context import DeviceContext
from .generate import lone_encoder, pattern_of_arguments
from .launch import Launch
from .ticket import Ticket

__all__ = ["run_and_wait"]

_in_one_go = deque[object](maxlen=0).extend  # asks for each item and forgets it; no exception comes in between


class _OpenPass(list[Any]):
    """Holds a pass until it is ended."""

    def end(self) -> None:
        if self:
            _in_one_go(map(call, (self[0].endEncoding, self.clear)))


def run_and_wait(
    device: DeviceContext,
    pipeline: Pipeline,
    args: Sequence[Any],
    *,
    threads: Any = None,
    threadgroups: Any = None,
    group: Any = None,
    shared: Any = (),
    label: str,
) -> Ticket:
    """Launches a kernel like `CommandEncoder.dispatch` and waits; the first launch takes the slow path."""
    try:
        launch = pipeline.launches[threads, threadgroups, group, shared]
    except (KeyError, TypeError):
        launch = None
    ticket = None if launch is None else _run_alone(device, pipeline, launch, args, label)
    if ticket is None:
        with CommandEncoder(device) as enc:
            enc.dispatch(pipeline, *args, threads=threads, threadgroups=threadgroups, group=group, shared=shared)
            enc.commit_and_wait(label=label)
        ticket = enc.ticket
    return ticket


def _run_alone(
    device: DeviceContext, pipeline: Pipeline, launch: Launch, args: Sequence[Any], label: str
) -> Ticket | None:
    """Runs a single dispatch and waits; returns None, with nothing started, if it needs a `CommandEncoder`.

    A single dispatch needs no hazard tracker, and no state is set before it.
    """
    encode = _encoder(device, pipeline, args) if _is_plain(device) else None
    if encode is None:
        return None
    device.require_open()
    queue, tally = device.submissions, counters.mine()
    opened, ticket = _OpenPass(), queue.begin(unretained=False)
    ticket.label = label
    try:
        tally.cmd_bufs += 1
        if not _encoded(device, ticket, opened, encode, launch, args):
            tally.cmd_bufs -= 1
            queue.abandon(ticket)
            return None
        tally.dispatches += 1
        tally.auto_concurrent += 1
        tally.syncs += 1
        if transfers.under_way:
            transfers.wait_for(ticket.keep)
        queue.submit(ticket)
    except BaseException:
        give_up(queue, ticket, opened)
        raise
    queue.wait(ticket)
    return ticket


def _encoded(
    device: DeviceContext,
    ticket: Ticket,
    opened: _OpenPass,
    encode: Callable[..., bool],
    launch: Launch,
    args: Sequence[Any],
) -> bool:
    """Sends the messages of the dispatch; returns whether generated code could."""
    with device.backend.autorelease_pool():
        commands = ticket.mtl
        opened.extend(map(commands.computeCommandEncoderWithDispatchType_, device.concurrent))
        mtl = opened[0]
        if mtl is None:
            opened.clear()
            return False
        if encode(device, ticket, mtl, launch, args):
            commands.setLabel_(ticket.label)
            mtl.setLabel_(ticket.label)
        opened.end()
    return bool(ticket.log)


def _is_plain(device: DeviceContext) -> bool:
    """Whether no setting or profile needs more than the results."""
    now = settings.current()
    asked = now.profile_cb or now.profile_dispatch or now.profile_barriers
    other = now.unretained_refs or now.force_serial_dispatch or not now.auto_barrier
    return not (asked or other or observer.watchers or device.backend.declare is not None)


def _encoder(device: DeviceContext, pipeline: Pipeline, args: Sequence[Any]) -> Callable[..., bool] | None:
    """The function generated for such arguments; None if there is none."""
    known: Callable[..., bool] | None = pipeline.encoders.get(kinds := tuple(map(type, args)))
    if known is None and pipeline.device is device.mtl and not pipeline.textures:
        pattern = pattern_of_arguments(pipeline, args)
        inline = pattern is not None and ("number" in pattern or "bytes" in pattern)
        if pattern is not None and not (inline and device.backend.parameter_arena):
            known = pipeline.encoders[kinds] = lone_encoder(pipeline, pattern)
    return known

"""Captures: the work of command queues, written to a folder of readable files."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..memory import view
from .command_buffer import CommandBufferState
from .commands import BlitPass, Command, Fail, Signal
from .indirect import Replay
from .passes import EncodedDispatch, Pass, PassItem, Sample
from .queue import QueueState


class Capture:
    """A capture folder: one line of JSON for each commit and each completion of a command buffer."""

    def __init__(self, covers: Callable[[QueueState], bool], folder: Path, *, dump: bool) -> None:
        self.covers = covers
        self._folder = folder
        self._dump = dump
        self._lock = threading.Lock()
        (folder / "sources").mkdir(parents=True)
        (folder / "README.txt").write_text(
            "capture.jsonl: one JSON object per line, for each command buffer 'committed' with all its commands, then "
            "'completed' with times and error.\nsources: the MSL of the kernels, by digest.\n"
            "buffers: contents after the command buffer, where dumping was asked for.\n"
        )

    def committed(self, queue: QueueState, work: CommandBufferState) -> None:
        commands = [self._command(command) for command in work.commands]
        self._write({"event": "committed", **_identity(queue, work), "commands": commands})

    def completed(self, queue: QueueState, work: CommandBufferState) -> None:
        outcome = work.outcome
        if outcome is None:
            return
        self._write(
            {
                "event": "completed",
                **_identity(queue, work),
                "status": work.status(None),
                "gpu_start": outcome.start,
                "gpu_end": outcome.end,
                "error": outcome.failure.message if outcome.failure else None,
                "buffers": self._contents(queue, work) if self._dump else [],
            }
        )

    def _command(self, command: Command) -> dict[str, Any]:
        if isinstance(command, Pass):
            epochs = [[self._item(item) for item in epoch] for epoch in command.epochs if epoch]
            return {
                "kind": "compute",
                "label": command.label,
                "concurrent": command.concurrent,
                "epochs": epochs,
                "signposts": command.signposts,
            }
        if isinstance(command, BlitPass):
            return {
                "kind": "blit",
                "label": command.label,
                "blits": [{"name": blit.name, "detail": blit.detail} for blit in command.blits],
            }
        if isinstance(command, Fail):
            return {"kind": "fail", "code": command.code}
        kind = "signal" if isinstance(command, Signal) else "wait"
        return {"kind": kind, "event": command.event.label, "value": command.value}

    def _item(self, item: PassItem) -> dict[str, Any]:
        if isinstance(item, EncodedDispatch):
            return self._dispatch(item)
        if isinstance(item, Replay):
            return {"replay": item.commands.label, "first": item.first, "count": item.count}
        return {"sample": item.index if isinstance(item, Sample) else None}

    def _dispatch(self, dispatch: EncodedDispatch) -> dict[str, Any]:
        launch, pipeline = dispatch.launch, dispatch.pipeline
        source = self._folder / "sources" / f"{pipeline.source.digest}.metal"
        if not source.exists():
            source.write_text(pipeline.source.text)
        return {
            "kernel": dispatch.kernel,
            "group": dispatch.group,
            "label": pipeline.label,
            "engine": pipeline.last_engine,
            "source": source.name,
            "constants": {str(k): v.hex() for k, v in pipeline.source.constants.items()},
            "threads": list(launch.threads),
            "threadgroups": list(launch.groups),
            "threads_per_threadgroup": list(launch.group),
            "threadgroup_bytes": launch.tg_bytes,
            "indirect": dispatch.indirect is not None,
            "bindings": [_binding(dispatch, argument) for argument in pipeline.code.kernel.arguments],
        }

    def _contents(self, queue: QueueState, work: CommandBufferState) -> list[dict[str, Any]]:
        dispatches = [
            item
            for command in work.commands
            if isinstance(command, Pass)
            for epoch in command.epochs
            for item in epoch
            if isinstance(item, EncodedDispatch)
        ]
        allocations = {
            allocation for item in dispatches for allocation in item.allocations if allocation and allocation.live
        }
        folder = self._folder / "buffers"
        folder.mkdir(exist_ok=True)
        written = []
        for allocation in sorted(allocations, key=lambda each: each.address):
            name = f"{queue.name}-{work.serial}-{allocation.address:x}.bin"
            (folder / name).write_bytes(allocation.view())
            written.append({"label": allocation.label, "address": allocation.address, "file": name})
        return written

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock, (self._folder / "capture.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def _identity(queue: QueueState, work: CommandBufferState) -> dict[str, Any]:
    return {"queue": queue.label or queue.name, "number": work.serial, "label": work.label}


def _binding(dispatch: EncodedDispatch, argument: Any) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": argument.kind,
        "index": argument.index,
        "name": argument.name,
        "access": argument.access,
        "type": argument.type_name,
    }
    if argument.kind != "buffer":
        return entry
    allocation = dispatch.allocations[argument.index]
    address, length = dispatch.launch.buffers[argument.index] or 0, dispatch.launch.lengths[argument.index]
    if allocation is None:
        return {**entry, "inline": bytes(view(address, length)).hex() if length else ""}
    return {
        **entry,
        "buffer": allocation.label,
        "address": allocation.address,
        "offset": address - allocation.address,
        "length": length,
    }


class ActiveCapture:
    """The active capture of the process, if any."""

    def __init__(self) -> None:
        self.current: Capture | None = None


active = ActiveCapture()


def captures_of(queue: QueueState) -> tuple[Capture, ...]:
    """The captures that a command buffer of this queue, committed now, belongs to."""
    current = active.current
    return (current,) if current is not None and current.covers(queue) else ()

"""Checked mode during execution: the memory that each dispatch may access, and what a pass accessed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from ..memory import DeviceMemory
from .commands import Blit, BlitPass
from .events import EventState
from .passes import EncodedDispatch, Epoch, Pass

_READ_WRITE = 3


class Checker:
    """Follows one command buffer, dispatch by dispatch."""

    def __init__(self, standing: Mapping[DeviceMemory, int], history: Any) -> None:
        self._standing = standing
        self._history = history
        self._hazards: Any = None
        self._counter = itertools.count()
        self._numbers: dict[int, int] = {}
        self._allocations: dict[int, DeviceMemory] = {}
        self._findings: list[Any] = []

    def begin(self, work: Pass) -> None:
        """A new pass; only concurrent ones can lack barriers."""
        from ..checked import HazardCheck

        self._counter = itertools.count()
        self._numbers = {}
        self._history.begin(work, work.fences)
        self._hazards = HazardCheck(self._locate) if work.concurrent else None

    def barrier(self, epoch: Epoch) -> None:
        """What follows is ordered after all before, or after what touched certain allocations."""
        for item in epoch.items:
            self._numbers[id(item)] = next(self._counter)
        if self._hazards is not None:
            spans = epoch.only and [(each.address, each.address + each.length) for each in epoch.only]
            self._hazards.barrier(spans)

    @contextmanager
    def checking(self, dispatch: EncodedDispatch) -> Iterator[None]:
        """Sets the launch up for the block, in which it runs, and takes what was found, also if it was stopped."""
        from ..checked import DispatchCheck, Sites, arguments_apart

        code, windows = dispatch.pipeline.code, self._windows(dispatch)
        with arguments_apart(windows) as seen:
            sites = Sites(code.locate, code.line_of)
            check = DispatchCheck(code.kernel, dispatch.launch, windows, seen, sites, code.variables)
            try:
                yield
            finally:
                check.finish()
                self._collect(dispatch, check)
                check.close()

    def _collect(self, dispatch: EncodedDispatch, check: Any) -> None:
        from ..checked import DispatchName, undeclared

        self._findings.extend(check.findings())
        touched = check.footprint()
        if (declared := getattr(dispatch, "declared", None)) is not None:
            views = [dispatch.allocations[slot] for slot in declared.lengths]
            bound = [(each.address, each.address + each.length) for each in views if each is not None]
            self._findings.extend(undeclared(dispatch.kernel, declared, touched, bound, self._locate))
        self._history.ran(self._numbers[id(dispatch)], dispatch.kernel, dispatch.group, touched)
        self._untracked(self._numbers[id(dispatch)], dispatch.kernel, touched)
        if self._hazards is not None:
            name = DispatchName(self._numbers[id(dispatch)], dispatch.kernel, dispatch.group)
            self._findings.extend(self._hazards.dispatch(name, touched))

    def begin_blits(self, work: BlitPass) -> None:
        self._history.begin(work, work.fences)

    def blit(self, index: int, blit: Blit) -> None:
        """A blit has run."""
        from ..checked import Footprint, intervals

        reads, writes = ([span] if span else [] for span in (blit.reads, blit.writes))
        touched = Footprint(intervals.of(*reads), intervals.of(*writes))
        self._history.ran(index, blit.name, "", touched)
        self._allocations.update((each.address, each) for each in blit.allocations)
        self._untracked(index, blit.name, touched)

    def _untracked(self, index: int, name: str, touched: Any) -> None:
        """Holds what was touched of memory that Metal does not track against other passes."""
        from ..checked import untracked

        spans = [(each.address, each.address + each.length) for each in self._allocations.values() if each.untracked]
        part = untracked(touched, spans) if spans else None
        if part is not None:
            self._findings.extend(self._history.ran_untracked(index, name, part, self._locate))

    def settle(self) -> None:
        """What ran so far is held against the work of other queues."""
        self._findings.extend(self._history.settle(self._locate))

    def signal(self, event: EventState) -> None:
        """Before the event comes."""
        self.settle()
        self._history.signal(event)

    def waited(self, event: EventState) -> None:
        """The event has come."""
        self.settle()
        self._history.wait(event)

    def end(self) -> None:
        """Nothing more comes."""
        self.settle()
        self._history.end()

    @property
    def has_findings(self) -> bool:
        return bool(self._findings)

    def finding(self) -> Exception | None:
        from ..checked import combined

        return combined(self._findings)

    def _windows(self, dispatch: EncodedDispatch) -> list[Any]:
        from ..checked import Window

        launch, windows = dispatch.launch, []
        declared = getattr(dispatch, "declared", None)
        lengths: Mapping[int, int] = declared.lengths if declared is not None else {}
        for argument in dispatch.pipeline.code.kernel.arguments:
            slot = argument.index
            if argument.kind != "buffer" or not launch.lengths[slot]:
                continue
            allocation = dispatch.allocations[slot]
            space: Literal["buffer", "inline bytes"] = "buffer" if allocation is not None else "inline bytes"
            label = allocation.label or "" if allocation is not None else ""
            if allocation is not None:
                self._allocations[allocation.address] = allocation
            windows.append(
                Window(
                    launch.buffers[slot] or 0,
                    min(launch.lengths[slot], lengths.get(slot, launch.lengths[slot])),
                    1 if argument.access == "read" else _READ_WRITE,
                    space,
                    slot,
                    argument.name,
                    label,
                    allocation.unwritten if allocation is not None else None,
                )
            )
        return [*windows, *self._textures(dispatch), *self._residents(dispatch)]

    def _residents(self, dispatch: EncodedDispatch) -> Iterator[Any]:
        """What kernels may reach by address."""
        from ..checked import Window

        for allocation, usage in {**self._standing, **dispatch.resident}.items():
            self._allocations[allocation.address] = allocation
            yield Window(
                allocation.address,
                allocation.length,
                usage & _READ_WRITE or 1,
                "resident buffer",
                label=allocation.label or "",
                unwritten=allocation.unwritten,
                addressed=allocation.addressed,
            )

    def _textures(self, dispatch: EncodedDispatch) -> Iterator[Any]:
        """The texels of bound textures, and what tells kernels where they are."""
        from ..checked import Window

        launch, table = dispatch.launch, dispatch.pipeline.table
        if table >= 0:
            yield Window(launch.buffers[table] or 0, launch.lengths[table], 1, "inline bytes")
        for chunk in {texture.description for _, texture in dispatch.textures}:
            yield Window(chunk.address, chunk.length, 1, "inline bytes")
        for argument, texture in dispatch.textures:
            allocation = texture.allocation
            self._allocations[allocation.address] = allocation
            access = {"read": 1, "write": 2}.get(argument.access, _READ_WRITE)
            name, label = argument.name, allocation.label or ""
            yield Window(
                texture.address,
                texture.shape.end,
                access,
                "texture",
                argument.index,
                name,
                label,
                allocation.unwritten,
                texels=texture.shape,
            )

    def _locate(self, address: int) -> tuple[str, int]:
        """The name and the start of the allocation around an address."""
        for start, allocation in self._allocations.items():
            if start <= address < start + allocation.length:
                return f"buffer {allocation.label or hex(start)!r}", start
        return "unknown memory", 0

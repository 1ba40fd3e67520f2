"""Source lines that track the hazards of one dispatch and send it, for generated functions.

The functions that contain them define `enc` (a `CommandEncoder`), `tracker` (its `mem_ranges`), `sending` (its
`Sender`) unpacked by `CALLS`, and one variable per slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..pipelines.pipeline import Binding
from .launch import Launch

__all__ = ["CALLS", "DispatchCode", "Slot", "indented"]

CALLS = (
    "buffers, numbers, barrier, set_pipeline, set_buffer, set_offset, set_bytes, threads, threadgroups = sending.calls"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A kernel argument slot and the variable that holds its value in generated code."""

    index: int
    kind: str
    """"buffer", "out" for a buffer that is only written, "number", "bytes", or "none" for an unused slot."""
    binding: Binding | None
    value: str
    length: str = ""
    """Length of bytes and numbers, if known in advance."""
    fresh: bool = False
    """Whether no earlier dispatch of the command buffer can have used its memory."""

    @property
    def is_buffer(self) -> bool:
        return self.kind in ("buffer", "out")

    @property
    def use(self) -> str:
        """The variable that holds the tracker's `MemoryUse` of its memory."""
        return f"u{self.index}"


@dataclass(frozen=True, slots=True)
class DispatchCode:
    """Generates the lines; with `arena`, bytes and numbers are bound as parts of a parameter buffer."""

    slots: Sequence[Slot]
    arena: bool
    pipeline: str = "PIPELINE"
    state: str = "STATE"

    @property
    def _tracked(self) -> list[tuple[Slot, bool]]:
        """The buffer slots, and whether the kernel writes each."""
        return [(slot, slot.binding.writes) for slot in self.slots if slot.is_buffer and slot.binding is not None]

    def find_uses(self) -> Iterator[str]:
        """Looks up each buffer's `MemoryUse` in the encoder's tracker; may raise `Aliased`."""
        for slot, _ in self._tracked:
            yield f"{slot.use} = {slot.value}.allocation.use"
            if not slot.fresh:
                yield f"if {slot.use}.tracker is not tracker: {slot.use} = enc.touch({self.pipeline}, {slot.value})"

    def track(self) -> Iterator[str]:
        """Checks for hazards and records the accesses. A written buffer need not be recorded as read too.

        Dispatches are counted from the log, see `EncoderTally`.
        """
        yield "epoch = tracker.epoch"
        tests = [_meets(slot, "written", "write_epoch") for slot, _ in self._tracked if not slot.fresh]
        tests += [_meets(slot, "read", "read_epoch") for slot, writes in self._tracked if writes and not slot.fresh]
        if tests:
            yield f"if {' or '.join(tests)}: barrier(); epoch = tracker.force()"
        for slot, writes in self._tracked:
            part, mark = ("written", "write_epoch") if writes else ("read", "read_epoch")
            use, value = slot.use, slot.value
            yield f"if {use}.{mark} is not epoch: {use}.{mark} = epoch; {use}.{part} = {value}"
            yield f"elif {use}.{part} is not {value}: {use}.{part} = widened({use}.{part}, {value})"
        yield f"tracker.log.append({self._entry})"

    @property
    def _entry(self) -> str:
        """The log entry of the dispatch; see `Pipeline.touched`."""
        outs = sum(1 << slot.index for slot in self.slots if slot.kind == "out")
        spans = "".join(f", {slot.value}.span" if slot.is_buffer else ", None" for slot in self.slots)
        return f"({self.pipeline}, {outs}{spans})"

    def require_own(self, slow: str) -> Iterator[str]:
        """Checks that each buffer's allocation is live and belongs to `device`."""
        for slot, _ in self._tracked:
            memory = f"a{slot.index}"
            yield f"{memory} = {slot.value}.allocation"
            yield f"if {memory}.released or {memory}.residency is not device.residency: {slow}"

    def send_alone(self) -> Iterator[str]:
        """Sends the dispatch to an encoder `mtl` with no state set, and records it in `ticket`."""
        for slot, _ in self._tracked:
            yield f"ticket.hold(a{slot.index})"
        yield f"mtl.setComputePipelineState_({self.state})"
        for slot in self.slots:
            value, index = slot.value, slot.index
            if slot.is_buffer:
                yield f"mtl.setBuffer_offset_atIndex_({value}.mtl, {value}.offset, {index})"
            elif slot.kind != "none":
                yield f"mtl.setBytes_length_atIndex_({value}, {slot.length or f'len({value})'}, {index})"
        yield "for place, length in launch.shared: mtl.setThreadgroupMemoryLength_atIndex_(length, place)"
        yield "if launch.by_threads: mtl.dispatchThreads_threadsPerThreadgroup_(launch.grid, launch.group)"
        yield "else: mtl.dispatchThreadgroups_threadsPerThreadgroup_(launch.grid, launch.group)"
        yield f"ticket.log.append({self._entry})"

    def send(self, launch: Launch | None = None) -> Iterator[str]:
        """Sends state that has changed, then the launch; without `launch`, the variable of that name is used."""
        yield (
            f"if sending.pipeline is not {self.pipeline}: "
            f"set_pipeline({self.state}); sending.pipeline = {self.pipeline}"
        )
        for slot in self.slots:
            if slot.is_buffer:
                yield from _set_buffer(slot.index, slot.value)
            elif slot.kind != "none" and self.arena:
                yield f"cell = sending.cells.get({slot.value}) or sending.new_cell({slot.value})"
                yield from _set_buffer(slot.index, "cell")
            elif slot.kind != "none":
                yield from _set_bytes(slot.index, slot.value, slot.length or f"len({slot.value})")
        yield from _launch(launch)


def _meets(slot: Slot, part: str, mark: str) -> str:
    """An expression: does the buffer overlap what was read or written since the last barrier?"""
    use, value = slot.use, slot.value
    return (
        f"({use}.{mark} is epoch and ((earlier := {use}.{part}) is {value}"
        f" or {value}.start < earlier.end and earlier.start < {value}.end"
        f" and (earlier.intervals is None or earlier.intervals.meets({value}.start, {value}.end))))"
    )


def _set_buffer(index: int, value: str) -> Iterator[str]:
    yield f"if (bound := buffers[{index}]) is not {value}:"
    yield f"    if bound.mtl is not {value}.mtl: set_buffer({value}.mtl, {value}.offset, {index})"
    yield f"    elif bound.offset != {value}.offset: set_offset({value}.offset, {index})"
    yield f"    buffers[{index}] = {value}"


def _set_bytes(index: int, value: str, length: str) -> Iterator[str]:
    yield f"if buffers[{index}] is not NOTHING or numbers[{index}] is not {value} and numbers[{index}] != {value}:"
    yield f"    set_bytes({value}, {length}, {index}); numbers[{index}] = {value}; buffers[{index}] = NOTHING"


def _launch(launch: Launch | None) -> Iterator[str]:
    if launch is None:
        yield "if launch.is_plain: threads(launch.grid, launch.group)"
        yield "else:"
        yield "    if launch.shared: sending.set_shared(launch.shared)"
        yield "    if launch.by_threads: threads(launch.grid, launch.group)"
        yield "    else: threadgroups(launch.grid, launch.group)"
        return
    if launch.shared:
        yield f"sending.set_shared({launch.shared!r})"
    yield f"{'threads' if launch.by_threads else 'threadgroups'}({launch.grid!r}, {launch.group!r})"


def indented(lines: Iterator[str] | list[str]) -> list[str]:
    """The lines, indented one level."""
    return [f"    {line}" for line in lines]

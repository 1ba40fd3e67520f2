"""Emits blocks and control flow, for converged and for diverged lanes.

Each block has a copy for converged lanes, with real branches. Blocks that only some lanes may execute have a second
copy in the chain: it runs if its mask is not empty, and passes lanes on by adding them to the masks of successor
blocks. As soon as all lanes wait for the same block, they continue in its converged copy.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..analysis.regions import Chain, Stop
from ..ir.model import BasicBlock, Declined, Instruction, Value
from . import memory, values
from .agreement import Agreement, agreement
from .calls import call
from .frame import ALL, Frame, Writer, lanes_type
from .lifetimes import forgotten
from .serial import atomic

END = "finished"


@dataclass(frozen=True)
class Move:
    """The copy that a phi becomes on an edge."""

    phi: Instruction
    text: str
    varying: bool


@dataclass(eq=False)
class Control:
    writer: Writer
    chain: Chain
    masks: dict[BasicBlock, str] = field(default_factory=dict)  # slots of the lanes that wait for a block
    used: set[Value] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.flow = self.writer.analysis.flow
        self.masks = {stop.block: self.writer.slot("i32", "waiting") for stop in self.chain.stops if not stop.again}
        self.used = {o for inst in self.writer.analysis.function.instructions() for o in inst.operands}
        self.forgotten = forgotten(self.writer)

    def write(self) -> None:
        """All copies of all blocks; the chain in its order."""
        for block in self.flow.order:
            if block in self.chain.full:
                self._block(Frame(self.writer, block), f"all.{self.flow.index[block]}")
        for place, stop in enumerate(self.chain.stops):
            if stop.again:
                self._again(place, stop)
            else:
                self._check(place, stop.block)
        self.writer.lines += [f"{END}:", "  ret void"]

    def start(self, block: BasicBlock, mask: str) -> list[str]:
        """The lines that let the lanes of `mask` begin."""
        lines = [f"  store i32 0, ptr {slot}" for slot in self.masks.values()]
        if not self.chain.begins_apart:
            return [*lines, f"  br label %all.{self.flow.index[block]}"]
        return [*lines, f"  store i32 {mask}, ptr {self.masks[block]}", f"  br label %{self._stop_label(0)}"]

    def _stop_label(self, place: int) -> str:
        return f"stop.{place}" if place < len(self.chain.stops) else END

    def _again(self, place: int, stop: Stop) -> None:
        frame = Frame(self.writer, stop.block)
        frame.label(self._stop_label(place))
        waiting = frame.let("waiting", f"load i32, ptr {self.masks[stop.block]}")
        idle = frame.let("idle", f"icmp eq i32 {waiting}, 0")
        header = next(i for i, s in enumerate(self.chain.stops) if s.block is stop.block and not s.again)
        frame.emit(f"br i1 {idle}, label %{self._stop_label(place + 1)}, label %{self._stop_label(header)}")

    def _check(self, place: int, block: BasicBlock) -> None:
        """Passes by if nobody waits, and leaves the chain if everybody does."""
        frame = Frame(self.writer, block)
        frame.label(self._stop_label(place))
        index, slot = self.flow.index[block], self.masks[block]
        waiting = frame.let("waiting", f"load i32, ptr {slot}")
        idle = frame.let("idle", f"icmp eq i32 {waiting}, 0")
        frame.emit(f"br i1 {idle}, label %{self._stop_label(place + 1)}, label %busy.{index}")
        frame.label(f"busy.{index}")
        frame.emit(f"store i32 0, ptr {slot}")
        if block in self.chain.landings:
            frame.emit(f"br label %all.{index}")
            return
        if block in self.chain.full:
            everybody = frame.let("everybody", f"icmp eq i32 {waiting}, {ALL}")
            frame.emit(f"br i1 {everybody}, label %all.{index}, label %some.{index}")
            frame.label(f"some.{index}")
        frame.mask = waiting
        self._block(frame, "")

    def _block(self, frame: Frame, label: str) -> None:
        if label:
            frame.label(label)
        self._forget(frame)
        for phi in frame.block.phis:
            frame.remember(phi)
        for inst in frame.block.body:
            self._instruction(frame, inst)
        self._end(frame)

    def _forget(self, frame: Frame) -> None:
        """At the head of a loop no lane is inside of it, and what a round leaves behind is not needed.

        Said so, each slot is alive in a few blocks; otherwise LLVM would carry every one through all of them.
        """
        for loop in self.flow.loops:
            if loop.header is frame.block:
                for block in loop.blocks - {loop.header}:
                    if block in self.masks:
                        frame.emit(f"store i32 0, ptr {self.masks[block]}")
        for slot, kind in self.forgotten.get(frame.block, ()):
            frame.emit(f"store {kind} undef, ptr {slot}")

    def _instruction(self, frame: Frame, inst: Instruction) -> None:
        if inst.opcode == "load":
            memory.load(frame, inst)
        elif inst.opcode == "store":
            memory.store(frame, inst)
        elif inst.opcode == "call":
            call(frame, inst)
        elif inst.opcode in ("atomicrmw", "cmpxchg"):
            atomic(frame, inst, inst in self.used)
        elif inst.opcode == "fence":
            frame.emit(f"fence {inst.ordering}")
        elif inst.opcode != "alloca":
            values.value(frame, inst)

    def _end(self, frame: Frame) -> None:
        end = frame.block.end
        if end.opcode == "ret":
            frame.emit("ret void" if frame.full else f"br label %{self._next(frame)}")
        elif end.opcode == "unreachable":
            frame.emit("unreachable")
        elif end.opcode not in ("br", "switch"):
            raise Declined(f"block that ends with {end.opcode}")
        elif frame.block in self.writer.analysis.divergent:
            self._diverge(frame)
        else:
            self._together(frame)

    def _next(self, frame: Frame) -> str:
        return self._stop_label(self.chain.after[frame.block])

    def _moves(self, frame: Frame) -> dict[BasicBlock, list[Move]]:
        """For each block that comes next, what its phis become; all is read before anything is written."""
        frame.lanes()
        return {target: [m for phi in target.phis if (m := _move(frame, phi))] for target in frame.block.successors}

    def _together(self, frame: Frame) -> None:
        """All lanes at work go the same way."""
        end, moves = frame.block.end, self._moves(frame)
        labels = {target: self.writer.name("edge") for target in moves}
        if len(moves) == 1:
            frame.emit(f"br label %{labels[end.blocks[0]]}")
        elif end.opcode == "br":
            ways = ", ".join(f"label %{labels[block]}" for block in end.blocks)
            frame.emit(f"br i1 {frame.scalar(end.operands[0])}, {ways}")
        else:
            kind = end.operands[0].type
            cases = zip(end.operands[1:], end.blocks[1:], strict=True)
            inside = " ".join(f"{kind} {value.text}, label %{labels[block]}" for value, block in cases)
            chosen = frame.scalar(end.operands[0])
            frame.emit(f"switch {kind} {chosen}, label %{labels[end.blocks[0]]} [ {inside} ]")
        for target, bits in moves.items():
            frame.label(labels[target])
            self._go(frame, target, bits)

    def _go(self, frame: Frame, target: BasicBlock, moves: list[Move]) -> None:
        """All lanes of the frame go to one block."""
        if frame.full and target in self.chain.full:
            for move in moves:
                kind = lanes_type(move.phi.type) if move.varying else move.phi.type
                frame.emit(f"store {kind} {move.text}, ptr {self.writer.kept[move.phi]}")
            frame.emit(f"br label %all.{self.flow.index[target]}")
        else:
            self._arrive(frame, target, moves, frame.mask)
            frame.emit(f"br label %{self._next(frame)}")

    def _arrive(self, frame: Frame, target: BasicBlock, moves: list[Move], mask: str) -> None:
        """The lanes of `mask`, possibly none, wait for a block of the chain."""
        for move in moves:
            slot = self.writer.kept[move.phi]
            if move.varying:
                frame.blend(move.text, move.phi.type, slot, mask)
                continue
            text = move.text
            if mask != frame.mask:
                some = frame.let("some", f"icmp ne i32 {mask}, 0")
                old = frame.let("old", f"load {move.phi.type}, ptr {slot}")
                text = frame.let("new", f"select i1 {some}, {move.phi.type} {text}, {move.phi.type} {old}")
            frame.emit(f"store {move.phi.type} {text}, ptr {slot}")
        before = frame.let("before", f"load i32, ptr {self.masks[target]}")
        waiting = frame.let("waiting", f"or i32 {before}, {mask}")
        frame.emit(f"store i32 {waiting}, ptr {self.masks[target]}")

    def _diverge(self, frame: Frame) -> None:
        """Lanes go different ways, unless they happen to agree."""
        moves = self._moves(frame)
        if frame.full and not frame.shape(frame.block.end.operands[0]).known:
            self._if_agreed(frame, moves)
        for target, mask in self._ways(frame).items():
            self._arrive(frame, target, moves[target], mask)
        frame.emit(f"br label %{self._next(frame)}")

    def _if_agreed(self, frame: Frame, moves: dict[BasicBlock, list[Move]]) -> None:
        """Leads all lanes on together where a scalar test, or else the mask, says that they go the same way."""
        end = frame.block.end
        if end.opcode != "br" or not self.chain.full.intersection(end.blocks):
            return
        common = agreement(frame, end.operands[0])
        if not common.useful:
            bits = frame.bits_of(frame.vector(end.operands[0]))
            common = Agreement(*(frame.let("everybody", f"icmp eq i32 {bits}, {mask}") for mask in (ALL, "0")))
        for target, test in zip(end.blocks, (common.yes, common.no), strict=True):
            if target not in self.chain.full:
                continue
            agreed, others = self.writer.name("agreed"), self.writer.name("others")
            frame.emit(f"br i1 {test}, label %{agreed}, label %{others}")
            frame.label(agreed)
            self._go(frame, target, moves[target])
            frame.label(others)

    def _ways(self, frame: Frame) -> dict[BasicBlock, str]:
        """The lanes that go to each of the blocks that come next."""
        end = frame.block.end
        if end.opcode == "br":
            yes = self._among(frame, frame.bits_of(frame.vector(end.operands[0])))
            return {end.blocks[0]: yes, end.blocks[1]: frame.let("no", f"xor i32 {frame.mask}, {yes}")}
        lanes: dict[BasicBlock, str] = {}
        rest = frame.mask
        value = end.operands[0]
        kind = lanes_type(value.type)
        for case, target in zip(end.operands[1:], end.blocks[1:], strict=True):
            same = frame.let("same", f"icmp eq {kind} {frame.vector(value)}, splat ({value.type} {case.text})")
            bits = self._among(frame, frame.bits_of(same))
            rest = frame.let("rest", f"xor i32 {rest}, {bits}")
            lanes[target] = frame.let("way", f"or i32 {lanes[target]}, {bits}") if target in lanes else bits
        default = end.blocks[0]
        lanes[default] = frame.let("way", f"or i32 {lanes[default]}, {rest}") if default in lanes else rest
        return lanes

    def _among(self, frame: Frame, bits: str) -> str:
        return bits if frame.full else frame.let("way", f"and i32 {bits}, {frame.mask}")


def _move(frame: Frame, phi: Instruction) -> Move | None:
    shape = frame.writer.analysis.seen(phi, frame.writer.analysis.home[phi])
    value = phi.operands[phi.blocks.index(frame.block)]
    if shape.known or phi not in frame.writer.kept:
        return None
    return Move(phi, frame.vector(value) if shape.varying else frame.scalar(value), shape.varying)

"""Execution counts per source line, and active threads per simdgroup, for one launch.

The kernel is compiled again for the lanes engine with counters in each basic block and branch. Other launches are not
affected.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .engines.choice import LanesChoice
from .engines.lanes.ir.model import Declined
from .inspection import ENTRY, with_lines
from .line_table import LineTable, Place
from .msl.lanes import LanesBuilder
from .program import Size, Specialised

InstructionKind = Literal["operation", "load", "store", "branch", "other"]
_PASSES, _THREADS, _DIVIDED, _COUNTERS = range(4)
MOST_BLOCKS = 1 << 14
_RESULT = re.compile(r"  (?:%\S+ = )?(?:(?:tail|musttail|notail) )?(\w+)")
_BRANCH = re.compile(r"  br i1 (%\S+),")
_SWITCH = re.compile(r"  switch (i\d+) (%\S+), label (%\S+) \[")
_CASE = re.compile(r"    i\d+ (-?\d+), label (%[^\s,]+)")
_NOT_COUNTED = ("phi", "alloca", "unreachable")
_MEMORY: dict[str, InstructionKind] = {"load": "load", "store": "store", "br": "branch", "switch": "branch"}
_OTHER = frozenset(("getelementptr", "ret", "fence", "freeze", "extractvalue", "insertvalue"))
_HINT = re.compile(r"@llvm\.(?:lifetime|assume|dbg|experimental\.noalias)|#dbg_")
_COUNT = "declare i32 @llvm.ctpop.i32(i32)"


@dataclass(frozen=True)
class CountedInstruction:
    """An instruction and its location in the compiled text."""

    kind: InstructionKind
    place: Place | None


@dataclass
class CountedBlock:
    """A basic block: its instructions and final counters."""

    instructions: list[CountedInstruction] = field(default_factory=list)
    passes: int = 0
    """How often a simdgroup ran it, with at least one thread."""
    threads: int = 0
    """The threads that took part, over all passes."""
    divided: int = 0
    """After how many passes its threads went different ways."""
    branches: bool = False
    """Whether it ends with a branch that has more than one way."""


def instrumented(text: str, address: int) -> tuple[str, list[CountedBlock]]:
    """The module with counters at an address, three numbers of 64 bits for each block of the entry, and its blocks."""
    start = re.search(rf"^define [^\n]*@{ENTRY}\([^\n]*\n", text, re.MULTILINE)
    assert start is not None
    end = text.index("\n}", start.end())
    table = LineTable(text)
    blocks: list[CountedBlock] = []
    lines = [text[: start.end()].rstrip("\n")]
    for label, body in _blocks(text[start.end() : end]):
        lines += [label] * bool(label)
        at = address + 8 * _COUNTERS * len(blocks)
        instructions = [CountedInstruction(kind, table.of(line)) for line in body if (kind := _kind(line))]
        block = CountedBlock(instructions, branches=bool(_BRANCH.match(body[-1]) or _SWITCH.match(body[-1])))
        lines += _counted(body, at, f"%count.{len(blocks)}")
        blocks.append(block)
    if len(blocks) > MOST_BLOCKS:
        raise Declined(f"it has {len(blocks)} basic blocks, and {MOST_BLOCKS} can be counted")
    declaration = "" if _COUNT in text else f"\n{_COUNT}\n"
    return "\n".join(lines) + text[end : end + 2] + declaration + text[end + 2 :], blocks


def _blocks(body: str) -> Iterator[tuple[str, list[str]]]:
    """Label and instructions of each block; one that goes over several lines stays in one."""
    label, instructions = "", list[str]()
    lines = iter(body.splitlines())
    for line in lines:
        if not line.strip() or line.startswith(";"):
            continue
        if line[0] != " ":
            if instructions:
                yield label, instructions
            label, instructions = line, []
            continue
        while line.lstrip().startswith("switch ") and not re.search(r"^  \]", line, re.MULTILINE):
            line += "\n" + next(lines)
        instructions.append(line)
    yield label, instructions


def _kind(line: str) -> InstructionKind | None:
    match = _RESULT.match(line)
    word = match[1] if match else ""
    if not word or word in _NOT_COUNTED or _HINT.search(line):
        return None
    if word in _MEMORY:
        return _MEMORY[word]
    return "other" if word in _OTHER or word == "call" and "@llvm." not in line else "operation"


def _counted(body: Sequence[str], address: int, name: str) -> Iterator[str]:
    first = next(i for i, line in enumerate(body) if " = phi " not in line)
    yield from body[:first]
    yield f"  {name}.mask = call i32 @__lane_active()"
    yield f"  {name}.few = call i32 @llvm.ctpop.i32(i32 {name}.mask)"
    yield f"  {name}.threads = zext i32 {name}.few to i64"
    yield from _add(address + 8 * _PASSES, "1", f"{name}.passes")
    yield from _add(address + 8 * _THREADS, f"{name}.threads", f"{name}.all")
    yield from body[first:-1]
    yield from _divided(body[-1], address + 8 * _DIVIDED, name)
    yield body[-1]


def _add(address: int, value: str, name: str) -> Iterator[str]:
    place = f"ptr inttoptr (i64 {address} to ptr)"
    yield f"  {name}.old = load i64, {place}, align 8"
    yield f"  {name}.new = add i64 {name}.old, {value}"
    yield f"  store i64 {name}.new, {place}, align 8"


def _divided(end: str, address: int, name: str) -> Iterator[str]:
    """Adds one where some threads go the first way and others do not; a switch is asked way by way."""
    branch, switch = _BRANCH.match(end), _SWITCH.match(end)
    if branch:
        tests = [branch[1]]
    elif switch:
        tests = []
        for number, (case, target) in enumerate(_CASE.findall(end)):
            if target != switch[3]:
                tests.append(f"{name}.is.{number}")
                yield f"  {tests[-1]} = icmp eq {switch[1]} {switch[2]}, {case}"
    else:
        return
    total = "0"
    for number, test in enumerate(tests):
        part = f"{name}.way.{number}"
        yield f"  {part} = call i32 @__lane_ballot(i1 {test})"
        yield f"  {part}.some = icmp ne i32 {part}, 0"
        yield f"  {part}.not = icmp ne i32 {part}, {name}.mask"
        yield f"  {part}.both = and i1 {part}.some, {part}.not"
        yield f"  {part}.one = zext i1 {part}.both to i64"
        yield f"  {part}.sum = or i64 {part}.one, {total}"
        total = f"{part}.sum"
    yield from _add(address, total, f"{name}.divided")


@dataclass(frozen=True)
class _CountingBuilder(LanesBuilder):
    """Builds the lanes code of one kernel with counters; nothing is cached."""

    counters: Any = None
    blocks: list[CountedBlock] = field(default_factory=list)

    def stored(self, shape: Size) -> Specialised | None:
        return None

    def make(self, shape: Size) -> Specialised:
        record = self._compile(shape)
        build = self._load(record)
        assert build is not None, "it was just written"
        path = self.compiler.store.artefact(record["artefact"])
        if path is not None:
            path.unlink(missing_ok=True)  # it is loaded, and no later process has its counters
        return build

    def _scalar(self, shape: Size, folder: Any) -> str:
        text, blocks = instrumented(with_lines(self, shape), ctypes.addressof(self.counters))
        self.blocks[:] = blocks
        return text


class LaunchCounter:
    """Counts the launches of a pipeline from now on; the device must run threadgroups sequentially."""

    def __init__(self, state: Any) -> None:
        builder, self._counters = state.code.lanes.builder, (ctypes.c_uint64 * (_COUNTERS * MOST_BLOCKS))()
        self._builder = _CountingBuilder(
            builder.spec, builder.compiler, builder.key, builder.threadgroup_bytes, counters=self._counters
        )
        self._choice = LanesChoice(self._builder, budget=None)
        state.code = replace(state.code, lanes=self._choice)

    def problem(self) -> str:
        """Why nothing could be counted; empty where it could."""
        return "; ".join(self._choice.declined().values())

    def blocks(self) -> list[CountedBlock]:
        """The blocks with what was counted so far."""
        for number, block in enumerate(self._builder.blocks):
            at = _COUNTERS * number
            block.passes, block.threads, block.divided = self._counters[at : at + _COUNTERS]
        return self._builder.blocks

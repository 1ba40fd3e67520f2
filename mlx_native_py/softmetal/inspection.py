"""Memory access patterns of a kernel's loads and stores, per source line.

The kernel is compiled again with line tables; what runs is not affected. The divergence analysis of the lanes engine
classifies addresses: consecutive threads on consecutive bytes, at a stride, or arbitrary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .engines.lanes.analysis.shape import VARYING, LaneShape
from .engines.lanes.analysis.shared_memory import shared_allocas
from .engines.lanes.analysis.uniformity import Analysis, analyse
from .engines.lanes.ir import flow
from .engines.lanes.ir.layout import size_of
from .engines.lanes.ir.model import Declined, Instruction, IrConstant, IrFunction, PointerType, Value
from .engines.lanes.ir.parse import parse_function, parse_module
from .line_table import LineTable, Place
from .msl.build import SOURCE_NAME
from .msl.lanes import LanesBuilder
from .program import Diagnostic, Size
from .source_lines import place_name, quoting
from .toolchain import uses_elements

Pattern = Literal["same", "neighbouring", "strided", "gathered"]
ENTRY = "soft_entry_point"
_BANKS, _BANK_BYTES = 32, 4
_ACCESS = re.compile(
    r"^  (?:%\S+ = )?(?:tail )?(?:load|store|call void @llvm\.memcpy)[ .].*?(?:, !dbg !(\d+))?(?:, !.*)?$", re.MULTILINE
)
_ARITHMETIC = frozenset(
    "fadd fsub fmul fdiv frem fneg add sub mul udiv sdiv urem srem shl lshr ashr and or xor".split()
)


@dataclass(frozen=True)
class MemoryAccess:
    """One load or store in the source, by the 32 threads of a simdgroup."""

    line: int
    source: str
    kind: Literal["load", "store"]
    argument: str
    """The argument that it is on; "threadgroup" for threadgroup memory, empty where that is not known."""
    nbytes: int
    """Bytes of one thread."""
    pattern: Pattern
    stride: int | None
    """Bytes from one thread to the next, where it is strided by a known number."""
    conflicts: int = 1
    """Of threadgroup memory: threads that meet in the busiest of 32 banks of 4 bytes, where addresses are known."""
    file: str = ""
    """The header that the line is in; empty for the source itself."""

    @property
    def place(self) -> str:
        return place_name(self.file, self.line)


@dataclass(frozen=True)
class Inspected:
    """A kernel's accesses, and the operations of one pass through its blocks; loops count once."""

    accesses: tuple[MemoryAccess, ...]
    operations: int
    branches: int
    divergent_branches: int
    has_loops: bool


def inspect_pipeline(state: Any, shape: Size) -> Inspected:
    """Looks at a pipeline of a device that asks for lanes; raises Declined where it cannot be read."""
    code = state.code
    text = with_lines(code.lanes.builder, shape)
    function = parse_function(parse_module(text), ENTRY)
    accesses, locations = _accesses_of(function), list(_locations(text))
    if len(accesses) != len(locations):
        raise Declined("its line table does not fit its code")
    places = dict(zip(accesses, locations, strict=True))
    flow.drop_unreachable(function)
    graph = flow.analyse(function)
    analysis = analyse(function, graph, shape, shared_allocas(function))
    names = {argument.index: argument.name for argument in code.kernel.arguments if argument.kind == "buffer"}
    locate = quoting(code.locate, state.source.text) if code.locate else lambda line, column: None
    memory: list[MemoryAccess] = []
    for inst in _accesses_of(function):
        seen = places.get(inst)
        where = locate(*seen) if seen else None
        if where is not None and not (isinstance(inst.type, PointerType) and inst.opcode == "load"):
            memory.extend(_access(inst, where, analysis, names))
    ends = [block.end for block in function.blocks if len(block.successors) > 1]
    divergent = [end for end in ends if not (analysis.shape_of(end.operands[0]) or VARYING).uniform]
    operations = sum(inst.opcode in _ARITHMETIC for inst in function.instructions())
    ordered = tuple(sorted(memory, key=lambda each: (each.file, each.line)))
    return Inspected(ordered, operations, len(ends), len(divergent), code.has_loops)


def with_lines(builder: LanesBuilder, shape: Size) -> str:
    spec, compiler = builder.spec, builder.compiler
    toolchain = compiler.toolchain
    text = f"#define SOFT_SHAPE {shape[0]}, {shape[1]}, {shape[2]}\n#line 1\n{spec.text()}"
    elements = uses_elements(text.encode())
    flags = [*toolchain.dialect(spec.math), *toolchain.engine_flags("lanes", elements=elements)]
    header = ["-include-pch", str(compiler.precompiled(flags)), "-w", "-fno-color-diagnostics", "-gline-tables-only"]
    with compiler.store.scratch() as folder:
        source, target = folder / SOURCE_NAME, folder / "lines.ll"
        source.write_text(text)
        toolchain.run(toolchain.to_ir(source, target, [*flags, *header]))
        return target.read_text()


def _accesses_of(function: IrFunction) -> list[Instruction]:
    return [inst for inst in function.instructions() if inst.opcode in ("load", "store") or _copies(inst)]


def _copies(inst: Instruction) -> bool:
    return inst.opcode == "call" and inst.callee.startswith("llvm.memcpy")


def _locations(text: str) -> Iterator[Place | None]:
    """The line and column of each load and store of the entry, in the text that the compiler saw."""
    start = re.search(rf"^define [^\n]*@{ENTRY}\(", text, re.MULTILINE)
    assert start is not None
    body = text[start.start() : text.index("\n}", start.start())]
    table = LineTable(text)
    for number in _ACCESS.findall(body):
        yield table.place(number)


def _parts(inst: Instruction) -> Iterator[tuple[Literal["load", "store"], Value, int]]:
    """What an instruction reads and writes: kind, address and bytes; a copy of a vector or struct does both."""
    if inst.opcode == "load":
        yield "load", inst.operands[0], size_of(inst.type)
    elif inst.opcode == "store":
        yield "store", inst.operands[1], size_of(inst.operands[0].type)
    else:
        target, source, size = inst.operands[:3]
        nbytes = size.value if isinstance(size, IrConstant) and size.value else 0
        yield "load", source, nbytes
        yield "store", target, nbytes


def _access(inst: Instruction, where: Diagnostic, analysis: Analysis, names: dict[int, str]) -> Iterator[MemoryAccess]:
    for kind, pointer, nbytes in _parts(inst):
        shape = analysis.shape_of(pointer) or VARYING
        pattern, stride = _pattern(shape, nbytes)
        argument = _argument(pointer, names)
        busiest = _busiest_bank(shape) if argument == "threadgroup" else 1
        text = where.source_line.strip()
        yield MemoryAccess(where.line, text, kind, argument, nbytes, pattern, stride, busiest, where.file)


def _pattern(shape: LaneShape, nbytes: int) -> tuple[Pattern, int | None]:
    if shape.uniform:
        return "same", 0
    if shape.offsets is None:
        return "gathered", None
    if shape.stride is not None:
        return "strided", None
    steps = {later - earlier for earlier, later in zip(shape.offsets, shape.offsets[1:], strict=False)}
    if len(steps) > 1:
        return "gathered", None
    step = steps.pop()
    return ("neighbouring", step) if abs(step) <= nbytes else ("strided", step)


def _busiest_bank(shape: LaneShape) -> int:
    """Threads on the same bank and on different words of it; 1 is no conflict, or not known."""
    if shape.offsets is None or shape.stride is not None:
        return 1
    words = {offset // _BANK_BYTES for offset in shape.offsets}
    banks = [word % _BANKS for word in words]
    return max(banks.count(bank) for bank in set(banks))


def _argument(pointer: Value, names: dict[int, str]) -> str:
    """Follows an address to the table of buffers that it came from."""
    while isinstance(pointer, Instruction) and pointer.opcode == "getelementptr":
        pointer = pointer.operands[0]
    if not (isinstance(pointer, Instruction) and pointer.opcode == "load"):
        return ""
    table, offset = pointer.operands[0], 0
    if isinstance(table, Instruction) and table.opcode == "getelementptr":
        last = table.operands[-1]
        offset = int(last.text) if isinstance(last, IrConstant) and last.text.isdecimal() else -1
        table = table.operands[0]
    if not (isinstance(table, Instruction) and table.opcode == "load"):
        return "threadgroup"  # the group itself, which has the address of its memory
    return names.get(offset // 8, "") if offset >= 0 else ""

"""Vectorises a kernel: from clang's IR for one thread to IR for a simdgroup of 32 lanes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from .analysis.groups import find_groups
from .analysis.intrinsics import PREFIX, Size, lane_function
from .analysis.regions import is_large, plan
from .analysis.shape import VARYING, WIDTH
from .analysis.shared_memory import shared_allocas
from .analysis.steps import deciding_slots
from .analysis.tables import constant_tables, permutations
from .analysis.uniformity import Analysis, analyse, lane_stride
from .emit.control import Control
from .emit.frame import Writer, lanes_type
from .ir import byte_products, flow, private_arrays, small_vectors
from .ir.model import Declined, FunctionText, Instruction, IntType, IrFunction, Module, Value
from .ir.narrow import narrow
from .ir.parse import parse_function, parse_module

ENTRY = "soft_lanes_entry"
AVX512, AVX2 = 16, 8  # floats in a register
_NAMES = re.compile(r'@("[^"]*"|[-\w$.]+)')
_CALLS = re.compile(r'call void @"?([-\w$.]+)')
_MOST_INLINED = 64  # calls of one function; more of them make code that takes long to compile
# Hints of the optimiser, which refer to parts of the module that are not kept.
_METADATA = re.compile(r",? ![\w.]+ !\d+|^.*\(metadata .*$", re.MULTILINE)
_BY_ADDRESS = re.compile(r" (?:byval|sret|inalloca|preallocated|byref)\(")
_WIDTHS = re.compile(r'"(?:min-legal|prefer)-vector-width"="\d+"')
_KEPT_ATTRIBUTE = re.compile(r'"[^"]*"(?:="[^"]*")?')


@dataclass(frozen=True)
class Vectors:
    """A module for 32 lanes, and the buffer slots that determine its number of steps; see `deciding_slots`."""

    text: str
    decided_by: frozenset[int] | None


def vectorise(text: str, entry: str, size: Size) -> Vectors:
    """The module with `soft_lanes_entry(group, fiber, simdgroup)` in place of `entry`; raises Declined.

    `size` is the threadgroup's.
    """
    module = parse_module(text)
    width = _register_width(module)
    function = parse_function(module, entry)
    flow.drop_unreachable(function)
    _read_boxes(function)
    analysis = _analysed(function, size)
    decided_by = deciding_slots(module, function, analysis.flow)
    _simplify(function, analysis, byte_sums=width >= AVX2)
    analysis = _analysed(function, size)
    groups = find_groups(function, lambda value: analysis.shape_of(value) or VARYING)
    writer = Writer(
        analysis,
        groups=groups,
        native_masks=width == AVX512,
        attributes=_kept_attributes(module, function),
        tables=constant_tables(module),
        permutations=permutations(" ".join(module.attributes.values())),
        is_large=is_large(analysis.flow),
    )
    lines = _write(writer, function, size)
    head = f"define void @{ENTRY}(ptr {function.parameters[0].text}, ptr %fiber, i32 %simdgroup)"
    body = "\n".join([f"{head} nounwind {writer.attributes} {{", *lines, "}", *writer.helpers.values(), ""])
    return Vectors(_assemble(module, entry, body, list(writer.declarations)), decided_by)


def _simplify(function: IrFunction, analysis: Analysis, *, byte_sums: bool) -> None:
    """Scalars in place of what lanes could hold only badly; the analysis does not hold for what it leaves."""
    small_vectors.split(function, lambda value: (analysis.shape_of(value) or VARYING).uniform)
    narrow(function)
    if byte_sums:
        byte_products.join(function)
    private_arrays.rewrite(function)


def _kept_attributes(module: Module, function: IrFunction) -> str:
    attributes = " ".join(_KEPT_ATTRIBUTE.findall(_attributes(module, function)))
    if _register_width(module) != AVX512:
        return attributes
    return f'{_WIDTHS.sub("", attributes)} "min-legal-vector-width"="512" "prefer-vector-width"="512"'


def _read_boxes(function: IrFunction) -> None:
    """What lanes take out of the boxes becomes loads, which until here were calls that nothing could move."""
    for inst in function.instructions():
        if lane_function(inst.callee) == "take" and isinstance(inst.type, IntType):
            inst.opcode, inst.callee, inst.align, inst.attributes = (
                "load",
                "",
                inst.type.bits // 8,
                [],
            )
            inst.flags, inst.convention = (), ""


def _register_width(module: Module) -> int:
    """Floats in a register of the processor that the module is for; 0 where it is not an x86."""
    features = " ".join(module.attributes.values())
    widths = {"+avx512bw": AVX512, "+avx2": AVX2, "+sse2": 4}
    return next((width for feature, width in widths.items() if f"{feature}," in features), 0)


def _analysed(function: IrFunction, size: Size) -> Analysis:
    return analyse(function, flow.analyse(function), size, shared_allocas(function))


def _write(writer: Writer, function: IrFunction, size: Size) -> list[str]:
    _make_slots(writer)
    chain = plan(writer.analysis)
    control = Control(writer, chain)
    for inst in function.instructions():
        if inst.opcode == "alloca":
            writer.places[inst] = _place(writer, inst)
    control.write()
    threads = size[0] * size[1] * size[2]
    begin = ["start:"]
    mask = "-1"
    if chain.begins_apart:
        mask = "%begin"
        begin += [
            f"  %first = mul i32 %simdgroup, {WIDTH}",
            f"  %there = sub i32 {threads}, %first",
            f"  %fewer = call i32 @llvm.umin.i32(i32 %there, i32 {WIDTH})",
            f"  %lacking = sub i32 {WIDTH}, %fewer",
            f"  {mask} = lshr i32 -1, %lacking",
        ]
    first = control.start(function.entry, mask)
    return [begin[0], *writer.slots, *begin[1:], *first, *writer.lines]


def _place(writer: Writer, inst: Instruction) -> str:
    if inst in writer.analysis.once:
        return writer.slot(str(inst.element), "shared", inst.align)
    return writer.slot(f"[{WIDTH * lane_stride(inst)} x i8]", "private", max(inst.align, 64))


def _make_slots(writer: Writer) -> None:
    """For values that are used outside the block that makes them."""
    analysis = writer.analysis
    for block in analysis.flow.order:
        for inst in block.instructions:
            sources = inst.blocks if inst.opcode == "phi" else [block] * len(inst.operands)
            for operand, source in zip(inst.operands, sources, strict=True):
                if not isinstance(operand, Instruction) or analysis.seen(operand, source).known:
                    continue
                if operand.opcode == "alloca":
                    continue
                if analysis.is_temporally_divergent(operand, source):
                    _slot(writer, writer.last, operand, varying=True)
                elif analysis.home[operand] is not source or operand.opcode == "phi":
                    _slot(writer, writer.kept, operand, varying=analysis.seen(operand, source).varying)
    for inst in analysis.function.instructions():
        stride = (analysis.shape_of(inst) or VARYING).stride
        if isinstance(stride, Instruction):
            _slot(writer, writer.kept, stride, varying=False)
    for value in writer.last:
        if isinstance(value, Instruction) and value.opcode == "phi":
            _slot(writer, writer.kept, value, varying=analysis.seen(value, analysis.home[value]).varying)


def _slot(writer: Writer, slots: dict[Value, str], value: Instruction, *, varying: bool) -> None:
    if value not in slots:
        slots[value] = writer.slot(lanes_type(value.type) if varying else str(value.type), "keep")


def _attributes(module: Module, function: IrFunction) -> str:
    return " ".join(module.attributes.get(word, word) for word in function.attributes.split())


def _assemble(module: Module, entry: str, body: str, declarations: list[str]) -> str:
    """The new function with all that it needs; what only the old one needed goes."""
    needed: dict[str, FunctionText] = {}
    given = {name.strip('"') for line in declarations for name in _NAMES.findall(line)} | {entry}
    waiting = [body, *module.globals.values()]
    waiting += [f.text for f in module.functions.values() if f.name != entry and f.body and _is_visible(f)]
    needed.update({f.name: f for f in module.functions.values() if f.name != entry and f.body and _is_visible(f)})
    while waiting:
        for name in _NAMES.findall(waiting.pop()):
            function = module.functions.get(name.strip('"'))
            if function is not None and function.name not in needed and function.name not in given:
                needed[function.name] = function
                waiting.append(function.text)
    for function in needed.values():
        if function.body and PREFIX in function.body:
            raise Declined(f"{function.name} is not inlined, and its lanes exchange values")
        if f'@"{function.name}"(' in body and _BY_ADDRESS.search(function.head):
            raise Declined(f"{function.name} is not inlined, and takes an argument by address")
    for name, count in Counter(_CALLS.findall(body)).items():
        if count > _MOST_INLINED and name in needed:
            needed[name] = _not_inlined(module, needed[name])
    groups = [f"attributes {name} = {{ {words} }}" for name, words in module.attributes.items()]
    types = [f"{name} = type {replace(kind, name='')}" for name, kind in module.types.items()]
    texts = [_METADATA.sub("", function.text) for function in needed.values()]
    return "\n".join([module.header, *types, *module.globals.values(), *declarations, body, *texts, *groups, ""])


def _not_inlined(module: Module, function: FunctionText) -> FunctionText:
    head, number, rest = re.split(r" (#\d+)", function.head, maxsplit=1) if " #" in function.head else ("", "", "")
    if not number or "alwaysinline" in module.attributes.get(number, ""):
        return function
    return replace(function, head=f"{head} noinline {number}{rest}")


def _is_visible(function: FunctionText) -> bool:
    """Whether others than this module may call it."""
    return not any(
        f" {word} " in function.head for word in ("internal", "private", "linkonce_odr", "available_externally")
    )


__all__ = ["Declined", "ENTRY", "Vectors", "vectorise"]

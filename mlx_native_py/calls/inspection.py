"""Kernel inspection: arguments, engine, memory access per line, and counts from a launch."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .. import settings
from ..encoder.context import DeviceContext
from ..encoder.launch import group_of
from ..metal import open_metal
from ..pipelines.compile_options import CompileOptions
from ..pipelines.pipeline import Binding, Pipeline
from ..softmetal.engines.lanes.ir.model import Declined
from ..softmetal.inspection import Inspected, MemoryAccess, inspect_pipeline
from ..softmetal.source_lines import Locate, quoting
from ..table import Table
from .measuring import CountedLaunch

__all__ = ["COUNTED", "Inspection", "NOTE", "inspect_kernel", "locator"]

NOTE = (
    "From the source and the software device's compiler. Patterns are facts about addresses; how fast an Apple GPU "
    "is on them, its registers and its instructions are not known here."
)
COUNTED = (
    "Counted on the software device, in the code that its compiler made. How often a line runs and where threads part "
    "is the kernel's own doing on this data; how many instructions an Apple GPU takes for a line is not known here."
)
_PATIENCE_S = 10.0
_NAP_S = 0.02
_GROUP = 256


@dataclass(frozen=True, repr=False)
class Inspection:
    """The result of inspecting a kernel; `print` shows it as text, `to_dict` returns plain values."""

    kernel: str
    group: tuple[int, int, int]
    arguments: tuple[Binding, ...]
    threadgroup_bytes: int
    """Of threadgroup variables; threadgroup arguments are added at launch."""
    engine: str
    declined: Mapping[str, str]
    """Why other engines of the software device were not used."""
    found: Inspected | None
    problem: str = ""
    """Why the lines could not be analysed."""
    measured: CountedLaunch | None = None
    """Counts from a launch, if one was given."""
    unmeasured: str = ""
    """Why the launch could not be counted."""

    @property
    def accesses(self) -> tuple[MemoryAccess, ...]:
        return self.found.accesses if self.found else ()

    def nbytes(self, kind: str) -> int:
        """Bytes of device memory that one thread loads or stores, counting each loop once."""
        mine = [each for each in self.accesses if each.kind == kind and each.argument != "threadgroup"]
        return sum(each.nbytes for each in mine)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        arguments = [
            {"name": each.name, "slot": each.index, "kind": each.kind, "access": each.access, "type": _type(each)}
            for each in self.arguments
        ]
        return {
            **asdict(self),
            "arguments": arguments,
            "declined": dict(self.declined),
            "note": NOTE,
            "measured_note": COUNTED if self.measured else "",
        }

    def __str__(self) -> str:
        listing = [f"  {'  '.join(row)}" for row in _columns(self.listing())] if self.measured else []
        notes = [NOTE, *[COUNTED] * bool(self.measured)]
        return "\n".join([*self.facts(), *(f"  {_line(each)}" for each in self.accesses), *listing, *notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """An HTML table for notebooks."""
        head, *rows = self.listing() if self.measured else _listed(self.accesses)
        title, *facts = self.facts()
        return Table(title, head, rows, [*facts, NOTE, *[COUNTED] * bool(self.measured)], words=head)._repr_html_()

    def listing(self) -> list[tuple[str, ...]]:
        """The lines that a launch ran, with a header row: counts, memory access and source."""
        rows: list[tuple[str, ...]] = [("line", "threads", "instructions", "at once", "divided", "memory", "source")]
        for each in self.measured.lines if self.measured else ():
            uses = [_use(access) for access in self.accesses if (access.file, access.line) == (each.file, each.line)]
            divided = f"{each.divided}/{each.branches}" if each.branches else "-"
            counts = (each.place, str(each.threads), str(each.instructions), f"{each.active_share:.0%}", divided)
            rows.append((*counts, ", ".join(dict.fromkeys(uses)) or "-", each.source))
        return rows

    def facts(self) -> list[str]:
        """Everything but the lines, one sentence each."""
        arguments = ", ".join(f"{each.access} {_type(each)} {each.name}" for each in self.arguments)
        lines = [f"{self.kernel}({arguments})"]
        lines.append(f"threadgroup memory: {self.threadgroup_bytes} bytes of variables")
        why = "".join(f"; {name}: {reason}" for name, reason in self.declined.items())
        lines.append(f"engine of the software device for groups of {self.group}: {self.engine}{why}")
        return [*lines, *self._static(), *self._counted()]

    def _counted(self) -> list[str]:
        if self.unmeasured:
            return [f"the launch could not be counted: {self.unmeasured}"]
        return self.measured.facts() if self.measured else []

    def _static(self) -> list[str]:
        if self.found is None:
            return [f"its lines could not be looked at: {self.problem}"]
        loops = ", with each loop counted once" if self.found.has_loops else ""
        branches, divergent = self.found.branches, self.found.divergent_branches
        return [
            f"a thread loads {self.nbytes('load')} and stores {self.nbytes('store')} bytes of device memory and does "
            f"{self.found.operations} operations{loops}",
            f"branches: {branches}, of which {divergent} may divide a simdgroup",
        ]


def inspect_kernel(
    source: str, name: str, group: Any = None, constants: Mapping[Any, Any] | None = None, options: Any = None
) -> Inspection:
    """Analyses a kernel of a source for threadgroups of `group` threads (a number, or up to three)."""
    options = CompileOptions() if options is None else options
    with settings.override(soft_checked=False, soft_isolated=False, soft_engine="lanes"):
        on_lanes = _pipeline(source, name, constants, options)
    with settings.override(soft_checked=False, soft_isolated=False, soft_engine="auto"):
        plain = _pipeline(source, name, constants, options)
    shape = _shape(plain, group)
    inspected, problem = None, ""
    try:
        inspected = inspect_pipeline(on_lanes.mtl.state, shape)
    except Declined as declined:
        problem = str(declined)
    engine, declined_engines = _engine(plain.mtl, shape)
    bindings, static = plain.bindings, plain.static_threadgroup_bytes
    return Inspection(name, shape, bindings, static, engine, declined_engines, inspected, problem)


def locator(source: str, name: str, constants: Mapping[Any, Any] | None, options: Any) -> Locate:
    """A function from positions in the compiled text to lines of the source."""
    with settings.override(soft_checked=False, soft_isolated=False, soft_engine="lanes"):
        locate: Locate = _pipeline(source, name, constants, options or CompileOptions()).mtl.state.code.locate
    return quoting(locate, source)


def _pipeline(source: str, name: str, constants: Mapping[Any, Any] | None, options: CompileOptions) -> Pipeline:
    device = DeviceContext(open_metal("soft"))
    try:
        library = device.kernels.library(source, options)
        return device.kernels.get_pipeline(name, constants or {}, library=library)
    finally:
        device.close()


def _shape(pipeline: Pipeline, group: Any) -> tuple[int, int, int]:
    if group is None:
        group = min(_GROUP, pipeline.max_threads)
    return group_of(pipeline, group)


def _engine(mtl: Any, shape: tuple[int, int, int]) -> tuple[str, Mapping[str, str]]:
    mtl.soft_prepare(shape)
    end = time.monotonic() + _PATIENCE_S
    while not mtl.soft_settled() and time.monotonic() < end:
        time.sleep(_NAP_S)
    if not mtl.soft_settled():
        return f"{mtl.soft_engine()}, while code for lanes is still being built", mtl.soft_declined()
    declined = mtl.soft_declined()
    lanes = [name for name in declined if name.startswith("lanes")]
    return ("lanes" if not lanes else str(mtl.soft_engine())), declined


def _type(binding: Binding) -> str:
    return binding.scalar.name if binding.scalar else binding.kind if binding.kind == "threadgroup" else "struct"


def _listed(accesses: tuple[MemoryAccess, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("line", "memory", "source")]
    return rows + [(each.place, _use(each), each.source) for each in accesses]


def _use(access: MemoryAccess) -> str:
    meet = f", {access.conflicts} on a bank" if access.conflicts > 1 else ""
    stride = f" by {access.stride}" if access.pattern == "strided" and access.stride is not None else ""
    return f"{access.kind} {access.argument or 'memory'} {access.pattern}{stride}{meet}"


def _columns(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return [(*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]) for row in rows]


def _line(access: MemoryAccess) -> str:
    stride = f" by {access.stride} bytes" if access.pattern == "strided" and access.stride is not None else ""
    meet = f", {access.conflicts} threads on one bank" if access.conflicts > 1 else ""
    where = access.argument or "memory"
    what = f"{access.kind} {where}, {access.nbytes} bytes, {access.pattern}{stride}{meet}"
    return f"{access.place:>4}: {what} | {access.source}"

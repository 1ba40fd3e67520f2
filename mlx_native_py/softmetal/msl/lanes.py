"""Lanes builds of one kernel per threadgroup size: IR, vector code and shared object."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from ..cache import digest
from ..compiler_process import in_time
from ..engines import abi
from ..engines.choice import BUDGET_S, LanesChoice, lanes_refused
from ..engines.lanes.ir.model import Declined
from ..program import Executable, Size, Specialised
from ..toolchain import CompileLimits, CompilerFailed, StepLimitExceeded, stack_bytes, uses_elements
from .build import SOURCE_NAME, BuildSpec
from .compiler import Compiler
from .image import ImageRefused, check_image
from .padding import may_have_padding, with_zeros

ENTRY = "soft_lanes_entry"
ALONE = "soft_lanes_alone"
LARGE_STACK = 256 << 10  # what a thread of the host may not have left
# What one step of the compiler may take, and the lines of text that take about as much: those tell before it is spent.
MOST_SECONDS = 8
MOST_MIB = 320
MOST_SCALAR, MOST_VECTOR = 30_000, 80_000
_SAMPLES = re.compile(r"\.\s*(sample|gather)")
_PASS = Path(__file__).parent.parent / "engines" / "lanes"
# Simdgroups that never wait for each other run one after the other, without fibers.
_TURNS = """
define void @{alone}(ptr %group, ptr %lane) {{
begin:
  br label %turn
turn:
  %simdgroup = phi i32 [ 0, %begin ], [ %next, %turn ]
  call void @{entry}(ptr %group, ptr %lane, i32 %simdgroup)
  %next = add i32 %simdgroup, 1
  %more = icmp ult i32 %next, {count}
  br i1 %more, label %turn, label %end
end:
  ret void
}}
"""


@cache
def _pass_identity() -> str:
    return digest(*(path.read_bytes() for path in sorted(_PASS.rglob("*.py"))), Path(__file__).read_bytes())


class _TooLarge(Declined):
    """The kernel would take the compiler more than launches that can run elsewhere are worth."""


@dataclass(frozen=True)
class LanesBuilder:
    """Finds and creates the lanes builds of one kernel; thread-safe."""

    spec: BuildSpec
    compiler: Compiler
    key: str  # of the kernel's build for the other engines
    threadgroup_bytes: int  # of that build, after which threadgroup arguments are placed
    within_budget: bool = False  # whether what takes the compiler too long is declined

    def stored(self, shape: Size) -> Specialised | None:
        """The build in the disk cache, if there is one; raises Declined where the kernel was declined before."""
        body = self.compiler.store.record(self._key(shape))
        record = json.loads(body) if body else None
        if record is None or record.get("too_large") and not self.within_budget:
            return None
        return self._load(record)

    def make(self, shape: Size) -> Specialised:
        """Compiles and keeps the build, unless another process has by now; raises Declined."""
        with self.compiler.store.once(self._key(shape)):
            build = self.stored(shape) or self._load(self._made(shape))
        if build is None:
            raise Declined("the build vanished from the cache")
        return build

    def _made(self, shape: Size) -> dict[str, Any]:
        try:
            record = in_time(self.compiler.toolchain.limits, partial(self._compile, shape))
        except Declined as declined:
            record = {"declined": str(declined), "too_large": isinstance(declined, _TooLarge)}
        self.compiler.store.put_record(self._key(shape), json.dumps(record).encode())
        return record

    def _key(self, shape: Size) -> str:
        return digest("lanes", _pass_identity(), self.key, str(shape))

    def _compile(self, shape: Size) -> dict[str, Any]:
        from ..engines.lanes.vectorise import vectorise  # most programs never come here

        with self.compiler.store.scratch() as folder:
            scalar = self._scalar(shape, folder)
            self._require_size("one thread's code", scalar, MOST_SCALAR)
            vectors = vectorise(scalar, "soft_entry_point", shape)
            self._require_size("the code of 32 lanes", vectors.text, MOST_VECTOR)
            alone = "@soft_lanes_barrier" not in vectors.text
            count = -(-shape[0] * shape[1] * shape[2] // 32)
            turns = _TURNS.format(alone=ALONE, entry=ENTRY, count=count) if alone else ""
            source, target, linked = folder / "lanes.ll", folder / "lanes.o", folder / "lanes.so"
            source.write_text(vectors.text + turns)
            self._assemble(source, target)
            self._run(self.compiler.toolchain.link([target], linked))
            image = linked.read_bytes()
            try:
                check_image(image)
            except ImageRefused as refused:
                raise Declined(f"not loaded: {refused}") from None
            artefact = self.compiler.store.put_artefact(image, ".so")
            stack = stack_bytes(target.with_suffix(".su"))
            if stack > abi.MAX_STACK_BYTES:
                raise Declined(f"the variables of 32 threads take {stack} bytes")
            decided_by = None if vectors.decided_by is None else sorted(vectors.decided_by)
            alone = alone and stack <= LARGE_STACK
            return {"artefact": artefact, "alone": alone, "stack": stack, "decided_by": decided_by}

    def _scalar(self, shape: Size, folder: Path) -> str:
        """The kernel as LLVM's text, one thread of it."""
        try:
            return self._to_ir(self.spec, shape, folder)
        except CompilerFailed:
            # Names may have misled about what the kernel needs.
            try:
                return self._to_ir(replace(self.spec, whole=True), shape, folder)
            except CompilerFailed as failure:
                raise Declined(f"not compiled: {_first_error(failure.output)}") from None

    def _to_ir(self, spec: BuildSpec, shape: Size, folder: Path) -> str:
        source, target, toolchain = folder / SOURCE_NAME, folder / "scalar.ll", self.compiler.toolchain
        text = f"#define SOFT_SHAPE {shape[0]}, {shape[1]}, {shape[2]}\n#line 1\n{spec.text()}"
        source.write_text(text)
        elements = uses_elements(text.encode())
        flags = [*toolchain.dialect(spec.math), *toolchain.engine_flags("lanes", elements=elements)]
        header = ["-include-pch", str(self.compiler.precompiled(flags)), "-w", "-fno-color-diagnostics"]
        options = [*flags, *header]
        if may_have_padding(text):
            plain = source.with_suffix(".plain.ll")
            self._within(toolchain.to_plain_ir(source, plain, options))
            plain.write_text(with_zeros(plain.read_text()))
            source = plain
        self._within(toolchain.to_ir(source, target, options))
        return target.read_text()

    def _assemble(self, source: Path, target: Path) -> None:
        assemble = self.compiler.toolchain.assemble
        try:
            self._within(assemble(source, target))
        except CompilerFailed:
            # LLVM has vectors which it simplifies to what it has no instruction for; with fewer passes it does not.
            self._run(assemble(source, target, "-O1"))

    def _run(self, command: list[str]) -> None:
        try:
            self._within(command)
        except CompilerFailed as failure:
            raise Declined(f"not assembled: {_first_error(failure.output)}") from None

    def _within(self, command: list[str]) -> None:
        """Runs a step; one that takes too much is ended, so that a launch's other engine has the processor."""
        toolchain = self.compiler.toolchain
        try:
            toolchain.run(command, limits=_budget(toolchain.limits) if self.within_budget else None)
        except StepLimitExceeded as exceeded:
            raise _TooLarge(f"too large: {exceeded}") from None

    def _require_size(self, what: str, text: str, most: int) -> None:
        lines = text.count("\n")
        if self.within_budget and lines > most:
            raise _TooLarge(f"too large: {what} has {lines} lines, expected at most {most}")

    def _load(self, record: dict[str, Any]) -> Specialised | None:
        if "declined" in record:
            raise Declined(record["declined"])
        path = self.compiler.store.artefact(record["artefact"])
        if path is None:
            return None
        image = self.compiler.runtime().load(path)
        if image.call("soft_tg_size") & 0xFFFFFFFF > self.threadgroup_bytes:
            raise Declined("its threadgroup variables take more room than on fibers")
        address = image.address(ALONE if record["alone"] else ENTRY)
        engine: Literal["flat", "lanes"] = "flat" if record["alone"] else "lanes"
        decided_by = record["decided_by"]
        return Specialised(address, engine, record["stack"], image, None if decided_by is None else tuple(decided_by))


def _budget(limits: CompileLimits) -> CompileLimits:
    """The limits of a step; where the settings allow less, theirs."""
    return replace(
        limits,
        cpu_seconds=MOST_SECONDS if limits.seconds > MOST_SECONDS else None,
        data_mib=MOST_MIB if limits.memory_mib > MOST_MIB else None,
    )


def _first_error(output: str) -> str:
    return output.partition("error: ")[2].partition("\n")[0] or output[:200]


def with_lanes(code: Executable, spec: BuildSpec, compiler: Compiler, key: str) -> Executable:
    """The executable with its lanes code, or with the reason why it has none."""
    samples = spec.manifest.textures and _SAMPLES.search(spec.text()) is not None
    reason = lanes_refused(compiler.engine, checked=spec.checked, samples=samples)
    if reason:
        return replace(code, declined={**code.declined, "lanes": reason})
    must, taken = compiler.engine == "lanes", code.static_threadgroup_bytes
    builder = LanesBuilder(spec, compiler, key, taken, within_budget=not must)
    return replace(code, lanes=LanesChoice(builder, budget=None if must else BUDGET_S))

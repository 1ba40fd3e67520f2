"""The build of one kernel with given constants: source text, shared object, and reflection."""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..cache import digest
from ..debug_lines import line_before
from ..definedness.build import compile_defined, identity
from ..engines import abi
from ..engines.choice import scalar_engine
from ..program import EngineChoice, Executable, KernelArgument, KernelImage, KernelSignature, ThreadgroupVariable
from ..toolchain import CompilerFailed, Engine, MathMode
from .closure import reach
from .compiler import Compiler
from .emit import Piece, Segment, assemble
from .evaluate import NotConstant
from .image import ImageRefused, check_image
from .manifest import Bound, Function, LibraryManifest
from .padding import compile_cleared, may_have_padding
from .remarks import refuse_remarked
from .values import condition_value

MAX_THREADS = 1024
SOURCE_NAME = "kernel.clcpp"
_UINT32 = (1 << 32) - 1
_LOOP = re.compile(r"\b(for|while|do|goto|matmul2d)\b")  # a product of tensors loops over their depth
# A constant whose value is worked out when the kernel is loaded would be code that runs outside of it.
NO_CONSTRUCTORS = "-Werror=global-constructors"
# What only a whole source can show.
WHOLE = tuple(f"-Werror={name}" for name in ("undefined-func-template", "ctad-maybe-unsupported"))


class MissingConstant(Exception):
    """A required function constant was not given, or has too few bytes."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class BuildSpec:
    """A kernel to build: an entry of a manifest, with constants."""

    manifest: LibraryManifest
    entry: str
    constants: Mapping[int, bytes]
    checked: bool
    math: MathMode
    whole: bool = False  # with all of the source, needed or not, so that all of it is checked

    @property
    def function(self) -> Function:
        return self.manifest.functions[self.manifest.entries[self.entry].function]

    @property
    def used(self) -> list[Bound]:
        """The function constants that the kernel can come by."""
        reached = self.manifest.reached(self.entry)
        return [bound for name, bound in self.manifest.constants.items() if name in reached]

    def waits(self) -> list[str]:
        """The names through which the kernel's threads wait for each other."""
        return sorted(self.manifest.reached(self.entry) & self.manifest.waiting)

    def loops(self) -> bool:
        """Whether its threads may go round: in loops, or in functions that call themselves."""
        called, uses = self.manifest.reached(self.entry), self.manifest.uses
        bodies = [each for each in self.manifest.pieces if each.kind == "body" and each.owner in called]
        return _LOOP.search(self.text()) is not None or any(
            re.search(rf"\b{each.owner}\b", each.text) or each.owner in reach(uses, uses[each.owner]) for each in bodies
        )

    def engine(self, asked: EngineChoice) -> tuple[Engine, dict[str, str]]:
        """The engine that it is compiled for at first, and why not the other."""
        return scalar_engine(asked, checked=self.checked, waits=self.waits())

    def key(self, library: str, asked: EngineChoice) -> str:
        """Names the build: the library, the kernel, the constants it uses, and the way it is compiled."""
        engine, _ = self.engine(asked)  # choices that come to the same share a build
        given = {bound.constant.index: self.constants.get(bound.constant.index) for bound in self.used}
        shown = json.dumps({index: value.hex() if value is not None else None for index, value in given.items()})
        checks = identity() if self.checked else ""
        return digest("kernel", library, self.entry, shown, checks, engine)

    def switched_on(self) -> list[bool]:
        """For each parameter, whether its function constant keeps it."""
        constants = {name: bound.constant for name, bound in self.manifest.constants.items()}
        types = {name: bound.type for name, bound in self.manifest.constants.items()}
        switches = []
        for item in self.function.items:
            try:
                on = item.condition is None or condition_value(
                    item.condition, self.manifest.initialisers, constants, types, self.constants
                )
            except NotConstant as reason:
                raise MissingConstant(str(item.condition), f"function constant '{reason}' has no value") from None
            switches.append(on)
        return switches

    def defines(self) -> str:
        """The macros that stand for function constants."""
        lines = [*_library_part(self.manifest), "#define SOFT_FC constexpr"]
        used = {bound.number for bound in self.used}
        for name, bound in self.manifest.constants.items():
            given = self.constants.get(bound.constant.index)
            if given is None and bound.number in used and bound.constant.required:
                raise MissingConstant(name, f"function constant '{name}' (index {bound.constant.index}) has no value")
            if given is not None and len(given) < bound.type.size:
                need = bound.type.size
                raise MissingConstant(name, f"function constant '{name}' was given {len(given)} bytes, expected {need}")
            value = bound.type.literal(given if given is not None else bytes(bound.type.size))
            lines.append(f"#define SOFT_FC_{bound.number} {value}")
            lines.append(f"#define SOFT_FC_DEFINED_{bound.number} {'true' if given is not None else 'false'}")
        return "\n".join(lines)

    def wanted(self, part: Piece | Segment) -> bool:
        """Whether the kernel's text holds this part."""
        if part.kind != "body" or self.whole:
            return part.kind != "instantiation"
        return part.owner in self.manifest.reached(self.entry) or part.owner in self.manifest.always

    def text(self) -> str:
        """The whole text for clang; its body begins after as many lines as `defines` has, plus one."""
        called = self.manifest.entries[self.entry]
        on = self.switched_on()
        items = [item.macro if kept else "SOFT_NOTHING" for item, kept in zip(self.function.items, on, strict=True)]
        entry = f"SOFT_ENTRY(({called.expression}){''.join(', ' + item for item in items)})"
        limit = self.function.max_threads_name
        if limit:
            scope = self.function.name.rpartition("::")[0]
            limit = f"{scope}::{limit}" if scope else limit
            entry += f"\nSOFT_MAX_TOTAL_THREADS({limit}{called.template_arguments})"
        return f"{self.defines()}\n{assemble(self.manifest.pieces, self.wanted)}\n{entry}\n"


def _library_part(manifest: LibraryManifest) -> list[str]:
    """What the precompiled library lacks, because few kernels need it."""
    return ['#include "soft_texture.h"'] if manifest.textures else []


def check_defines(manifest: LibraryManifest) -> str:
    """Macros for a check of the whole source, where function constants are no constant expressions, as on Metal."""
    lines = [*_library_part(manifest), "#define SOFT_FC"]
    for bound in manifest.constants.values():
        lines.append(f"#define SOFT_FC_{bound.number} soft::not_yet_known<{bound.type.spelling}>()")
        lines.append(f"#define SOFT_FC_DEFINED_{bound.number} true")
    return "\n".join(lines)


def compile_spec(spec: BuildSpec, compiler: Compiler) -> bytes:
    """Compiles and links for flat or fibers; the answer is the record of the build, which names the artefact."""
    text = spec.text()
    engine, declined = spec.engine(compiler.engine)[0], dict[str, str]()
    with compiler.store.scratch() as folder:
        source = folder / SOURCE_NAME
        source.write_text(text)
        compiled = _compile(spec, compiler, source, engine)
        if compiled.waits:
            engine, declined["flat"] = "fibers", "threads wait for each other"
            compiled = _compile(spec, compiler, source, engine)
        refuse_remarked(compiled.remarks, source, spec.manifest.is_called if spec.whole else None)
        if compiled.stack_bytes > abi.MAX_STACK_BYTES:
            raise ImageRefused(
                f"the variables of a thread take {compiled.stack_bytes} bytes, expected at most {abi.MAX_STACK_BYTES}"
            )
        if engine == "flat" and not compiled.parallel and not spec.checked:
            declined["flat vectorised"] = "its threads keep arrays of their own"
        linked = folder / "kernel.so"
        compiler.toolchain.run(compiler.toolchain.link([compiled.path], linked, checked=spec.checked))
        image = linked.read_bytes()
        check_image(image)
        artefact = compiler.store.put_artefact(image, ".so")
    record = {"artefact": artefact, "engine": engine, "stack": compiled.stack_bytes, "declined": declined}
    record["whole"] = spec.whole
    return json.dumps(record).encode()


def _compile(spec: BuildSpec, compiler: Compiler, source: Path, engine: Engine) -> Any:
    cleared = compile_cleared if may_have_padding(source.read_text()) else None
    return compiler.toolchain.compile_kernel(
        source,
        source.with_suffix(".o"),
        engine,
        math=spec.math,
        checked=spec.checked,
        options=["-fno-color-diagnostics", NO_CONSTRUCTORS, *(WHOLE if spec.whole else ())],
        precompiled=compiler.precompiled,
        steps=compile_defined if spec.checked else cleared,
    )


def load(spec: BuildSpec, compiler: Compiler, body: bytes) -> Executable | None:
    """Loads a build; None if its artefact is gone or damaged."""
    record = json.loads(body)
    path = compiler.store.artefact(record["artefact"])
    if path is None:
        return None
    image = compiler.runtime(checked=spec.checked).load(path)
    variables = threadgroup_variables(image) if spec.checked else ()
    limit = spec.function.max_threads or MAX_THREADS
    if spec.function.max_threads_name:
        limit = min(limit, image.call("soft_max_total_threads") & _UINT32)
    return Executable(
        kernel=_kernel(spec, image),
        engine=record["engine"],
        entry=image.address("soft_entry_point"),
        static_threadgroup_bytes=_laid_out(variables) if spec.checked else image.call("soft_tg_size") & _UINT32,
        stack_bytes=record["stack"],
        max_total_threads=limit,
        declined={**spec.engine(compiler.engine)[1], **record["declined"]},
        image=image,
        whole=record["whole"],
        variables=variables,
        has_loops=spec.loops(),
        line_of=partial(line_before, path) if spec.checked else None,
    )


def threadgroup_variables(image: KernelImage) -> tuple[ThreadgroupVariable, ...]:
    """What stands in for them in a checked kernel."""
    table = abi.ThreadgroupPlace * ((image.call("soft_tg_size") & _UINT32) // ctypes.sizeof(abi.ThreadgroupPlace))
    places = table.from_buffer_copy(image.read(image.call("soft_tg_places"), ctypes.sizeof(table)))
    return tuple(ThreadgroupVariable(each.name.decode(), each.bytes, each.alignment) for each in places)


def _laid_out(variables: Sequence[ThreadgroupVariable]) -> int:
    """The bytes that they take outside of checked mode."""
    end = 0
    for each in variables:
        end = -(-end // each.alignment) * each.alignment + each.length
    return end


def _kernel(spec: BuildSpec, image: KernelImage) -> KernelSignature:
    """The signature with what the compiler knows about each argument."""
    on = spec.switched_on()
    kept = [item.argument for item, keep in zip(spec.function.items, on, strict=True) if keep and item.argument]
    count = image.call("soft_arguments_count") & _UINT32
    if count != len(kept):
        raise RuntimeError(f"{spec.entry} was compiled with {count} arguments, expected {len(kept)}")
    table = abi.SoftArgument * count
    known = table.from_buffer_copy(image.read(image.call("soft_arguments"), ctypes.sizeof(table)))
    arguments = [_sized(argument, known[index]) for index, argument in enumerate(kept)]
    constants = tuple(bound.constant for bound in spec.used)
    return KernelSignature(spec.entry, tuple(arguments), constants, spec.function.max_threads)


def _sized(argument: KernelArgument, known: Any) -> KernelArgument:
    if argument.table >= 0:
        return replace(argument, count=known.is_pointer, **_texture(known) if argument.kind == "texture" else {})
    return replace(
        argument,
        data_type=known.data_type,
        size=known.size,
        alignment=known.alignment,
        is_pointer=bool(known.is_pointer),
    )


def _texture(known: Any) -> dict[str, Any]:
    """What describes a texture; see soft_texture_entry.h."""
    access = known.alignment & 255
    return {
        "data_type": known.data_type,
        "texture_type": known.size,
        "access": ("read", "read", "write", "read_write")[access],
        "is_sampled": access == 0,
        "is_depth": bool(known.alignment >> 8),
    }


__all__ = [
    "BuildSpec",
    "CompilerFailed",
    "MissingConstant",
    "check_defines",
    "compile_spec",
    "load",
    "threadgroup_variables",
]

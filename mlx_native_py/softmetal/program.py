"""Values passed between the MSL front end, the engines and the Metal objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

Size = tuple[int, int, int]
EngineChoice = Literal["auto", "flat", "lanes", "fibers"]
WIDEST = 240  # characters of a line that a message shows; sources without line breaks are common
_NO_TAB = re.compile(r"[^\t]")


def caret(line: str, column: int) -> str:
    r"""A line, or the part of a long one, and a caret below one of its characters; tabs stay tabs.

    >>> caret("\tx = y;", 6).splitlines()
    ['\tx = y;', '\t    ^']
    """
    if len(line) > WIDEST:
        begin = max(0, min(column - 1 - WIDEST // 2, len(line) - WIDEST))
        line, column = line[begin : begin + WIDEST], column - begin
    return f"{line}\n{_NO_TAB.sub(' ', line[: column - 1].ljust(column - 1))}^"


@dataclass(frozen=True)
class SourceOptions:
    """The `MTLCompileOptions` of one source."""

    macros: tuple[tuple[str, str], ...] = ()
    math_mode: Literal["safe", "relaxed", "fast"] = "fast"
    language_version: tuple[int, int] = (3, 2)
    include_paths: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Diagnostic:
    """One compiler message, at the user's line."""

    severity: Literal["error", "warning"]
    message: str
    file: str
    line: int
    column: int
    source_line: str = ""

    def __str__(self) -> str:
        shown = f"\n{caret(self.source_line, self.column)}" if self.source_line else ""
        return f"{self.file}:{self.line}:{self.column}: {self.severity}: {self.message}{shown}"


class CompileError(Exception):
    """The source was rejected; `diagnostics` says where and why."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


@dataclass(frozen=True)
class KernelArgument:
    """One bindable argument of a kernel. Size and alignment are known after compilation (otherwise 0)."""

    kind: Literal["buffer", "threadgroup", "texture", "sampler"]
    index: int
    name: str
    access: Literal["read", "read_write", "write"]
    type_name: str = ""
    data_type: int = 0  # MTLDataType
    size: int = 0
    alignment: int = 0
    is_pointer: bool = True
    condition: str | None = None  # name of the function constant that switches it on
    texture_type: int = 0  # MTLTextureType
    is_depth: bool = False  # of a texture
    is_sampled: bool = False  # a texture with access::sample
    count: int = 1  # of an array of textures or samplers
    table: int = -1  # the buffer slot whose table holds its handle, for textures and samplers


@dataclass(frozen=True)
class ArgumentMember:
    """A member of an argument buffer's struct, or an array of them; `index` is its id."""

    index: int
    count: int
    kind: Literal["texture", "sampler", "buffer", "constant"]
    size: int  # of one element
    alignment: int


@dataclass(frozen=True)
class Constant:
    """A function constant: `constant T name [[function_constant(index)]]`."""

    name: str
    index: int
    type_name: str
    data_type: int  # MTLDataType
    required: bool = True  # False where is_function_constant_defined() guards it


@dataclass(frozen=True)
class KernelSignature:
    """A kernel's signature as declared; `name` is the host name."""

    name: str
    arguments: tuple[KernelArgument, ...]
    constants: tuple[Constant, ...] = ()
    max_total_threads: int | None = None


class KernelImage(Protocol):
    """A kernel's shared object where it runs: in this process, or in the helpers of an isolated device."""

    def address(self, name: str) -> int:
        """Where one of its functions is."""
        ...

    def call(self, name: str) -> int:
        """What a function without arguments answers, in 64 bits."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the image."""
        ...


@dataclass(frozen=True)
class Specialised:
    """A kernel compiled for the lanes engine and one threadgroup size."""

    entry: int  # address of its soft_lanes_entry, or of a soft_entry for whole threadgroups
    engine: Literal["lanes", "flat"]  # how the runtime calls it; flat where simdgroups never wait for each other
    stack_bytes: int
    image: KernelImage  # keeps the shared object loaded
    decided_by: tuple[int, ...] | None = None  # buffer slots that decide, with the grid, how many steps it takes


class LanesCode(Protocol):
    """The lanes code of one kernel, by threadgroup size; see engines/choice.py."""

    def choose(self, shape: Size, threads: int) -> Specialised | None:
        """The code for the next launch, which has so many threads; None for the executable's own."""
        ...

    def prepare(self, shape: Size, threads: int) -> None:
        """Begins the compilation if a launch that will come makes it pay; never waits for it."""
        ...

    def settled(self, shape: Size | None = None) -> bool:
        """Whether the answers of `choose` will not change any more, for one shape or for each that it was asked for."""
        ...

    def decided_by(self, shape: Size) -> tuple[int, ...] | None:
        """The buffer slots that decide, with the grid, how many steps are taken; None where more does, or unknown."""
        ...

    def declined(self) -> Mapping[str, str]:
        """Why lanes were not taken, for each shape."""
        ...


@dataclass(frozen=True)
class ThreadgroupVariable:
    """A threadgroup variable of a kernel in checked mode."""

    name: str
    length: int
    alignment: int


@dataclass(frozen=True)
class Executable:
    """A kernel compiled for one set of constants, ready to run."""

    kernel: KernelSignature  # arguments with sizes, without those switched off by a constant
    engine: Literal["flat", "fibers"]
    entry: int  # address of its soft_entry
    static_threadgroup_bytes: int
    stack_bytes: int
    max_total_threads: int
    declined: Mapping[str, str]  # engine -> why it was not taken
    image: KernelImage  # keeps the shared object loaded
    lanes: LanesCode | None = None
    whole: bool = False  # compiled with all of the source, needed or not
    locate: Callable[[int, int], Diagnostic | None] | None = None  # of a line and column that the compiler saw
    line_of: Callable[[int], tuple[int, int] | None] | None = None  # what an offset in its image was compiled from
    variables: tuple[ThreadgroupVariable, ...] = ()  # checked: those in threadgroup memory, in their order there
    has_loops: bool = True  # without them, how long it runs depends on the number of threads alone


class LibraryProgram(Protocol):
    """A source that passed the compiler's checks."""

    @property
    def kernels(self) -> Mapping[str, KernelSignature]: ...

    @property
    def warnings(self) -> tuple[Diagnostic, ...]: ...

    def build(self, name: str, constants: Mapping[int, bytes], *, checked: bool = False) -> Executable:
        """Compiles kernel `name` with constant values by index; raises CompileError."""
        ...

    def argument_members(self, type_name: str) -> tuple[ArgumentMember, ...]:
        """The members of a struct of the source; raises ValueError where an argument encoder cannot set them."""
        ...

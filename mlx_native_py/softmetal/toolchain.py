"""The compiler toolchain: its location, the flags of each step, and what compiled kernels link to."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from .compiler_process import (
    DEFAULT_LIMITS,
    ENVIRONMENT,
    CompileLimits,
    CompilerFailed,
    LimitExceeded,
    StepLimitExceeded,
    ToolchainError,
    run_compiler,
)
from .system import System, host, processor

__all__ = [
    "CompileLimits",
    "CompiledKernel",
    "CompilerFailed",
    "DEFAULT_LIMITS",
    "Engine",
    "LimitExceeded",
    "MathMode",
    "StepLimitExceeded",
    "Toolchain",
    "ToolchainError",
    "find_toolchain",
    "processor",
    "stack_bytes",
    "uses_elements",
    "zig_toolchain",
]

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
RUNTIME_SOURCES = HERE / "runtime"
MINIMUM_CLANG = 19

Engine = Literal["flat", "fibers", "lanes"]
ENGINE_NUMBERS: dict[Engine, int] = {"flat": 0, "fibers": 1, "lanes": 2}
MathMode = Literal["safe", "relaxed", "fast"]

DIALECT = (
    "-cl-std=clc++2021",
    "-cl-no-stdinc",
    "-cl-single-precision-constant",
    "-fdeclspec",
    # What the checks of a source refuse; clang reads text that they leave to it, as in loop pragmas.
    "-fno-gnu-inline-asm",
    "-Werror=gnu-label-as-value",
    "-fno-math-errno",
    "-fno-strict-float-cast-overflow",  # to the nearest integer, 0 for NaN, as GPUs do
    "-fPIC",
    # What a kernel leaves open, padding above all, is zero on every engine; large arrays would cost too much.
    "-ftrivial-auto-var-init=zero",
    "-ftrivial-auto-var-init-max-size=256",
    "-fno-plt",
    # GPUs want elements aligned, not vectors: a float4 may be read at any float's address.
    "-fmax-type-align=8",
    # A loop without effects goes on for ever, as on a GPU, until the watchdog stops it.
    "-fno-finite-loops",
    # `constant T const` is one more const in C++.
    "-Wno-duplicate-decl-specifier",
)
# Operations are never reordered, and fused only where the source writes a product in a sum: what is left to the
# optimiser would differ between engines, which must agree bit by bit. Metal allows more in relaxed and fast, and asks
# for no more. safe: every operation rounds by itself.
MATH: dict[MathMode, tuple[str, ...]] = {
    "safe": ("-ffp-contract=off",),
    "relaxed": ("-ffp-contract=on",),
    "fast": ("-ffp-contract=on",),
}
THREAD_CALLBACKS = "-fsanitize=thread"
# Accesses that are wider than 16 bytes or masked get no callback, so that nothing is vectorised.
CHECKED = (
    THREAD_CALLBACKS,
    *("-mllvm", "-tsan-instrument-read-before-write=1"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    "-mprefer-vector-width=128",
    "-fno-vectorize",
    "-fno-slp-vectorize",
)
# Indices outside of arrays; what is known of them must not be among a kernel's variables (include/checked.ld).
ARRAYS = ("-fsanitize=array-bounds", "-fdata-sections")
# Functions that end without giving the result that they promise.
_RESULTS = ("-fsanitize=return", "-fno-sanitize-trap=return", "-fno-sanitize-merge=return")
# Addresses that types cannot have, and where each instruction comes from: what our headers do counts for the line that
# calls them (soft.h).
_PLACES = ("-fsanitize=alignment", "-gline-tables-only", "-gdwarf-4")
# Unrolled loops and a search for vectors in long blocks take the compiler several times as long, for an engine that
# serves where lanes cannot.
QUICK = ("-fno-unroll-loops", "-fno-slp-vectorize")
# The lanes engine wants scalar code in one function, with the loops that the source has.
SCALAR = (
    "-fno-vectorize",
    "-fno-slp-vectorize",
    *("-mllvm", "-inline-threshold=10000000"),
    *("-mllvm", "-unroll-runtime=false"),
    *("-mllvm", "-disable-loop-idiom-all"),
)
LARGEST_VARIABLE = 1 << 30  # bytes of a variable that checked mode wants to have a value
# Unoptimised IR with the names of variables, and the zeros that they begin with, all of them.
ALL_VARIABLES = ("-fno-discard-value-names", f"-ftrivial-auto-var-init-max-size={LARGEST_VARIABLE}")
RECURSION_BYTES = 128 << 10  # what a thread may use up by recursion
_CALL = re.compile(r"'(\S+)' not inlined into '(\S+)'")
# The functions that a flat kernel must not reach; see soft_simd.h.
WAITS = b"soft_flat_kernels_cannot_wait"


@dataclass(frozen=True)
class CompiledKernel:
    """An object file, its stack size per thread, and whether its threads run as one vectorised loop."""

    path: Path
    stack_bytes: int
    parallel: bool
    waits: bool  # compiled for the flat engine, but some lane must wait
    remarks: str  # what the compiler said on the way


@dataclass(frozen=True)
class Toolchain:
    """A clang with its linker. Steps are argument lists for `run`."""

    compiler: tuple[str, ...]
    linker: tuple[str, ...]
    version: str
    system: System
    headers: tuple[Path, ...] = ()  # of libc, where the compiler has none of its own
    cpu: str = "native"  # what kernels are compiled for
    limits: CompileLimits = DEFAULT_LIMITS  # of each step, and in time of all steps of a compilation

    @property
    def target(self) -> tuple[str, ...]:
        return self.system.target(self.cpu)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the compiler, the processor, the headers and the runtime."""
        digest = hashlib.sha256(f"{self.version}\n{' '.join(self.compiler)}\n{self.cpu}\n{processor()}".encode())
        for folder in (INCLUDE, RUNTIME_SOURCES):
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                digest.update(str(path.relative_to(HERE)).encode() + b"\0" + path.read_bytes())
        for path in (Path(__file__), HERE / "system.py"):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:32]

    def run(
        self, command: Sequence[str], *, stdin: str | None = None, limits: CompileLimits | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs one step within the limits; raises CompilerFailed with the compiler's words, or ToolchainError."""
        return run_compiler(command, stdin or "", limits or self.limits)

    def dialect(self, math: MathMode = "fast") -> list[str]:
        """What every compilation of kernels shares, whether from a header or from a source."""
        return [*DIALECT, *self.target, *self.system.dialect, *MATH[math], "-I", str(INCLUDE)]

    def engine_flags(self, engine: Engine, *, checked: bool = False, elements: bool = True) -> list[str]:
        """What a precompiled header depends on beside the dialect."""
        return [
            "-O2",
            f"-DSOFT_ENGINE={ENGINE_NUMBERS[engine]}",
            f"-DSOFT_ELEMENTS={int(elements)}",
            *((*CHECKED, *ARRAYS, *_RESULTS, *_PLACES) if checked else ()),
            *(QUICK if engine == "fibers" and not checked else ()),
            # Marks calls through pointers, by which an object that has any is known.
            *(() if engine == "lanes" else ("-fsanitize=kcfi", *self.system.far_calls)),
        ]

    def preprocess(self, source: Path | str, options: Sequence[str] = ()) -> list[str]:
        """MSL to MSL without directives, on standard output; "-" reads standard input."""
        return [*self.compiler, "-E", "-x", "c++", "-std=c++17", "-nostdinc", "-Wno-everything", *options, str(source)]

    def precompile(self, header: Path, output: Path, options: Sequence[str]) -> list[str]:
        """Precompiled header; `options` must be those of the compilations that use it."""
        emit = ["-x", "clcpp", "-Xclang", "-emit-pch", "-Xclang", "-fno-pch-timestamp", "-fpch-instantiate-templates"]
        return [*self.compiler, *options, *emit, "-c", str(header), "-o", str(output)]

    def check_syntax(self, source: Path, options: Sequence[str]) -> list[str]:
        return [*self.compiler, *options, "-x", "clcpp", "-fsyntax-only", "-fno-color-diagnostics", str(source)]

    def compile(self, source: Path, output: Path, options: Sequence[str]) -> list[str]:
        remarks = ["-fstack-usage", "-Rpass-analysis=stack-frame-layout", "-Rpass-missed=inline$"]
        return [*self.compiler, *options, *remarks, *_language(source), "-c", str(source), "-o", str(output)]

    def to_ir(self, source: Path, output: Path, options: Sequence[str]) -> list[str]:
        """LLVM's intermediate representation as text, optimised but for vectors."""
        flags = [*options, *SCALAR, *_language(source), "-S", "-emit-llvm"]
        return [*self.compiler, *flags, str(source), "-o", str(output)]

    def to_plain_ir(self, source: Path, output: Path, options: Sequence[str]) -> list[str]:
        """The same before any optimisation."""
        flags = [*options, "-Xclang", "-disable-llvm-passes", "-x", "clcpp", "-S", "-emit-llvm"]
        return [*self.compiler, *flags, str(source), "-o", str(output)]

    def assemble(self, source: Path, output: Path, level: str = "-O2") -> list[str]:
        """An object file from that representation, which is verified first."""
        flags = [*self.target, level, "-fPIC", "-fno-plt", "-fdata-sections", "-ffp-contract=on", "-Wno-everything"]
        # Code that is vectors already gains nothing by these, and they take longest on blocks as long as it has.
        quick = ["-fno-slp-vectorize", "-mllvm", "-disable-post-ra"]
        # It makes masked loads a part of masked operations, of which the next pass may make loads without a mask.
        right = ["-mllvm", "-disable-peephole"]
        outcome = ["-fverify-intermediate-code", "-fstack-usage", "-c", str(source), "-o", str(output)]
        return [*self.compiler, *flags, *quick, *right, "-x", "ir", *outcome]

    def link(self, objects: Sequence[Path], output: Path, *, checked: bool = False) -> list[str]:
        """A shared object; the runtime and the math library are found in the process that loads it."""
        return [*self.linker, *self.system.link(objects, output, INCLUDE / "checked.ld" if checked else None)]

    def compile_runtime(self, source: Path, output: Path) -> list[str]:
        headers = [flag for path in self.headers for flag in ("-isystem", str(path))]
        return [
            *self.compiler,
            *self.target,
            *("-x", "c++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti"),
            *("-fno-threadsafe-statics", "-fno-stack-protector", "-D_GNU_SOURCE", "-Wall"),
            *self.system.runtime_flags,
            *(["-nostdinc", *headers] if headers else []),
            *("-c", str(source), "-o", str(output)),
        ]

    def compile_kernel(
        self,
        source: Path,
        output: Path,
        engine: Engine,
        *,
        math: MathMode = "fast",
        checked: bool = False,
        options: Sequence[str] = (),
        precompiled: Callable[[Sequence[str]], Path] | None = None,
        steps: Steps | None = None,
    ) -> CompiledKernel:
        """Compiles one entry; `precompiled` gives the header that goes with the flags, `steps` takes another way.

        Lanes of a flat kernel share their private arrays, so a loop with any runs in order.
        """
        elements = uses_elements(source.read_bytes())
        flags = [*self.dialect(math), *self.engine_flags(engine, checked=checked, elements=elements)]
        for parallel in (True, False):
            header = ["-include-pch", str(precompiled(flags))] if precompiled else []
            order = f"-DSOFT_PARALLEL={int(parallel and not checked)}"
            remarks = (steps or _one_step)(self, source, output, [*flags, *header, order, *options])
            if not parallel or checked or engine != "flat" or not _has_private_memory(remarks):
                break
        waits = engine == "flat" and WAITS in output.read_bytes()
        stack = stack_bytes(output.with_suffix(".su")) + (RECURSION_BYTES if _recurses(remarks) else 0)
        return CompiledKernel(output, stack, parallel, waits, remarks)


Steps = Callable[[Toolchain, Path, Path, Sequence[str]], str]
"""Makes an object file of a source with options; the answer is what the compiler said."""


def _one_step(toolchain: Toolchain, source: Path, output: Path, options: Sequence[str]) -> str:
    return toolchain.run(toolchain.compile(source, output, options)).stderr


def _language(source: Path) -> list[str]:
    # Of options for a source, those that only its reading needs are left over.
    return ["-x", "ir", "-Wno-unused-command-line-argument"] if source.suffix == ".ll" else ["-x", "clcpp"]


@cache
def find_toolchain(clang: str | None = None, cpu: str = "native", limits: CompileLimits = DEFAULT_LIMITS) -> Toolchain:
    """The compiler asked for, else ziglang's, else a recent clang of the system."""
    return replace(_find_toolchain(clang), cpu=cpu, limits=limits)


def _find_toolchain(clang: str | None) -> Toolchain:
    if clang:
        return _system_toolchain(clang)
    if importlib.util.find_spec("ziglang"):
        return zig_toolchain(_host())
    names = ["clang", *(f"clang-{version}" for version in range(30, MINIMUM_CLANG - 1, -1))]
    for name in names:
        path = shutil.which(name)
        if path and _clang_major(_version((path,))) >= MINIMUM_CLANG:
            return _system_toolchain(path)
    raise ToolchainError(f"no C++ compiler: install ziglang, or clang {MINIMUM_CLANG} or later with lld")


def _host() -> System:
    system = host()
    if system is None:
        raise ToolchainError("software Metal runs on Linux (x86_64, aarch64) and on macOS (Apple silicon)")
    return system


def zig_toolchain(system: System) -> Toolchain:
    """ziglang's compiler, which is one for every system."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or spec.origin is None:
        raise ToolchainError("ziglang is installed without files")
    root = Path(spec.origin).parent
    zig = str(root / "zig")
    libc = root / "lib" / "libc" / "include"
    headers = (root / "lib" / "include", *(libc / folder for folder in system.header_folders))
    # Asking for the version would start a process each time a compiled kernel is merely loaded.
    state = Path(zig).stat()
    version = f"zig {state.st_size} {state.st_mtime_ns}"
    return Toolchain((zig, "clang"), (zig, *system.zig_linker), version, system, headers)


def _system_toolchain(clang: str) -> Toolchain:
    system = _host()
    if system.name == "darwin":
        raise ToolchainError(f"the compiler {clang!r} is not used on macOS: pip install ziglang")
    path = shutil.which(clang)
    if not path:
        raise ToolchainError(f"compiler {clang!r} not found")
    version = _version((path,))
    if _clang_major(version) < MINIMUM_CLANG:
        raise ToolchainError(f"{clang} is {version!r}, expected clang {MINIMUM_CLANG} or later")
    beside = Path(path).resolve().parent / "ld.lld"
    linker = str(beside) if beside.exists() else shutil.which("ld.lld") or shutil.which("ld")
    if not linker:
        raise ToolchainError(f"no linker for {clang}: install lld")
    return Toolchain((path,), (linker,), version, system)


def _version(compiler: tuple[str, ...]) -> str:
    try:
        result = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(f"{compiler[0]} does not run: {error}") from error
    return result.stdout.partition("\n")[0]


def _clang_major(version: str) -> int:
    match = re.search(r"clang version (\d+)", version)
    return int(match[1]) if match else 0


def uses_elements(source: bytes) -> bool:
    """Whether simdgroup matrices must be spread over their threads; kept whole they are many times faster."""
    return b"simdgroup_multiply" not in source or b"thread_elements" in source


def _has_private_memory(remarks: str) -> bool:
    return "Type: Variable" in remarks


def _recurses(remarks: str) -> bool:
    """Whether a function of the object can come back to itself, by the calls that were not inlined."""
    callers: dict[str, set[str]] = {}
    for callee, caller in _CALL.findall(remarks):
        callers.setdefault(callee, set()).add(caller)
    while free := [name for name in callers if not callers[name] & callers.keys()]:
        for name in free:
            del callers[name]
    return bool(callers)


def stack_bytes(report: Path) -> int:
    """All frames of the file together: without recursion no chain of calls takes more."""
    return sum(int(line.split("\t")[1]) for line in report.read_text().splitlines())

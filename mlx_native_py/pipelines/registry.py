"""The kernel registry: sources, libraries and pipelines, each compiled once and cached by content."""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from .. import settings
from ..errors import BackendError, InvalidArgument, KernelNotFound, ShaderCompilationError
from ..forks import Lock
from ..metal import SIMDGROUP_WIDTH, Backend, Capabilities, ns_error
from ..softmetal.program import caret
from ..softmetal.source_lines import lines_of
from .archive import PipelineArchive
from .builders import Builders
from .compile_options import CompileOptions
from .foreign import hint
from .function_constants import Constants, resolve_constants
from .pipeline import Limits, Pipeline, reflected_bindings
from .sources import kernel_families, kernel_source

__all__ = ["KernelLibrary", "KernelRegistry", "RegistryStats", "source_digest"]

V = TypeVar("V")
# Sums may be reordered; infinities and NaNs, which masks use, keep their meaning.
_SHIPPED = CompileOptions(math="relaxed")
_PLACE = re.compile(r"^([^\s:][^:\n]*):(\d+):(\d+): .*$", re.MULTILINE)


class _OpenDevice(Protocol):
    """The members of a device that the registry uses."""

    @property
    def mtl(self) -> Any: ...

    @property
    def backend(self) -> Backend: ...

    @property
    def capabilities(self) -> Capabilities: ...


@dataclass(frozen=True)
class RegistryStats:
    """Statistics of a registry; `hits` and `misses` count `get_pipeline` calls."""

    hits: int = 0
    misses: int = 0
    libraries: int = 0
    pipelines: int = 0
    archive_hits: int = 0
    archive_misses: int = 0
    compile_seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class KernelLibrary:
    """One compiled source and its kernel names."""

    mtl: Any
    source: str
    digest: str
    names: tuple[str, ...]
    options: CompileOptions

    def __repr__(self) -> str:
        few = ", ".join((*self.names[:4], *("...",) * (len(self.names) > 4)))
        return f"<KernelLibrary of {len(self.names)} kernels: {few}>"


def source_digest(library: KernelLibrary) -> str:
    """A digest of a library's source, the same on every device."""
    return hashlib.sha256(library.source.encode()).hexdigest()


class _Once(Generic[V]):
    """Values created once per key, even if several threads ask; failures are not cached."""

    def __init__(self) -> None:
        self.values: dict[Hashable, V] = {}
        self._gates: dict[Hashable, Lock] = {}
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        value = self.values.get(key)
        if value is not None:
            return value
        with self._lock:
            gate = self._gates.setdefault(key, Lock())
        with gate:
            value = self.values.get(key)
            if value is None:
                value = self.values[key] = make()
        return value


class KernelRegistry:
    """The kernels of one device: those shipped with the package, and those registered.

    Compiled pipelines are stored in the file `archive`, or in the one named by `MLX_KERNEL_ARCHIVE`.

    >>> device.kernels.register_source("twice", '''
    ... #include <metal_stdlib>
    ... kernel void twice(device float *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] *= 2.0f; }
    ... ''')
    >>> pipeline = device.kernels.get_pipeline("twice")
    >>> pipeline is device.kernels.get_pipeline("twice"), pipeline.bindings[0].access
    (True, 'read_write')
    """

    def __init__(self, device: _OpenDevice, *, archive: Path | str | None = None) -> None:
        self._mtl = device.mtl
        self._backend = device.backend
        self._capabilities = device.capabilities
        self._limits = Limits(
            device.capabilities.max_threads_per_threadgroup, device.capabilities.max_threadgroup_memory
        )
        self._identity = f"{device.capabilities.name}/{device.capabilities.architecture}/{device.mtl.registryID()}"
        chosen = settings.current().kernel_archive if archive is None else Path(archive)
        self._archive = PipelineArchive(self._backend, self._mtl, chosen) if chosen is not None else None
        self._lock = Lock()
        self._done = Counter[str]()
        self._compile_seconds = 0.0
        self._sources: dict[str, tuple[str, CompileOptions]] = {}
        self._families: dict[str, KernelLibrary] = {}
        self._libraries: _Once[KernelLibrary] = _Once()
        self._pipelines: _Once[Pipeline] = _Once()
        self._by_request: dict[Hashable, Pipeline] = {}
        """Pipelines by the arguments of `get_pipeline`; cleared when a source is registered."""
        self._edition = 0

    def __repr__(self) -> str:
        now = self.stats
        return (
            f"<KernelRegistry of {len(self._sources)} registered sources, {len(kernel_families())} shipped families, "
            f"{self.cached_count()} pipelines; {now.hits} hits, {now.misses} misses>"
        )

    def register_source(self, name: str, msl: str, *, options: CompileOptions | None = None) -> None:
        """Makes the kernels of `msl` available; `name` is one of them, or a name for all of them.

        A later source of the same name replaces an earlier one, and takes precedence over a shipped kernel.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgument(f"a kernel's name is a non-empty str, not {name!r}")
        if not isinstance(msl, str) or not msl.strip():
            raise InvalidArgument(f"the source of {name!r} is empty")
        with self._lock:
            self._sources.pop(name, None)
            self._sources[name] = (msl, options or CompileOptions())
            self._by_request = {}
            self._edition += 1

    def get_pipeline(
        self,
        name: str,
        constants: Constants | None = None,
        *,
        library: KernelLibrary | None = None,
        indirect: bool = False,
    ) -> Pipeline:
        """The kernel `name`, specialised by `constants` (by index or name), from `library` or from any known source.

        `indirect` asks for a pipeline that indirect command buffers can run.
        """
        if not isinstance(name, str):
            raise InvalidArgument(f"the name of a kernel is a str, not {name!r}")
        asked = (name, library, indirect, _spelling(constants) if constants else None)
        with self._lock:
            known = self._by_request.get(asked)
            self._done["misses" if known is None else "hits"] += 1
            edition = self._edition
        if known is not None:
            return known
        pipeline = self._make(name, constants or {}, library, indirect)
        with self._lock:
            if edition == self._edition:
                self._by_request[asked] = pipeline
        return pipeline

    def library(self, source: str, options: CompileOptions | None = None, *, name: str = "") -> KernelLibrary:
        """The compiled library of `source`; the same object for the same text and options."""
        chosen = (options or CompileOptions()).on(self._capabilities)
        try:
            digest = hashlib.sha256(f"{self._identity}\0{chosen.text()}\0{source}".encode()).hexdigest()
        except UnicodeEncodeError as reason:
            line = reason.object.count("\n", 0, reason.start) + 1
            raise InvalidArgument(f"line {line} of the source has half a character, which is not UTF-8") from None
        return self._libraries.get(digest, lambda: self._compile(source, chosen, digest, name))

    def shipped(self, family: str) -> KernelLibrary:
        """The library of `kernels/<family>.metal`."""
        library = self._families.get(family)
        if library is None:
            library = self._families[family] = self.library(kernel_source(family), _SHIPPED, name=family)
        return library

    def indirect(self, pipeline: Pipeline) -> Pipeline:
        """The same kernel as a pipeline that indirect command buffers can run."""
        library, constants = pipeline.origin
        return self.get_pipeline(pipeline.name, constants, library=library, indirect=True)

    def warmup(self, names: Iterable[str | tuple[str, Constants]]) -> None:
        """Compiles kernels ahead of time, in parallel, and saves the archive if there is one."""
        wanted = [(item, None) if isinstance(item, str) else item for item in names]
        with Builders() as builders:
            begun = [builders.begin(partial(self.get_pipeline, name, constants)) for name, constants in wanted]
        for each in begun:
            each.result()
        self.save()

    def save(self) -> bool:
        """Writes newly compiled pipelines to the archive; False if there is none or nothing is new."""
        return self._archive is not None and self._archive.save()

    def is_cached(self, name: str, constants: Constants | None = None) -> bool:
        """Whether `get_pipeline` would compile nothing."""
        with self._lock:
            return (name, None, False, _spelling(constants) if constants else None) in self._by_request

    def cached_count(self) -> int:
        """The number of pipelines built so far."""
        return len(self._pipelines.values)

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """All pipelines built so far."""
        return tuple(self._pipelines.values.values())

    def source_count(self) -> int:
        """The number of registered sources and shipped families."""
        return len(self._sources) + len(kernel_families())

    @property
    def stats(self) -> RegistryStats:
        """Statistics so far."""
        with self._lock:
            return RegistryStats(**self._done, compile_seconds=self._compile_seconds)

    def _count(self, seconds: float = 0.0, **more: int) -> None:
        with self._lock:
            self._done.update(more)
            self._compile_seconds += seconds

    def _make(self, name: str, constants: Constants, library: KernelLibrary | None, indirect: bool) -> Pipeline:
        home = library or self._home(name)
        if name not in home.names:
            raise KernelNotFound(name, home.names)
        with self._backend.autorelease_pool():
            plain = home.mtl.newFunctionWithName_(name)
            values = resolve_constants(name, plain, home.source, constants)
            facts = (home.digest, name, [(v.index, v.code, v.data) for v in values], indirect)
            key = hashlib.sha256(repr(facts).encode()).hexdigest()
            build = self._build
            return self._pipelines.get(key, lambda: build(home, name, plain, values, key, (home, constants), indirect))

    def _build(
        self,
        home: KernelLibrary,
        name: str,
        function: Any,
        values: tuple[Any, ...],
        key: str,
        origin: tuple[KernelLibrary, Constants],
        indirect: bool,
    ) -> Pipeline:
        begin = time.perf_counter()
        label = name + "".join(value.label for value in values)
        if values:
            function = self._specialised(home, name, values)
        mtl, reflection, error, stored = self._ask(self._descriptor(function, label, indirect))
        if mtl is None:
            raise ShaderCompilationError(name, _with_carets(ns_error.reason(error), home.source))
        pipeline = Pipeline(
            mtl,
            device=self._mtl,
            name=name,
            label=label,
            key=key,
            origin=origin,
            bindings=reflected_bindings(self._backend, reflection, name),
            limits=self._limits,
        )
        if home in self._families.values():
            _require_width(pipeline, home)
        self._count(time.perf_counter() - begin, pipelines=1)
        if self._archive is not None:
            self._count(archive_hits=int(stored), archive_misses=int(not stored))
        return pipeline

    def _descriptor(self, function: Any, label: str, indirect: bool) -> Any:
        descriptor = self._backend.Metal.MTLComputePipelineDescriptor.alloc().init()
        descriptor.setComputeFunction_(function)
        descriptor.setLabel_(label)
        descriptor.setSupportIndirectCommandBuffers_(indirect)
        return descriptor

    def _specialised(self, home: KernelLibrary, name: str, values: tuple[Any, ...]) -> Any:
        """The function with its constants set."""
        given = self._backend.Metal.MTLFunctionConstantValues.alloc().init()
        for value in values:
            given.setConstantValue_type_atIndex_(value.data, value.code, value.index)
        function, error = home.mtl.newFunctionWithName_constantValues_error_(name, given, None)
        if function is None:
            raise ShaderCompilationError(name, ns_error.reason(error))
        return function

    def _ask(self, descriptor: Any) -> tuple[Any, Any, Any, bool]:
        """The pipeline, its reflection, the error, and whether the archive had it."""
        metal = self._backend.Metal
        options = metal.MTLPipelineOptionBindingInfo | metal.MTLPipelineOptionBufferTypeInfo
        if self._archive is not None:
            return self._archive.build(descriptor, options)
        make = self._mtl.newComputePipelineStateWithDescriptor_options_reflection_error_
        return *make(descriptor, options, None, None), False

    def _compile(self, source: str, options: CompileOptions, digest: str, name: str) -> KernelLibrary:
        begin = time.perf_counter()
        with self._backend.autorelease_pool():
            chosen = options.mtl(self._backend, self._capabilities)
            mtl, error = self._mtl.newLibraryWithSource_options_error_(source, chosen, None)
            if mtl is None:
                message = _with_carets(ns_error.reason(error), source)
                more = hint(source)
                raise ShaderCompilationError(
                    name or "program_source", f"{message.rstrip()}\n{more}" if more else message
                )
            names = tuple(str(each) for each in mtl.functionNames())
        self._count(time.perf_counter() - begin, libraries=1)
        return KernelLibrary(mtl, source, digest, names, options)

    def _home(self, name: str) -> KernelLibrary:
        """The library with kernel `name`: registered under that name, under another, or shipped."""
        with self._lock:
            registered = dict(self._sources)
        if name in registered:
            library = self.library(*registered[name], name=name)
            if name in library.names:
                return library
        for source, options in reversed(registered.values()):
            if name in source:
                library = self.library(source, options, name=name)
                if name in library.names:
                    return library
        return self._shipped_home(name, registered)

    def _shipped_home(self, name: str, registered: Mapping[str, Any]) -> KernelLibrary:
        # Macros may build a kernel's name, so files that do not contain it are tried last.
        texts = {family: kernel_source(family) for family in kernel_families()}
        known = [each for source, options in registered.values() for each in self.library(source, options).names]
        for family in sorted(
            texts, key=lambda family: (name not in texts[family], not name.startswith(family), family)
        ):
            library = self.shipped(family)
            if name in library.names:
                return library
            known += library.names
        raise KernelNotFound(name, known)


def _require_width(pipeline: Pipeline, home: KernelLibrary) -> None:
    """Shipped kernels rely on Apple's simdgroup width."""
    if pipeline.width != SIMDGROUP_WIDTH and "simd" in home.source:
        raise BackendError(
            f"kernel {pipeline.name!r} needs simdgroups of {SIMDGROUP_WIDTH} threads, and this device runs it in "
            f"simdgroups of {pipeline.width}: its results would be wrong"
        )


def _spelling(constants: Constants) -> Hashable:
    """A key that is equal for equal constants in any order; True, 1 and 1.0 differ."""
    return frozenset((key, type(value), repr(value)) for key, value in constants.items())


def _with_carets(message: str, source: str) -> str:
    """The compiler's message, with the source line and a caret added where they are missing."""
    lines, _ = lines_of(source, "program_source")

    def shown(match: re.Match[str]) -> str:
        line = lines.get((match[1], int(match[2])))
        if line is None:
            return match[0]
        quoted = caret(line, int(match[3]))
        is_there = message[match.end() :].lstrip("\n").startswith((line, quoted.partition("\n")[0]))
        return match[0] if is_there else f"{match[0]}\n{quoted}"

    return _PLACE.sub(shown, message)

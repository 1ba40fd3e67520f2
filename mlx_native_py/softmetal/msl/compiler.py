"""The MSL compiler: toolchain, disk cache, and one-time set-up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from threading import Lock

from .. import engines
from ..cache import DEFAULT_LIMIT, HEADER_SUFFIX, Store, default_directory, digest
from ..engines.runtime import build_runtime
from ..isolation.runtime import IsolatedRuntime, isolated_runtime
from ..program import EngineChoice
from ..threads import on_threads
from ..toolchain import DEFAULT_LIMITS, INCLUDE, MATH, CompileLimits, Engine, MathMode, Toolchain, find_toolchain
from .identity import identity

_RUNTIME = ("the runtime",)
_ANNOUNCED = ("the announcement",)
_LOG = logging.getLogger("mlx_native_py.softmetal")


def _announce(message: str) -> None:
    _LOG.warning(message)


@dataclass
class Compiler:
    """A compiler with a cache. `announce` is called for the set-up, the only slow step."""

    store: Store
    toolchain: Toolchain
    announce: Callable[[str], None] = _announce
    engine: EngineChoice = "auto"
    clang: str | None = None
    isolated: bool = False
    identity: str = field(init=False)
    checked: set[bytes] = field(default_factory=set)  # texts that were found right; see known_bodies.py
    _headers: dict[tuple[str, ...], Path] = field(default_factory=dict)
    _preparing: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.identity = identity(self.store, self.toolchain)

    def flags(self, math: MathMode, engine: Engine = "fibers", *, checked: bool = False) -> list[str]:
        """The flags of a compilation; a precompiled header serves those it was made with, and no others."""
        return [*self.toolchain.dialect(math), *self.toolchain.engine_flags(engine, checked=checked)]

    def precompiled(self, flags: Sequence[str]) -> Path:
        """The library of MSL, precompiled for these flags."""
        key = tuple(flags)
        known = self._headers.get(key)
        if known is None or not known.exists():
            self._headers[key] = known = self._stored(key) or self._set_up(key)
        self.store.touch(known)
        return known

    def runtime(self) -> engines.Runtime | IsolatedRuntime:
        """The runtime that loads kernels and runs them."""
        own = engines.runtime(self.store.directory, clang=self.clang, library=self._runtime_library)
        return isolated_runtime(own) if self.isolated else own

    def _runtime_library(self) -> Path:
        if stored := self._stored(_RUNTIME):
            return stored
        with self._alone():
            return self._stored(_RUNTIME) or self._build_runtime()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # The lock of the store cannot tell threads of this process from other processes.
        with self._preparing, self.store.alone(self.toolchain.fingerprint, self.announce):
            yield

    def _build_runtime(self) -> Path:
        self._announce_once()
        with self.store.scratch() as folder:
            built = build_runtime(self.toolchain, folder)
            return self._keep(_RUNTIME, built, ".so")

    def _keep(self, key: tuple[str, ...], file: Path, suffix: str) -> Path:
        name = self.store.put_artefact(file.read_bytes(), suffix)
        self.store.put_record(self._key(key), name.encode())
        return self.store.directory / name

    def _stored(self, flags: tuple[str, ...]) -> Path | None:
        name = self.store.record(self._key(flags))
        return self.store.artefact(name.decode()) if name else None

    def _set_up(self, wanted: tuple[str, ...]) -> Path:
        """Prepares everything at once: the runtime, and the header for these flags and those likely to come next."""
        with self._alone():
            if stored := self._stored(wanted):
                return stored
            self._announce_once()
            math = next(mode for mode, options in reversed(MATH.items()) if set(options) <= set(wanted))
            engines: tuple[Engine, ...] = ("fibers", "flat", "lanes")
            usual = [tuple(self.flags(math, engine)) for engine in engines]
            todo = [flags for flags in dict.fromkeys([wanted, *usual]) if not self._stored(flags)]
            tasks: list[Callable[[], Path]] = [partial(self._precompile, flags) for flags in todo]
            if not self._stored(_RUNTIME):
                tasks.append(self._build_runtime)
            return on_threads(lambda task: task(), tasks)[0]

    def _announce_once(self) -> None:
        """Speaks of the set-up once for a machine, though another mode may need another header later."""
        if self.store.record(self._key(_ANNOUNCED)) is None:
            self.announce("software Metal: preparing the compiler, once for this machine")
            self.store.put_record(self._key(_ANNOUNCED), b"")

    def _precompile(self, flags: tuple[str, ...]) -> Path:
        with self.store.scratch() as folder:
            output = folder / "soft.pch"
            # The key speaks for the headers' content; their dates change with every installation.
            options = [*flags, "-Xclang", "-fno-pch-timestamp"]
            self.toolchain.run(self.toolchain.precompile(INCLUDE / "soft.h", output, options))
            return self._keep(flags, output, HEADER_SUFFIX)

    def _key(self, flags: tuple[str, ...]) -> str:
        return digest("tool", self.toolchain.fingerprint, *flags)


@cache
def open_compiler(
    directory: Path | None = None,
    clang: str | None = None,
    engine: EngineChoice = "auto",
    cpu: str = "native",
    limits: CompileLimits = DEFAULT_LIMITS,
    room: int = DEFAULT_LIMIT,
    isolated: bool = False,
) -> Compiler:
    """The process's compiler for a cache directory that may take `room` bytes, and a clang."""
    toolchain = find_toolchain(clang, cpu, limits)
    return Compiler(
        Store(directory or default_directory(), room), toolchain, engine=engine, clang=clang, isolated=isolated
    )

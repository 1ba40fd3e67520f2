"""The MSL compiler: toolchain, disk cache, and one-time set-up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from threading import RLock

from .. import engines
from ..cache import DEFAULT_LIMIT, HEADER_SUFFIX, Store, default_directory, digest
from ..engines.background import later
from ..engines.runtime import Part, build_library
from ..isolation.runtime import IsolatedRuntime, isolated_runtime
from ..program import EngineChoice
from ..toolchain import (
    DEFAULT_LIMITS,
    INCLUDE,
    THREAD_CALLBACKS,
    CompileLimits,
    Engine,
    MathMode,
    Toolchain,
    find_toolchain,
)
from .identity import identity

_PARTS: tuple[Part, ...] = ("runtime", "checker")
_ANNOUNCED = ("the announcement",)
_preparing: dict[Path, AbstractContextManager[object]] = {}  # of all compilers of this process, by what is made
_LOG = logging.getLogger("mlx_native_py.softmetal")


def _announce(message: str) -> None:
    _LOG.warning(message)


@dataclass
class Compiler:
    """A compiler with a cache. `announce` is called for the set-up, the only slow steps."""

    store: Store
    toolchain: Toolchain
    announce: Callable[[str], None] = _announce
    engine: EngineChoice = "auto"
    clang: str | None = None
    isolated: bool = False
    identity: str = field(init=False)
    checked: set[bytes] = field(default_factory=set)  # texts that were found right; see known_bodies.py
    _headers: dict[tuple[str, ...], Path] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)
    _lock: AbstractContextManager[object] = field(default_factory=RLock)

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
            self._headers[key] = known = self._header(key)
        self.store.touch(known)
        return known

    def runtime(self, *, checked: bool = False) -> engines.Runtime | IsolatedRuntime:
        """The runtime that loads kernels and runs them, and what checks them if they are checked."""
        own = engines.runtime(self.store.directory, clang=self.clang, library=partial(self._library, "runtime"))
        if checked:
            own.open_checker(partial(self._library, "checker"))
        return isolated_runtime(own) if self.isolated else own

    def _header(self, flags: tuple[str, ...]) -> Path:
        if stored := self._stored(flags):
            return stored
        for part in _PARTS if THREAD_CALLBACKS in flags else _PARTS[:1]:
            later(partial(self._library_ahead, part))
        return self._once(flags, partial(self._precompile, flags))

    def _library(self, part: Part) -> Path:
        return self._once((part,), partial(self._build_library, part))

    def _library_ahead(self, part: Part) -> None:
        # Whoever needs it next is told what is wrong.
        with suppress(Exception):
            self._library(part)

    def _once(self, key: tuple[str, ...], make: Callable[[], Path]) -> Path:
        """What is stored under the key, made unless another thread or process has by now."""
        if stored := self._stored(key):
            return stored
        name = self._key(key)
        # The lock of the store cannot tell threads of this process from other processes.
        with _preparing.setdefault(self.store.directory / name, RLock()), self.store.alone(name, self._say):
            return self._stored(key) or make()

    def _build_library(self, part: Part) -> Path:
        self._announce_once()
        with self.store.scratch() as folder:
            return self._keep((part,), build_library(self.toolchain, folder, part), ".so")

    def _keep(self, key: tuple[str, ...], file: Path, suffix: str) -> Path:
        name = self.store.put_artefact(file.read_bytes(), suffix)
        self.store.put_record(self._key(key), name.encode())
        return self.store.directory / name

    def _stored(self, flags: tuple[str, ...]) -> Path | None:
        name = self.store.record(self._key(flags))
        return self.store.artefact(name.decode()) if name else None

    def _announce_once(self) -> None:
        """Speaks of the set-up once for a machine, though another mode may need another header later."""
        with self._lock:
            if self.store.record(self._key(_ANNOUNCED)) is None:
                self.announce("software Metal: preparing the compiler, once for this machine")
                self.store.put_record(self._key(_ANNOUNCED), b"")

    def _say(self, message: str) -> None:
        """Announces what is true of several steps once."""
        with self._lock:
            if message not in self._said:
                self._said.add(message)
                self.announce(message)

    def _precompile(self, flags: tuple[str, ...]) -> Path:
        self._announce_once()
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

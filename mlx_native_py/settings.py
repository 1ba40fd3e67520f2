"""Settings: every environment variable of the package, its default and its allowed values.

`current()` reads the environment each time, so changes to `os.environ` take effect. `override()` changes settings for a
block, in the calling thread (or asyncio task) only; other threads, including those started inside the block, are not
affected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from .errors import SettingsError

__all__ = [
    "BackendName",
    "EngineChoice",
    "Settings",
    "current",
    "environment",
    "exported",
    "flags_in_force",
    "launched_ranks",
    "misspelt",
    "one",
    "override",
    "strange",
]

BackendName = Literal["auto", "metal", "soft"]
EngineChoice = Literal["auto", "flat", "lanes", "fibers"]

_SCHEDULES = "ordered, reversed or shuffled:SEED with a whole number SEED"


def _switch(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("1 (on) or 0 (off)")
    return text == "1"


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(", ".join(allowed[:-1]) + " or " + allowed[-1])
        return text

    return parse


def _schedule(text: str) -> str:
    order, _, seed = text.partition(":")
    if not (text in ("ordered", "reversed") or (order == "shuffled" and seed.isdecimal() and seed.isascii())):
        raise ValueError(_SCHEDULES)
    return text


def _count(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and int(text) > 0):
        raise ValueError("a whole number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise ValueError("a number of seconds above 0")
    return value


def _processor(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._+-]*", text):
        raise ValueError("native, or a processor by clang's name such as x86-64-v3")
    return text


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None


def _flag(name: str, default: Any, parse: Callable[[str], Any] = _switch) -> Any:
    return field(default=default, metadata={"flag": name, "parse": parse})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings with their defaults; `metadata["flag"]` of a field is its environment variable."""

    device: BackendName = _flag("MLX_NATIVE_DEVICE", "auto", _choice("auto", "metal", "soft"))

    profile_cb: bool = _flag("MLX_PROFILE_CB", False)
    profile_dispatch: bool = _flag("MLX_PROFILE_DISPATCH", False)
    profile_barriers: bool = _flag("MLX_PROFILE_BARRIERS", False)
    unretained_refs: bool = _flag("MLX_UNRETAINED_REFS", False)
    auto_barrier: bool = _flag("HF2Q_AUTO_BARRIER", True)
    force_serial_dispatch: bool = _flag("HF2Q_FORCE_SERIAL_DISPATCH", False)
    encoder_session: bool = _flag("HF2Q_ENCODER_SESSION", False)
    no_residency: bool = _flag("HF2Q_NO_RESIDENCY", False)
    metal_capture: Path | None = _flag("MLX_METAL_CAPTURE", None, _path)
    kernel_archive: Path | None = _flag("MLX_KERNEL_ARCHIVE", None, _path)

    distributed_timeout: float = _flag("MLX_DISTRIBUTED_TIMEOUT", 120.0, _seconds)

    soft_schedule: str = _flag("MLX_SOFT_SCHEDULE", "ordered", _schedule)
    soft_checked: bool = _flag("MLX_SOFT_CHECKED", False)
    soft_isolated: bool = _flag("MLX_SOFT_ISOLATED", False)
    soft_engine: EngineChoice = _flag("MLX_SOFT_ENGINE", "auto", _choice("auto", "flat", "lanes", "fibers"))
    soft_cpu: str = _flag("MLX_SOFT_CPU", "native", _processor)
    soft_threads: int | None = _flag("MLX_SOFT_THREADS", None, _count)
    soft_timeout: float = _flag("MLX_SOFT_TIMEOUT", 10.0, _seconds)
    soft_cache_dir: Path | None = _flag("MLX_SOFT_CACHE_DIR", None, _path)
    soft_cache_limit: int = _flag("MLX_SOFT_CACHE_LIMIT", 1024, _count)
    cache_home: Path | None = _flag("XDG_CACHE_HOME", None, _path)
    soft_clang: Path | None = _flag("MLX_SOFT_CLANG", None, _path)
    soft_compile_timeout: float = _flag("MLX_SOFT_COMPILE_TIMEOUT", 300.0, _seconds)
    soft_compile_memory: int = _flag("MLX_SOFT_COMPILE_MEMORY", 4096, _count)
    soft_compile_output: int = _flag("MLX_SOFT_COMPILE_OUTPUT", 256, _count)

    @property
    def kernel_cache(self) -> Path | None:
        """The folder of compiled kernels; None for the software device's default."""
        if self.soft_cache_dir is None and self.cache_home is not None:
            return self.cache_home / "mlx_native_py" / "soft"
        return self.soft_cache_dir


_FIELDS = {f.name: f for f in fields(Settings)}
_FLAGS = {f.metadata["flag"]: f for f in fields(Settings)}
_ENCODED = tuple(os.fsencode(flag) for flag in _FLAGS)
_DEFAULTS = {f.name: (os.fsencode(flag), f.default) for flag, f in _FLAGS.items()}
_BY_DEFAULT = Settings()
_OWN_PREFIXES = ("MLX_SOFT_", "MLX_NATIVE_", "MLX_PROFILE_", "MLX_KERNEL_", "HF2Q_")
_overrides: ContextVar[dict[str, Any] | None] = ContextVar("mlx_native_py_settings", default=None)


def current() -> Settings:
    """The settings in force now."""
    changes = _overrides.get()
    store = getattr(os.environ, "_data", None)
    if store.__class__ is dict and store.keys().isdisjoint(_ENCODED):
        parsed = _BY_DEFAULT
    else:
        parsed = _parse(_texts())
    return replace(parsed, **changes) if changes else parsed


def one(name: str) -> Any:
    """One field of `current()`, without parsing the others while its variable is not set."""
    flag, default = _DEFAULTS[name]
    if _overrides.get() is None and flag not in getattr(os.environ, "_data", (flag,)):
        return default
    return getattr(current(), name)


def strange() -> list[str]:
    """Environment variables with our prefixes that are not settings; some belong to MLX."""
    return sorted(name for name in os.environ if name.startswith(("MLX_", "HF2Q_")) and name not in _FLAGS)


def misspelt() -> dict[str, str]:
    """Such variables that resemble a setting, each with the closest setting.

    >>> os.environ["MLX_SOFT_CHEKED"] = "1"
    >>> misspelt()
    {'MLX_SOFT_CHEKED': 'MLX_SOFT_CHECKED'}
    >>> del os.environ["MLX_SOFT_CHEKED"]
    """
    nearest = {}
    for name in strange():
        import difflib  # slow to import, and hardly ever needed

        cutoff = 0.4 if name.startswith(_OWN_PREFIXES) else 0.85
        if close := difflib.get_close_matches(name, _FLAGS, n=1, cutoff=cutoff):
            nearest[name] = close[0]
    return nearest


def environment() -> Settings:
    """The settings of the environment alone, without overrides."""
    return _parse(_texts())


_RANK_COUNTS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS")
_RANK_NUMBERS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")


def launched_ranks() -> int | None:
    """How many ranks the MPI launcher started; None without a launcher."""
    if not any(name in os.environ for name in _RANK_NUMBERS):
        return None
    counts = [os.environ[name] for name in _RANK_COUNTS if name in os.environ]
    return next((int(text) for text in counts if text.isdecimal()), 0)


def flags_in_force() -> list[str]:
    """The settings that the environment sets, and PYTHONPATH, to be passed on to remote ranks."""
    return [name for name in (*_FLAGS, "PYTHONPATH") if name in os.environ]


def _texts() -> tuple[bytes | str | None, ...]:
    """The raw values of all settings. Looks into CPython's own dict, because missing names raise an exception
    otherwise."""
    store = getattr(os.environ, "_data", None)
    if not isinstance(store, dict):
        return tuple(map(os.environ.get, _FLAGS))
    return tuple(map(store.get, _ENCODED))


@contextmanager
def exported(**changes: Any) -> Iterator[None]:
    """Changes settings of this process, with all its threads and children, for a block, by setting environment
    variables."""
    checked = {_FIELDS[name].metadata["flag"]: _checked(name, value) for name, value in changes.items()}
    before = {flag: os.environ.get(flag) for flag in checked}
    try:
        for flag, value in checked.items():
            os.environ[flag] = str(int(value)) if isinstance(value, bool) else str(value)
        yield
    finally:
        for flag, text in before.items():
            if text is None:
                os.environ.pop(flag, None)
            else:
                os.environ[flag] = text


@contextmanager
def override(**changes: Any) -> Iterator[Settings]:
    """Changes settings for a block.

    >>> with override(profile_cb=True):
    ...     current().profile_cb
    True
    """
    checked = {name: _checked(name, value) for name, value in changes.items()}
    token = _overrides.set({**(_overrides.get() or {}), **checked})
    try:
        yield current()
    finally:
        _overrides.reset(token)


@lru_cache(maxsize=8)
def _parse(texts: tuple[bytes | str | None, ...]) -> Settings:
    values = {}
    for (flag, setting), raw in zip(_FLAGS.items(), texts, strict=True):
        if raw is None:
            continue
        text = os.fsdecode(raw)
        try:
            values[setting.name] = setting.metadata["parse"](text)
        except ValueError as allowed:
            raise SettingsError(f"{flag} is {text!r}; allowed: {allowed}") from None
    return Settings(**values)


def _checked(name: str, value: Any) -> Any:
    """Validates a value given in Python like its environment variable."""
    if name not in _FIELDS:
        raise SettingsError(f"there is no setting {name!r}; there are: {', '.join(sorted(_FIELDS))}")
    setting = _FIELDS[name]
    if value is None and setting.default is None:
        return None
    try:
        parsed = setting.metadata["parse"](str(int(value)) if isinstance(value, bool) else str(value))
    except ValueError as allowed:
        raise SettingsError(f"{name} is {value!r}; allowed: {allowed}") from None
    if isinstance(value, bool) != isinstance(parsed, bool) or (isinstance(value, str) and str(parsed) != value):
        raise SettingsError(f"{name} is {value!r}, expected a {type(parsed).__name__}")
    return parsed

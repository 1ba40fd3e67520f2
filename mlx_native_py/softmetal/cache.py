"""The disk cache: private, verified, atomic, size-limited and shared by processes; locks only avoid duplicate work."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DEFAULT_LIMIT = 1 << 30
HEADER_SUFFIX = ".pch"
_TOUCH_AFTER_S = 60.0
_SWEEP_AFTER_S = 60.0
_SWEEP_SHARE = 32  # of the limit: what one process may add before it looks at the whole directory again
_ABANDONED_AFTER_S = 3600.0  # no compilation takes that long, so its process was killed
_HEADER_IDLE_AFTER_S = 3600.0  # a precompiled header that nobody used for so long is mostly one of an older version
_LOCK_POLL_S = 0.05
_LOCK_PATIENCE_S = 60.0
_KERNEL_PATIENCE_S = 10.0  # most take far less, and a launch is waiting
_DIGEST_CHARACTERS = 64
_ARTEFACT = re.compile(rf"[0-9a-f]{{{_DIGEST_CHARACTERS}}}(\.\w+)?", re.ASCII)
_PASSING = ("scratch-", "new-", "lock-")  # names of what lives only as long as a compilation


class CacheError(RuntimeError):
    """The cache directory is not private or not usable."""


@dataclass(frozen=True)
class Usage:
    """The number of files in a cache, and their size."""

    files: int
    nbytes: int


def digest(*parts: str | bytes) -> str:
    """A key made of parts; where one part ends and the next begins matters."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()


class Store:
    """Records (small values by key) and artefacts (files named by their digest)."""

    def __init__(self, directory: Path, limit: int = DEFAULT_LIMIT) -> None:
        # Found while files can still be opened: later the search would blame the folders.
        tempfile.gettempdir()
        self.directory = directory
        self.limit = limit
        self._verified: set[str] = set()
        self._added = 0
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            state = directory.lstat()
        except OSError as error:
            raise CacheError(f"cache directory {directory} cannot be made: {error}") from error
        if not stat.S_ISDIR(state.st_mode):
            raise CacheError(f"cache directory {directory} is not a directory")
        if state.st_uid != os.geteuid():
            raise CacheError(f"cache directory {directory} belongs to user {state.st_uid}, expected {os.geteuid()}")
        if state.st_mode & 0o077:
            raise CacheError(
                f"cache directory {directory} is open to others (mode {state.st_mode & 0o777:o}), expected 700"
            )

    def record(self, key: str) -> bytes | None:
        """What was stored under `key`, or None if there is nothing whole."""
        path = self._record_path(key)
        data = _contents(path)
        if data is None:
            return None
        head, body = data[:_DIGEST_CHARACTERS], data[_DIGEST_CHARACTERS:]
        if digest(key, body).encode() != head:
            _remove(path)
            return None
        self.touch(path)
        return body

    def put_record(self, key: str, body: bytes) -> None:
        """Stores `body` under `key`; a reader sees all of it or nothing."""
        self._write(self._record_path(key), digest(key, body).encode() + body)

    def artefact(self, name: str) -> Path | None:
        """The file of that digest, verified once per process; None if it is missing or damaged."""
        if not _ARTEFACT.fullmatch(name):
            return None
        path = self.directory / name
        wanted = name.partition(".")[0]
        if name in self._verified and path.is_file():
            return path
        data = _contents(path)
        if data is None:
            return None
        if hashlib.sha256(data).hexdigest() != wanted:
            _remove(path)
            return None
        self._verified.add(name)
        self.touch(path)
        return path

    def put_artefact(self, data: bytes, suffix: str) -> str:
        """Stores a file; the answer is its name."""
        name = hashlib.sha256(data).hexdigest() + suffix
        self._write(self.directory / name, data)
        self._verified.add(name)
        return name

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A directory for the time of one compilation."""
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=self.directory) as folder:
            yield Path(folder)

    @contextmanager
    def alone(self, what: str, announce: Callable[[str], None]) -> Iterator[None]:
        """Holds back other processes that do the same, for work that is better done once than eight times.

        Doing it twice does no harm, so a holder that never ends (it may be stopped) is not waited for.
        """
        path = self.directory / f"lock-{what}"
        if path.is_dir():
            _remove(path)
        with open(path, "a+b") as handle:
            held = _lock(handle.fileno(), 0)
            if not held:
                announce("software Metal: waiting for another process that prepares the compiler")
                held = _lock(handle.fileno(), _LOCK_PATIENCE_S)
            if not held:
                announce("software Metal: the other process takes too long; preparing without it")
            os.utime(handle.fileno())
            yield

    @contextmanager
    def once(self, key: str) -> Iterator[None]:
        """Holds back other processes that compile the same, so that they find it; without a lock each compiles."""
        path = self.directory / f"lock-{key}"
        with ExitStack() as stack:
            with suppress(OSError):
                _lock(stack.enter_context(open(path, "a+b")).fileno(), _KERNEL_PATIENCE_S)
            try:
                yield
            finally:
                _remove(path)

    def usage(self) -> Usage:
        """What is in the directory now."""
        return _total(self._entries())

    def clear(self) -> Usage:
        """Removes every record and artefact, and says what it removed. Kernels that are loaded stay as they are,
        and compilations that run at the moment keep their folders."""
        entries = self._entries()
        for _, _, path in entries:
            _remove(Path(path))
        self._verified.clear()
        return _total(entries)

    def _record_path(self, key: str) -> Path:
        return self.directory / f"{key}.record"

    def _write(self, path: Path, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix="new-", dir=self.directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if path.is_dir():
                _remove(path)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._added += len(data)
        if self._added > self.limit // _SWEEP_SHARE or self._sweep_is_due():
            self._sweep()

    def touch(self, path: Path) -> None:
        """Marks a file as used, at most once a minute."""
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _TOUCH_AFTER_S:
                os.utime(path)

    def _sweep_is_due(self) -> bool:
        """Whether no process has looked at the whole directory for a while."""
        try:
            return time.time() - (self.directory / "swept").stat().st_mtime > _SWEEP_AFTER_S
        except OSError:
            return True

    def _sweep(self) -> None:
        """Removes what killed processes left behind, and keeps the rest within the limit."""
        self._added = 0
        (self.directory / "swept").touch(mode=0o600)
        with os.scandir(self.directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    if entry.name.startswith(_PASSING) and time.time() - state.st_mtime > _ABANDONED_AFTER_S:
                        _remove(Path(entry.path))
        self._shrink(self._entries())

    def _entries(self) -> list[tuple[float, int, str]]:
        """Time of last use, size and path of each record and artefact."""
        listed = []
        with os.scandir(self.directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    state = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) and entry.name != "swept" and not entry.name.startswith(_PASSING):
                        listed.append((state.st_mtime, state.st_size, entry.path))
        return listed

    def _shrink(self, files: list[tuple[float, int, str]]) -> None:
        """Removes idle headers, which are large, then what was not used for longest, until a quarter is free."""
        total = sum(size for _, size, _ in files)
        if total <= self.limit:
            return
        for _, size, path in sorted(files, key=_worth):
            if total <= self.limit * 3 // 4:
                return
            with suppress(OSError):
                os.unlink(path)
            total -= size


def _total(entries: list[tuple[float, int, str]]) -> Usage:
    return Usage(len(entries), sum(size for _, size, _ in entries))


def _worth(file: tuple[float, int, str]) -> tuple[bool, float]:
    """What goes first when room is needed."""
    used, _, path = file
    is_idle_header = path.endswith(HEADER_SUFFIX) and time.time() - used > _HEADER_IDLE_AFTER_S
    return not is_idle_header, used


def _contents(path: Path) -> bytes | None:
    """Of a plain file. What somebody put in its place (a link, a pipe) might never end, and is not followed."""
    try:
        with open(path, "rb", opener=_not_followed) as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None


def _not_followed(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _remove(path: Path) -> None:
    """Removes an entry, whatever somebody made of it."""
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _lock(handle: int, patience: float) -> bool:
    """Takes the lock of an open file, which closing it releases; False if nobody lets go of it in time."""
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_LOCK_POLL_S)


def default_directory() -> Path:
    """Where the cache lives unless the settings say otherwise."""
    return Path.home() / ".cache" / "mlx_native_py" / "soft"

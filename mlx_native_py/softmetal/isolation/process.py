"""One helper process: start, requests, and detection of its death."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ..compiler_process import ENVIRONMENT, ToolchainError
from .channel import CALL, CHANGES, CHANNEL_BYTES, IMPORT, IMPORT_DATA, LOG_BYTES, OVERDUE, RUN, Channel
from .images import ImageDamaged
from .space import CODE_BYTES, IMPORT_BYTES, IsolationUnavailable, SharedSpace

_PROGRAM = Path(__file__).with_name("helper.py")
_START_NS = 60_000_000_000
_REQUEST_NS = 10_000_000_000


class HelperGone(ToolchainError):
    """The helper ended or was killed; `kind` gives the reason."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"a helper of the isolated device is gone: {kind}")
        self.kind = kind


class Helper:
    """A process that runs kernels, for one thread at a time."""

    def __init__(self, space: SharedSpace, library: ctypes.CDLL, runtime: Path) -> None:
        self._space = space
        self._library = library
        library.soft_request.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_uint64]
        sizes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint64]
        pointers = [ctypes.c_void_p, ctypes.c_void_p]
        library.soft_submit.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, *sizes, *pointers]
        channel = os.memfd_create("soft-metal-channel")
        try:
            os.ftruncate(channel, CHANNEL_BYTES)
            self._memory = mmap.mmap(channel, CHANNEL_BYTES)
            self.channel = Channel.from_buffer(self._memory)
            self._lifeline, far = socket.socketpair()
            with far:
                self._process = self._start(runtime, channel, far.fileno())
        finally:
            os.close(channel)
        self.pid = self._process.pid
        self._where = where = ctypes.addressof(self.channel), self._lifeline.fileno(), self.pid
        self.submit = library.soft_submit, *where
        self.changes = space.pages.listen()
        self.imports = 0
        try:
            self._request(RUN, limit_ns=_START_NS)
        except HelperGone as gone:
            raise IsolationUnavailable(f"no helper process for an isolated device: {gone.kind}") from None

    def _start(self, runtime: Path, channel: int, lifeline: int) -> subprocess.Popen[bytes]:
        space = self._space
        code = os.open(f"/proc/self/fd/{space.code_file}", os.O_RDONLY)  # so that no helper can change it
        files = {"channel": channel, "lifeline": lifeline, "file": space.pages.file, "code_file": code}
        places = {"start": space.start, "size": space.size, "imports": space.imports, "code": space.code}
        sizes = {"import_bytes": IMPORT_BYTES, "code_bytes": CODE_BYTES, "channel_bytes": CHANNEL_BYTES}
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        given = {**files, **places, **sizes, "memory": memory, "runtime": str(runtime)}
        try:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), json.dumps(given)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                pass_fds=list(files.values()),
                start_new_session=True,
            )
        finally:
            os.close(code)

    def is_idle(self) -> bool:
        """Whether it lives and has answered all requests; asks the system nothing, which takes long after a pause."""
        channel = self.channel
        return bool(channel.answer == channel.request and channel.holder == self.pid)

    def call(self, function: int) -> int:
        """Calls a function of a kernel's image that takes no arguments."""
        self.channel.function = function
        return self._request(CALL)

    def bring(self, imports: list[tuple[str, int, bool]]) -> None:
        """Gives kernels what they import (name, slot, whether it is a value) and the memory there is now."""
        for name, slot, is_value in imports[self.imports :]:
            self.channel.log = name.encode()
            self.channel.function = slot
            if not self._request(IMPORT_DATA if is_value else IMPORT):
                raise ImageDamaged(f"the runtime has no {name}")
            self.imports += 1
        self._bring_pages()

    def log(self) -> tuple[bytes, int]:
        """What the last launches wrote to the log, and how many messages of theirs were lost."""
        channel = self.channel
        start = ctypes.addressof(channel) + Channel.log.offset
        return ctypes.string_at(start, min(channel.log_size, LOG_BYTES)), channel.log_lost

    def end(self) -> None:
        """Ends the process and forgets it."""
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._lifeline.close()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def let_go(self) -> None:
        """Leaves it to another process that holds it too."""
        self._lifeline.close()

    def _bring_pages(self) -> None:
        """Has the helper map what was allocated since, and let go of what was freed; it may hear of a change twice."""
        while self.changes:
            changed = min(len(self.changes), CHANGES)
            for index in range(changed):
                change = self.channel.changes[index]
                change.address, change.length, change.offset, change.is_open = self.changes[index]
            self.channel.count = 0
            self._request(RUN, changed)
            for _ in range(changed):
                self.changes.popleft()

    def _request(self, kind: int, changed: int = 0, limit_ns: int = _REQUEST_NS) -> int:
        self.channel.kind, self.channel.changed = kind, changed
        if lost := self._library.soft_request(*self._where, limit_ns):
            raise HelperGone(self.cause(lost))
        return int(self.channel.result)

    def cause(self, lost: int) -> str:
        """Why the helper is gone, in a few words; one that is not is ended."""
        if lost == OVERDUE:
            return "timeout"
        status = self._process.wait()
        if -status == signal.SIGSYS:
            return "forbidden system call"
        if status < 0:
            return f"end of its process by {signal.Signals(-status).name}"
        said = self._process.stderr.read(1000).decode(errors="replace").strip() if self._process.stderr else ""
        return f"end of its process with status {status}{': ' + said if said else ''}"

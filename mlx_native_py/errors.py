"""The exceptions of this package.

MlxError
├── SettingsError           also ValueError       a flag or setting has a value that it cannot have
├── InvalidArgument         also ValueError       an argument that the call cannot take
├── ModelFileError          also ValueError       a file is not what it should be: which field, where, and why
├── KernelNotFound          also LookupError      no kernel of that name is registered
├── ShaderCompilationError  also RuntimeError     a kernel does not compile, or its pipeline cannot be made
├── DeviceNotFound          also RuntimeError     the device asked for is not on this machine
├── BackendError            also RuntimeError     the device is there, but its bridge cannot be trusted
├── ForkedProcessError      also RuntimeError     a device was opened before a fork and used after it
├── EncoderStateError       also RuntimeError     the right call at the wrong time: after a commit, after close, ...
├── CaptureError            also RuntimeError     the device cannot write a GPU trace
├── CommandBufferError      also RuntimeError     the GPU gave up on a command buffer
│   ├── OutOfBoundsError    also IndexError       checked mode: an access outside of what is bound, or of an array
│   ├── DataRaceError                             checked mode: two threads, one writing, without order
│   ├── MissingBarrierError                       checked mode: two dispatches, one writing, no barrier between
│   ├── DivergentBarrierError                     checked mode: threads of a threadgroup at different barriers
│   ├── MisalignedAccessError                     checked mode: an address that is no multiple of what its type asks for
│   ├── UndeclaredAccessError                     checked mode: a dispatch touches what it does not declare
│   ├── UninitialisedReadError                    checked mode: a read of memory that nobody has written
│   └── OrderDependenceError                      `device.schedules`: other bytes in another order
├── DistributedError        also RuntimeError     ranks disagree, one is gone, or MPI reports an error
│   └── CollectiveTimeout   also TimeoutError     a rank did not come to a collective in time
├── BufferAllocationError   also MemoryError      no memory for a buffer
└── WaitTimeout             also TimeoutError     the GPU was not done in the time allowed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = [
    "BackendError",
    "BufferAllocationError",
    "CaptureError",
    "CollectiveTimeout",
    "CommandBufferError",
    "DataRaceError",
    "DeviceNotFound",
    "DistributedError",
    "DivergentBarrierError",
    "EncoderStateError",
    "ForkedProcessError",
    "InvalidArgument",
    "KernelNotFound",
    "MisalignedAccessError",
    "MissingBarrierError",
    "MlxError",
    "ModelFileError",
    "OrderDependenceError",
    "OutOfBoundsError",
    "SettingsError",
    "ShaderCompilationError",
    "UndeclaredAccessError",
    "UninitialisedReadError",
    "WaitTimeout",
]


class MlxError(Exception):
    """Base of everything that this package raises on purpose."""

    is_transient = False
    """Whether trying the same again may work."""


class SettingsError(MlxError, ValueError):
    """A flag or setting has a value that it cannot have."""


class InvalidArgument(MlxError, ValueError):
    """An argument that the call cannot take: what was given, and what is allowed."""


class ModelFileError(MlxError, ValueError):
    """A file is damaged, or of a kind that is not known: the field, its offset in the file if it has one, and what
    is wrong.
    """

    def __init__(self, path: Path | str, field: str, offset: int | None, message: str) -> None:
        field = field or "''"  # of an entry without a name
        super().__init__(f"{path}: {field}{'' if offset is None else f' (at byte {offset})'}: {message}")
        self.path = Path(path)
        self.field = field
        self.offset = offset


_FEW = 16  # names that a message has room for


class KernelNotFound(MlxError, LookupError):
    """No kernel of that name is registered."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(name, tuple(known))
        self.name = name

    def __str__(self) -> str:
        import difflib

        known = self.args[1]
        close = difflib.get_close_matches(self.name, known, n=3)
        guess = f". Did you mean {' or '.join(map(repr, close))}?" if close else ""
        if not close and 0 < len(known) <= _FEW:
            guess = f". There are: {', '.join(known)}"
        return f"Kernel not found: {self.name!r}{guess}"


class ShaderCompilationError(MlxError, RuntimeError):
    """A kernel does not compile, or its pipeline cannot be made: whose it is and what the compiler says."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"Shader compilation of {self.name!r} failed: {self.message}"


class DeviceNotFound(MlxError, RuntimeError):
    """The device asked for is not on this machine."""


class BackendError(MlxError, RuntimeError):
    """The device is there, but the bridge to it cannot be trusted."""


AFTER_FORK = "a forked child cannot use Metal; start it by the spawn method (multiprocessing.get_context('spawn'))"


class ForkedProcessError(MlxError, RuntimeError):
    """Metal was in use before a fork and is used after it; start processes by the spawn method instead."""


class EncoderStateError(MlxError, RuntimeError):
    """The right call at the wrong time: encoding after a commit, a second commit, a device after its close."""


class CaptureError(MlxError, RuntimeError):
    """The device cannot write a GPU trace: the way it was started, or the place to write to, does not allow it."""


# MTLCommandBufferError; what no retry can help is marked by _LOST.
COMMAND_BUFFER_CODES = {
    1: "internal",
    2: "timeout",
    3: "page fault",
    4: "access revoked",
    7: "not permitted",
    8: "out of memory",
    9: "invalid resource",
    10: "memoryless",
    11: "device removed",
    12: "stack overflow",
}
_LOST = (4, 7, 11)


class CommandBufferError(MlxError, RuntimeError):
    """The GPU gave up on a command buffer: its error code, the buffer's label and the dispatches inside.

    >>> error = CommandBufferError("the kernel ran too long", code=2, label="layer 3", dispatches=["softmax", "matmul"])
    >>> print(error)
    Command buffer error: timeout (code 2) in 'layer 3': the kernel ran too long; dispatches: softmax, matmul
    >>> error.is_transient, CommandBufferError("gone", code=11).is_transient
    (True, False)
    """

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        label: str = "",
        dispatches: Sequence[str] = (),
        is_transient: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.label = label
        self.dispatches = tuple(dispatches)
        self.is_transient = code not in _LOST if is_transient is None else is_transient

    @property
    def code_name(self) -> str:
        return COMMAND_BUFFER_CODES.get(self.code, "unknown") if self.code is not None else "unknown"

    def __str__(self) -> str:
        what = "" if self.code is None else f" {self.code_name} (code {self.code})"
        where = f" in {self.label!r}" if self.label else ""
        shown = ", ".join(self.dispatches[:8]) + (f", and {len(self.dispatches) - 8} more" * (len(self.dispatches) > 8))
        inside = f"; dispatches: {shown}" if shown else ""
        return f"Command buffer error:{what}{where}{':' if what or where else ''} {self.args[0]}{inside}"


class OutOfBoundsError(CommandBufferError, IndexError):
    """Checked mode saw an access outside of what is bound, or of an array; `__cause__` has the facts as fields."""


class DataRaceError(CommandBufferError):
    """Checked mode saw two threads touch the same bytes, one writing, without order; `__cause__` has both."""


class MissingBarrierError(CommandBufferError):
    """Checked mode saw two dispatches touch the same bytes, one writing, with no barrier; `__cause__` has both."""


class DivergentBarrierError(CommandBufferError):
    """Checked mode saw threads of one threadgroup wait at different barriers; `__cause__` has both."""


class MisalignedAccessError(CommandBufferError):
    """Checked mode saw an access at an address that its type cannot have; `__cause__` has the facts as fields."""


class UndeclaredAccessError(CommandBufferError):
    """Checked mode saw a dispatch touch bytes that its `reads=` or `writes=` leave out; `__cause__` says which."""


class UninitialisedReadError(CommandBufferError):
    """Checked mode saw a read of memory that nobody has written; `__cause__` has the facts as fields."""


class OrderDependenceError(CommandBufferError):
    """Inside `device.schedules`, a pass left other bytes where its dispatches or threadgroups came in another order."""


class BufferAllocationError(MlxError, MemoryError):
    """No memory for a buffer of `nbytes` bytes."""

    def __init__(self, nbytes: int, reason: str = "the device has no more memory") -> None:
        super().__init__(nbytes, reason)
        self.nbytes = nbytes
        self.reason = reason

    def __str__(self) -> str:
        return f"Failed to allocate a buffer of {self.nbytes} bytes: {self.reason}"


class WaitTimeout(MlxError, TimeoutError):
    """The GPU was not done in the time allowed; the work goes on and can be waited for again."""


class DistributedError(MlxError, RuntimeError):
    """The ranks of a group disagree, one of them has ended, or MPI reports an error."""


class CollectiveTimeout(DistributedError, TimeoutError):
    """Not all ranks came to a collective in time: which ones are missing, and which ones wait.

    >>> error = CollectiveTimeout("all_sum(float32[4])", 60.0, missing=(2,), waiting=(0, 1))
    >>> print(error)
    all_sum(float32[4]): after 60.0 s rank 2 has not come; waiting: rank 0, rank 1
    >>> error.missing
    (2,)
    """

    def __init__(self, what: str, timeout: float, missing: Sequence[int], waiting: Sequence[int]) -> None:
        verb = "has" if len(missing) == 1 else "have"
        super().__init__(f"{what}: after {timeout} s {_ranks(missing)} {verb} not come; waiting: {_ranks(waiting)}")
        self.missing = tuple(missing)
        self.waiting = tuple(waiting)


def _ranks(numbers: Sequence[int]) -> str:
    return ", ".join(f"rank {each}" for each in numbers)

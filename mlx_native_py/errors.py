"""The exceptions of this package.

MlxError
├── SettingsError           also ValueError       a setting has an invalid value
├── InvalidArgument         also ValueError       an invalid argument
│   └── SignatureError      also TypeError        too few, too many or unknown arguments
├── ModelFileError          also ValueError       a damaged or unsupported file: field, offset, problem
├── MissingFileError        also FileNotFoundError  there is no such source, header folder or model file
├── KernelNotFound          also LookupError      no kernel of that name is registered
├── ShaderCompilationError  also RuntimeError     a kernel or its pipeline does not compile
├── DeviceNotFound          also RuntimeError     the requested device does not exist on this machine
├── BackendError            also RuntimeError     the device exists, but the bridge to it is unreliable
├── ForkedProcessError      also RuntimeError     a device was opened before a fork and used after it
├── EncoderStateError       also RuntimeError     a call at the wrong time: after a commit, after close, ...
├── CaptureError            also RuntimeError     the device cannot write a GPU trace
├── CommandBufferError      also RuntimeError     a command buffer failed on the GPU
│   ├── OutOfBoundsError    also IndexError       checked mode: an access outside a bound buffer or an array
│   ├── DataRaceError                             checked mode: two threads without order, one writing
│   ├── MissingBarrierError                       checked mode: two dispatches without a barrier, one writing
│   ├── DivergentBarrierError                     checked mode: a barrier that not all threads reach
│   ├── MisalignedAccessError                     checked mode: an access misaligned for its type
│   ├── UndeclaredAccessError                     checked mode: an access that the dispatch does not declare
│   ├── UninitialisedReadError                    checked mode: a read of uninitialised memory
│   └── OrderDependenceError                      `device.schedules`: different results in another order
├── DistributedError        also RuntimeError     ranks disagree, one has ended, or MPI reports an error
│   └── CollectiveTimeout   also TimeoutError     a rank did not reach a collective in time
├── BufferAllocationError   also MemoryError      no memory for a buffer
└── WaitTimeout             also TimeoutError     the GPU did not finish in time
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
    "MissingFileError",
    "MlxError",
    "ModelFileError",
    "OrderDependenceError",
    "OutOfBoundsError",
    "SettingsError",
    "ShaderCompilationError",
    "SignatureError",
    "UndeclaredAccessError",
    "UninitialisedReadError",
    "WaitTimeout",
]


class MlxError(Exception):
    """Base class of all exceptions of this package."""

    is_transient = False
    """Whether trying the same again may work."""


class SettingsError(MlxError, ValueError):
    """A setting has an invalid value."""


class InvalidArgument(MlxError, ValueError):
    """An invalid argument: what was given, and what is allowed."""


class SignatureError(InvalidArgument, TypeError):
    """Too few, too many or unknown arguments: which, and how the call looks."""


class ModelFileError(MlxError, ValueError):
    """A damaged or unsupported file: the field, its offset if known, and the problem."""

    def __init__(self, path: Path | str, field: str, offset: int | None, message: str) -> None:
        field = field or "''"  # of an entry without a name
        super().__init__(f"{path}: {field}{'' if offset is None else f' (at byte {offset})'}: {message}")
        self.path = Path(path)
        self.field = field
        self.offset = offset


class MissingFileError(MlxError, FileNotFoundError):
    """There is no such source, header folder or model file."""


_MAX_NAMES = 8  # names listed in an error message


class KernelNotFound(MlxError, LookupError):
    """No kernel of that name is registered."""

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        super().__init__(name, tuple(known))
        self.name = name

    def __str__(self) -> str:
        import difflib

        known = self.args[1]
        hint = ""
        if close := difflib.get_close_matches(str(self.name), known, n=3):
            hint = f". Did you mean {' or '.join(map(repr, close))}?"
        elif known:
            more = f" and {len(known) - _MAX_NAMES} more" if len(known) > _MAX_NAMES else ""
            hint = f"; there are: {', '.join(known[:_MAX_NAMES])}{more}"
        return f"Kernel not found: {self.name!r}{hint}"


class ShaderCompilationError(MlxError, RuntimeError):
    """A kernel or pipeline does not compile: its name, and the compiler's message."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name = name
        self.message = message

    def __str__(self) -> str:
        return f"Shader compilation of {self.name!r} failed: {self.message}"


class DeviceNotFound(MlxError, RuntimeError):
    """The requested device does not exist on this machine."""


class BackendError(MlxError, RuntimeError):
    """The device exists, but the bridge to it does not work reliably."""


AFTER_FORK = "a forked child cannot use Metal; start it by the spawn method (multiprocessing.get_context('spawn'))"


class ForkedProcessError(MlxError, RuntimeError):
    """A device opened before a fork was used after it; start processes with the spawn method instead."""


class EncoderStateError(MlxError, RuntimeError):
    """A call at the wrong time: encoding after a commit, a second commit, using a closed device."""


class CaptureError(MlxError, RuntimeError):
    """The device cannot write a GPU trace, because of how it was started or where it should be written."""


# MTLCommandBufferError codes; those that a retry cannot help are in _LOST.
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
    """A command buffer failed on the GPU: its error code, label and dispatches.

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
    ) -> None:
        super().__init__(message)
        self.code = code
        self.label = label
        self.dispatches = tuple(dispatches)
        self.is_transient = code not in _LOST

    @property
    def code_name(self) -> str:
        return COMMAND_BUFFER_CODES.get(self.code, "unknown") if self.code is not None else "unknown"

    def __str__(self) -> str:
        what = "" if self.code is None else f" {self.code_name} (code {self.code})"
        where = f" in {self.label!r}" if self.label else ""
        shown = ", ".join(self.dispatches[:8]) + (f", and {len(self.dispatches) - 8} more" * (len(self.dispatches) > 8))
        message = str(self.args[0])
        gap = "\n" if "\n" in message else "; "  # a message that ends in a caret keeps it on a line of its own
        inside = f"{gap}dispatches: {shown}" if shown else ""
        return f"Command buffer error:{what}{where}{':' if what or where else ''} {message}{inside}"


class OutOfBoundsError(CommandBufferError, IndexError):
    """Checked mode: an access outside a bound buffer or an array; `__cause__` has the details."""


class DataRaceError(CommandBufferError):
    """Checked mode: two threads access the same bytes without order, one writing; `__cause__` has both."""


class MissingBarrierError(CommandBufferError):
    """Checked mode: two dispatches access the same bytes without a barrier, one writing; `__cause__` has both."""


class DivergentBarrierError(CommandBufferError):
    """Checked mode: a barrier that not all threads of a threadgroup reach; `__cause__` has who and where."""


class MisalignedAccessError(CommandBufferError):
    """Checked mode: an access that is misaligned for its type; `__cause__` has the details."""


class UndeclaredAccessError(CommandBufferError):
    """Checked mode: a dispatch accesses bytes missing from its `reads=` or `writes=`; `__cause__` says which."""


class UninitialisedReadError(CommandBufferError):
    """Checked mode: a read of uninitialised memory; `__cause__` has the details."""


class OrderDependenceError(CommandBufferError):
    """Inside `device.schedules`: a pass gave different bytes in another order of dispatches or threadgroups."""


class BufferAllocationError(MlxError, MemoryError):
    """No memory for a buffer of `nbytes` bytes."""

    def __init__(self, nbytes: int, reason: str = "the device has no more memory") -> None:
        super().__init__(nbytes, reason)
        self.nbytes = nbytes
        self.reason = reason

    def __str__(self) -> str:
        return f"Failed to allocate a buffer of {self.nbytes} bytes: {self.reason}"


class WaitTimeout(MlxError, TimeoutError):
    """The GPU did not finish in time; the work continues and can be waited for again."""


class DistributedError(MlxError, RuntimeError):
    """The ranks of a group disagree, one has ended, or MPI reports an error."""


class CollectiveTimeout(DistributedError, TimeoutError):
    """Not all ranks reached a collective in time: which are missing, and which wait.

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

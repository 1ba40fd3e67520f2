"""Tensors of a memory-mapped file, and buffers over them."""

from __future__ import annotations

import difflib
import math
import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import require_open
from ..errors import InvalidArgument, MissingFileError, ModelFileError
from ..forks import Lock
from ..memory.buffer import Array, MlxBuffer

__all__ = ["MappedFile", "NoSuchTensor", "Tensor", "TensorFile", "check_layout", "path_of"]


def path_of(given: Any) -> Path:
    """The path of a file that a caller names."""
    if not isinstance(given, (str, os.PathLike)):
        raise InvalidArgument(f"a path is a str or a Path, not {given!r}")
    try:
        encoded = os.fsencode(given)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidArgument(f"{os.fspath(given)!r} is no path")
    return Path(given)


def _at_once(path: str, flags: int) -> int:
    """Opens a file; a pipe too, without waiting for its writer."""
    return os.open(path, flags | os.O_NONBLOCK)


class MappedFile:
    """A read-only memory-mapped file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb", opener=_at_once) as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise ModelFileError(path, "file", None, "is no regular file")
                self.size = about.st_size
                if not self.size:
                    raise ModelFileError(path, "file", 0, "is empty")
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise MissingFileError(f"there is no file {path}") from None
        except OSError as reason:
            raise ModelFileError(path, "file", None, f"cannot be read: {reason.strerror}") from reason
        self._buffers: dict[MlxDevice, MlxBuffer] = {}
        self._lock = Lock()

    def require_whole(self, name: str, end: int) -> None:
        """Raises where another program has cut the file before `end`: to read there would end the process."""
        if (now := self.data.size()) < end:
            message = f"the file has been cut from {self.size} bytes to {now} since it was opened; open it again"
            raise ModelFileError(self.path, name, now, message)

    def buffer(self, device: MlxDevice) -> MlxBuffer | None:
        """One buffer over the whole file, of which tensors are views; None if the device has none so large."""
        if self.size > device.capabilities.max_buffer_length:
            return None
        with self._lock:  # two would be counted twice, and the device may have no room for the second
            if device not in self._buffers:
                whole = np.frombuffer(self.data, np.uint8)
                self._buffers[device] = device.buffer(whole, copy=None, label=self.path.name)
            return self._buffers[device]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor of a file. `format` is a DType's name, or a block format whose rows are packed bytes."""

    name: str
    shape: tuple[int, ...]
    """Row-major: the last axis is contiguous."""
    format: str
    file: MappedFile
    offset: int
    """From the start of the file."""
    nbytes: int
    packed: bool
    problem: str = ""
    """Why it cannot be read, where it cannot."""

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def bytes(self) -> memoryview:
        """Its bytes in the file, without a copy."""
        self._require()
        return memoryview(self.file.data)[self.offset : self.offset + self.nbytes]

    def numpy(self) -> Array:
        """An array over the file; rows of bytes for packed formats."""
        dtype, shape = self._memory()
        return np.frombuffer(self.bytes(), dtype.numpy).reshape(shape)

    def buffer(self, device: MlxDevice, *, copy: bool = False) -> MlxBuffer:
        """A buffer with the tensor: a view of the mapped file if possible; a copy with `copy`."""
        require_open(device)
        dtype, shape = self._memory()
        whole = None if copy else self.file.buffer(device)
        if whole is None or self.offset % dtype.size:
            return device.buffer(self.numpy(), copy=True, label=self.name)
        return whole.slice_view(self.offset, self.nbytes).view(dtype).reshape(shape)

    def _memory(self) -> tuple[DType, tuple[int, ...]]:
        self._require()
        if not self.packed:
            return DType.of(self.format), self.shape
        rows = math.prod(self.shape[:-1])
        return DType.U8, (*self.shape[:-1], self.nbytes // rows)

    def _require(self) -> None:
        if self.problem:
            raise InvalidArgument(f"tensor {self.name!r} of {self.file.path.name}: {self.problem}")
        self.file.require_whole(self.name, self.offset + self.nbytes)

    def __repr__(self) -> str:
        note = f", not readable: {self.problem}" if self.problem else ""
        return f"<Tensor {self.name!r}, {self.format}{list(self.shape)}, {self.nbytes} bytes{note}>"


class NoSuchTensor(InvalidArgument, KeyError):
    """The file has no tensor of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class TensorFile(Mapping[str, Tensor]):
    """Tensors by name in file order, and the file's metadata."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
        self.path = path
        self.metadata = metadata
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._tensors[name]
        except KeyError:
            close = difflib.get_close_matches(str(name), self._tensors, n=3)
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise NoSuchTensor(f"{self.path.name} has no tensor {name!r}{hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Memory stays mapped while an array or buffer uses it."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path.name}, {len(self)} tensors, {self.nbytes:,} bytes>"


def check_layout(file: MappedFile, tensors: Mapping[str, Tensor], first: int) -> None:
    """Raises if tensors overlap the header, the end of the file, or each other."""
    end, previous = first, ""
    for tensor in sorted(tensors.values(), key=lambda each: (each.offset, each.nbytes)):
        if tensor.offset < end:
            what = f"tensor {previous!r}" if previous else "the description of the file"
            raise ModelFileError(file.path, tensor.name, tensor.offset, f"begins inside of {what}, which ends at {end}")
        if tensor.offset + tensor.nbytes > file.size:
            message = f"{tensor.nbytes} bytes end beyond the file's {file.size}"
            raise ModelFileError(file.path, tensor.name, tensor.offset, message)
        end, previous = tensor.offset + tensor.nbytes, tensor.name

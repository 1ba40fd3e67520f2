"""Array behaviour of buffers: item, tolist, operators, indexing and repr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..dtypes import DType
from ..errors import EncoderStateError, InvalidArgument
from .allocation import Allocation

if TYPE_CHECKING:
    from .buffer import MlxBuffer

__all__ = ["ArrayMethods", "Elements", "NoLength", "OutOfRange"]

_REPR_VALUES = 6  # values in a repr
_HTML_ROWS, _HTML_COLUMNS = 8, 12


class OutOfRange(InvalidArgument, IndexError):
    """An index is out of range."""


class NoLength(InvalidArgument, TypeError):
    """A buffer of one value, of shape (), has no length."""


class Elements(Protocol):
    """The members of a buffer that `ArrayMethods` uses."""

    allocation: Allocation
    dtype: DType
    shape: tuple[int, ...]
    start: int
    end: int
    offset: int
    nbytes: int
    label: str

    @property
    def size(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    @property
    def device(self) -> Any: ...
    def numpy(self, *, wait: bool = True) -> Any: ...
    def slice_view(self, byte_offset: int, n_elements: int) -> MlxBuffer: ...
    def item(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> MlxBuffer: ...
    def _run(self, name: str, *others: Any, reflected: bool = False) -> MlxBuffer: ...
    def _row_numbers(self, key: Any) -> Any: ...
    def _glance(self) -> str: ...


class ArrayMethods:
    """Array methods of `MlxBuffer`; operators run functions of `fn` on the buffer's device and wait.

    >>> x = device.arange(6, dtype="f32").reshape(2, 3)
    >>> (x * 2 - 1).tolist(), float(x[1, 2]), x[:, 1].tolist()
    ([[-1.0, 1.0, 3.0], [5.0, 7.0, 9.0]], 5.0, [1.0, 4.0])
    >>> x[0] = 7
    >>> x
    MlxBuffer(f32[2, 3], 24 bytes: 7, 7, 7, 3, 4, 5)
    """

    __slots__ = ()

    # Makes numpy defer `array + buffer` to the buffer.
    __array_priority__ = 1000.0

    # Scalars and copies

    def item(self: Elements) -> Any:
        """The only value, as a Python number."""
        if self.size != 1:
            raise InvalidArgument(f"item() takes the one value of a buffer; {self!r} has {self.size}")
        return self.numpy().reshape(()).item()

    def tolist(self: Elements) -> Any:
        """The values as (nested) lists of Python numbers; a single number if the shape is ()."""
        return self.numpy().tolist()

    def __float__(self: Elements) -> float:
        return float(self.item())

    def __int__(self: Elements) -> int:
        return int(self.item())

    def __iter__(self: Elements) -> Iterator[MlxBuffer]:
        """Iterates over views of the rows along the first axis."""
        return (self[row] for row in range(len(self)))

    def astype(self: Elements, dtype: Any) -> MlxBuffer:
        """A copy in another element type.

        >>> device.arange(3).astype("f16")
        MlxBuffer(f16[3], 6 bytes: 0, 1, 2)
        """
        if DType.of(dtype) is self.dtype:
            return self._run("contiguous")
        return self._run("astype", dtype)

    # Operators

    def __add__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("add", other)

    def __radd__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("add", other)

    def __sub__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("subtract", other)

    def __rsub__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("subtract", other, reflected=True)

    def __mul__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("multiply", other)

    def __rmul__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("multiply", other)

    def __truediv__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("divide", other)

    def __rtruediv__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("divide", other, reflected=True)

    def __matmul__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("matmul", other)

    def __rmatmul__(self: Elements, other: Any) -> MlxBuffer:
        return self._run("matmul", other, reflected=True)

    def __neg__(self: Elements) -> MlxBuffer:
        return self._run("multiply", -1)

    def _run(self: Elements, name: str, *others: Any, reflected: bool = False) -> MlxBuffer:
        """Calls a function of `fn` with this buffer as its first or last argument."""
        given = (*others, self) if reflected else (self, *others)
        result: MlxBuffer = getattr(_functions(), name)(*given, stream=self.device)
        return result

    @property
    def device(self: Elements) -> Any:
        """The device that the buffer belongs to."""
        if (owner := self.allocation.residency.device()) is None:
            raise EncoderStateError(f"the device of {self!r} is gone; keep the MlxDevice as long as its buffers")
        return owner

    # Indexing

    def select(self: Elements, key: Any) -> MlxBuffer:
        """`buf[key]` for general keys: a view if the elements are contiguous, otherwise a copy made by a kernel.

        >>> x = device.arange(12).reshape(3, 4)
        >>> x[1, 2:], x[..., 0].tolist(), x[[2, 0], ].shape
        (MlxBuffer(i32[2], 8 bytes at 24 of 48: 6, 7), [0, 4, 8], (2, 4))
        """
        if not self.shape:
            raise InvalidArgument(f"{self!r} has no axis to index")
        parts = key if isinstance(key, tuple) else (key,)
        if len(parts) == 1 and not _is_basic(parts[0]):
            return self._run("take", self._row_numbers(parts[0]), 0)
        if not all(map(_is_basic, parts)):
            raise InvalidArgument(f"{key!r} cannot index a buffer; use slices and numbers, or numpy()[...]")
        # numpy computes shape and strides; no element is read.
        whole = self.numpy(wait=False)
        try:
            part: Any = whole[parts if ... in parts else (*parts, ...)]
        except IndexError as problem:
            raise OutOfRange(f"{key!r} cannot index {self!r}: {problem}") from None
        except ValueError as problem:
            raise InvalidArgument(f"{key!r} cannot index {self!r}: {problem}") from None
        if not part.size:
            raise InvalidArgument(f"{key!r} of {self!r} is empty, and Metal has no empty buffers")
        first = part.__array_interface__["data"][0] - self.start
        if part.flags.c_contiguous:
            return self.slice_view(first, part.size).reshape(part.shape)
        strides = [step // self.dtype.size for step in part.strides]
        if min(strides) < 0:
            raise InvalidArgument(f"{key!r}: negative steps need numpy()[...]")
        # The kernel's offset is relative to the first element.
        rest = self.slice_view(first, (self.nbytes - first) // self.dtype.size)
        copy: MlxBuffer = _functions().as_strided(rest, part.shape, strides, stream=self.device)
        return copy

    def _row_numbers(self: Elements, key: Any) -> Any:
        """Row indices as a checked array of non-negative numbers."""
        numbers = np.asarray(key)
        if numbers.dtype.kind not in "iu" or not self.shape or not numbers.size:
            raise InvalidArgument(f"{key!r} cannot index {self!r}; use slices and numbers, or numpy()[...]")
        if numbers.min() < -self.shape[0] or numbers.max() >= self.shape[0]:
            raise OutOfRange(f"{key!r} goes beyond the first axis of {self!r}")
        return np.where(numbers < 0, numbers + self.shape[0], numbers)

    def __setitem__(self: Elements, key: Any, value: Any) -> None:
        """Writes from the CPU, as numpy does, after pending work that writes the buffer."""
        if self.readonly:
            raise InvalidArgument(f"{self!r} uses read-only memory")
        try:
            self.numpy()[key] = value
        except IndexError as problem:
            raise OutOfRange(f"[{key!r}] of {self!r}: {problem}") from None
        except (TypeError, ValueError, OverflowError) as problem:
            raise InvalidArgument(f"[{key!r}] of {self!r} cannot be set: {problem}") from None

    # Display

    def __repr__(self: Elements) -> str:
        axes = ", ".join(map(str, self.shape))
        whole_of = self.allocation.nbytes
        part = f" at {self.offset} of {whole_of}" if (self.offset, self.nbytes) != (0, whole_of) else ""
        notes = ", read-only" * self.readonly + ", released" * self.allocation.released
        name = f"{self.label!r}, " if self.label else ""
        return f"MlxBuffer({name}{self.dtype}[{axes}], {self.nbytes} bytes{part}{notes}{self._glance()})"

    def _glance(self: Elements) -> str:
        """A few values for a repr, or a note that work in flight writes them."""
        if self.allocation.released or not self.allocation.address:
            return ""
        if self.allocation.writer(self.start, self.end) is not None:
            return ", in flight"
        values = self.numpy(wait=False).reshape(-1)
        few = values if self.size <= _REPR_VALUES else [*values[: _REPR_VALUES // 2], ..., values[-1]]
        return ": " + ", ".join("..." if each is ... else _shown(each) for each in few)

    def _repr_html_(self: Elements) -> str:
        """An HTML table for notebooks."""
        head = f"<code>{escape(repr(self).partition(': ')[0].rstrip(')') + ')')}</code>"
        if self.allocation.released or not self.allocation.address:
            return head
        if self.allocation.writer(self.start, self.end) is not None:
            return head
        table = self.numpy(wait=False).reshape(-1, self.shape[-1] if self.shape else 1)
        rows = [_cells(row) for row in table[:_HTML_ROWS]]
        if len(table) > _HTML_ROWS:
            rows.append("<td>…</td>")
        return f"{head}<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _functions() -> Any:
    """The module `fn`, looked up at run time because it is built on buffers."""
    return sys.modules[__name__.partition(".")[0]].fn


def _is_basic(key: Any) -> bool:
    """Whether numpy returns a view for this index."""
    return key is None or key is ... or isinstance(key, (slice, int, np.integer)) and not isinstance(key, bool)


def _shown(value: Any) -> str:
    return f"{float(value):.5g}" if not isinstance(value, (np.bool_, np.integer)) else str(value)


def _cells(row: Any) -> str:
    cells = [f"<td>{_shown(value)}</td>" for value in row[:_HTML_COLUMNS]]
    return "".join(cells) + "<td>…</td>" * (len(row) > _HTML_COLUMNS)

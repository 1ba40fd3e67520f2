"""One call of a function: moves arrays to the device, provides an encoder, and waits at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from ..device import MlxDevice
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer, as_array
from ..shared_device import default_device

__all__ = ["Array", "FunctionCall", "call", "device_of"]

Array = MlxBuffer | npt.ArrayLike
"""A buffer, an array of any library, or numbers in lists."""


class FunctionCall:
    """An encoder, and conversion of arrays to buffers."""

    def __init__(self, enc: Encoder) -> None:
        self.enc = enc
        self.copies: list[MlxBuffer] = []
        """Of arrays, for this call alone."""

    def put(self, given: Array, name: str) -> MlxBuffer:
        """`given` as a buffer: itself, or a copy of an array of any library."""
        if isinstance(given, MlxBuffer):
            return given
        try:
            return self.enc.device.staged(given, self.copies)
        except InvalidArgument as problem:
            raise InvalidArgument(f"{name}: {problem}") from None

    def put_if(self, given: Array | None, name: str) -> MlxBuffer | None:
        """`given` as a buffer; None stays None."""
        return None if given is None else self.put(given, name)

    def put_count(self, given: Array | int, name: str) -> MlxBuffer | int:
        """A number unchanged, or several numbers as a buffer."""
        return given if isinstance(given, int) else self.put_integers(given, name)

    def put_integers(self, given: Array, name: str) -> MlxBuffer:
        """Indices, positions or counts as a buffer: u32, or i32 if any is negative."""
        if isinstance(given, MlxBuffer):
            return given
        array = as_array(given)
        if array.dtype.kind not in "iu":
            raise InvalidArgument(f"{name} is {array.dtype}{list(array.shape)}, expected whole numbers")
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low < -(2**31) or high >= (2**31 if low < 0 else 2**32):
            raise InvalidArgument(f"{name} has numbers from {low} to {high}, expected at most 32 bits")
        return self.put(array.astype(np.int32 if low < 0 else np.uint32), name)


def device_of(*given: object) -> MlxDevice:
    """The device of the first buffer among the values, or the default one."""
    buffers = (each for each in given if isinstance(each, MlxBuffer))
    first = next(buffers, None)
    return default_device() if first is None else first.device


@contextmanager
def call(stream: MlxDevice | None, *given: object) -> Iterator[FunctionCall]:
    """Runs what the block encodes when it ends: on `stream`, or on the device of the first buffer in `given`."""
    device = device_of(*given) if stream is None else stream
    if not isinstance(device, MlxDevice):
        raise InvalidArgument(f"stream is {device!r}, expected an MlxDevice")
    with device.command_encoder() as enc:
        run = FunctionCall(enc)
        yield run
    device.recycler.give_back(run.copies)

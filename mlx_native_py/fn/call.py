"""One call of a function: its arrays on the device, an encoder for its ops, and the wait at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..default_device import default_device
from ..device import MlxDevice
from ..encoder import CommandEncoder
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer, as_array

__all__ = ["Call", "call"]


class Call:
    """An encoder, and the way in for arrays."""

    def __init__(self, enc: CommandEncoder) -> None:
        self.enc = enc

    def put(self, given: Any, name: str) -> MlxBuffer:
        """`given` as a buffer: itself, or a copy of an array of any library."""
        if isinstance(given, MlxBuffer):
            return given
        array = as_array(given)
        if array.dtype == "float64":
            array = array.astype("float32")
        try:
            return self.enc.device.buffer(array, copy=None)
        except InvalidArgument as problem:
            raise InvalidArgument(f"{name}: {problem}") from None


@contextmanager
def call(stream: MlxDevice | None) -> Iterator[Call]:
    """Runs what the block encodes when the block ends.

    >>> with call(None) as run:
    ...     total = ops.add(run.enc, run.put(np.ones(2, "f4"), "a"), run.put(np.ones(2, "f4"), "b"))
    >>> total.numpy()
    array([2., 2.], dtype=float32)
    """
    device = default_device() if stream is None else stream
    if not isinstance(device, MlxDevice):
        raise InvalidArgument(f"stream is {device!r}, expected an MlxDevice")
    with device.command_encoder() as enc:
        yield Call(enc)

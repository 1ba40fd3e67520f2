"""Assertions on dispatches, barriers, command buffers, messages, memory and determinism."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from .. import counters

if TYPE_CHECKING:
    from ..device import MlxDevice

__all__ = [
    "assert_barriers",
    "assert_command_buffers",
    "assert_deterministic",
    "assert_dispatches",
    "assert_messages",
    "assert_no_leak",
]


@contextmanager
def assert_dispatches(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block encodes this many dispatches in the calling thread.

    >>> with assert_dispatches(1):
    ...     with device.command_encoder() as enc:
    ...         enc.dispatch(axpy, x, y, 2.0, threads=4)
    """
    with counters.scope() as counted:
        yield
    _hold("dispatches", counted.dispatches, exactly, at_most)


@contextmanager
def assert_barriers(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block sends this many memory barriers."""
    with counters.scope() as counted:
        yield
    _hold("barriers", counted.barriers, exactly, at_most)


@contextmanager
def assert_command_buffers(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block creates this many command buffers."""
    with counters.scope() as counted:
        yield
    _hold("command buffers", counted.cmd_bufs, exactly, at_most)


@contextmanager
def assert_messages(device: MlxDevice, exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block sends this many messages to the device's compute encoders."""
    from .messages import counted_messages

    with counted_messages(device) as counts:
        yield
    _hold("messages", counts.total(), exactly, at_most, detail=counts)


@contextmanager
def assert_no_leak(device: MlxDevice, *, at_most: int = 0) -> Iterator[None]:
    """After the block, the device has no more than `at_most` additional bytes allocated.

    Recycled memory and cyclic garbage are freed first.
    """
    before = _allocated(device)
    yield
    grown = _allocated(device) - before
    assert grown <= at_most, (
        f"{grown} bytes of device memory are still allocated after the block; {at_most} are allowed"
    )


def assert_deterministic(run: Callable[[], Any], *, times: int = 3) -> None:
    """`run()` returns the same bits each time: an array, a buffer, or several in a list, tuple or dict.

    On the software device, dispatches between barriers, and threadgroups, run in another order each time, on the fibers
    and lanes engines in turn, so that dependence on an unspecified order shows. Open devices inside `run`, or use
    `kernel(source)`: an open device keeps its order.
    """
    from .. import settings

    orders = ["ordered", "reversed", *(f"shuffled:{seed}" for seed in range(1, times))]
    first = _bits(run())
    for order, engine in zip(orders[1 : times + 1], cycle(("fibers", "lanes")), strict=False):
        with settings.override(soft_schedule=order, soft_engine=engine):
            again = _bits(run())
        for name, bits in first.items():
            assert again.get(name) == bits, f"result {name} has other bits in the order {order!r} than in the first run"
        assert again.keys() == first.keys(), f"results are {list(again)} in the order {order!r}, and were {list(first)}"


def _hold(
    what: str, counted: int, exactly: int | None, at_most: int | None, detail: Mapping[str, int] | None = None
) -> None:
    if (exactly is None) == (at_most is None):
        raise TypeError(f"give either a number of {what} or at_most=")
    told = f" ({', '.join(f'{name} {count}' for name, count in Counter(detail).most_common())})" if detail else ""
    if exactly is not None:
        assert counted == exactly, f"{counted} {what}{told}; exactly {exactly} are allowed"
    if at_most is not None:
        assert counted <= at_most, f"{counted} {what}{told}; at most {at_most} are allowed"


def _allocated(device: MlxDevice) -> int:
    gc.collect()
    device.recycler.clear()
    device.residency.flush()
    return int(device.mtl.currentAllocatedSize())


def _bits(result: Any) -> dict[Any, bytes]:
    import numpy as np

    if isinstance(result, Mapping):
        return {name: np.asarray(value).tobytes() for name, value in result.items()}
    values = result if isinstance(result, (list, tuple)) else [result]
    return {index: np.asarray(value).tobytes() for index, value in enumerate(values)}

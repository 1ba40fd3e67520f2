"""Assertions on dispatches, barriers, command buffers, messages, memory and determinism."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from .. import counters
from ..errors import InvalidArgument, OrderDependenceError, SignatureError

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

__tracebackhide__ = True  # pytest shows the test that fails, not the lines below


@contextmanager
def assert_dispatches(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block encodes this many dispatches in the calling thread.

    >>> with assert_dispatches(1):
    ...     with device.command_encoder() as enc:
    ...         enc.dispatch(axpy, x, y, 2.0, threads=4)
    """
    hold = _budget("dispatches", exactly, at_most)
    with counters.scope() as counted:
        yield
    hold(counted.dispatches)


@contextmanager
def assert_barriers(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block sends this many memory barriers."""
    hold = _budget("barriers", exactly, at_most)
    with counters.scope() as counted:
        yield
    hold(counted.barriers)


@contextmanager
def assert_command_buffers(exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block creates this many command buffers."""
    hold = _budget("command buffers", exactly, at_most)
    with counters.scope() as counted:
        yield
    hold(counted.cmd_bufs)


@contextmanager
def assert_messages(device: MlxDevice, exactly: int | None = None, *, at_most: int | None = None) -> Iterator[None]:
    """The block sends this many messages to the device's compute encoders."""
    from ..encoder import require_open
    from .messages import counted_messages

    require_open(device)
    hold = _budget("messages", exactly, at_most)
    with counted_messages(device) as counts:
        yield
    hold(counts.total(), counts)


@contextmanager
def assert_no_leak(device: MlxDevice, *, at_most: int = 0) -> Iterator[None]:
    """After the block, the device has no more than `at_most` additional bytes allocated.

    Recycled memory and cyclic garbage are freed first.
    """
    from ..encoder import require_open
    from ..memory.shapes import whole

    require_open(device)
    allowed = whole(at_most, "at_most")
    before = _allocated(device)
    yield
    grown = _allocated(device) - before
    if grown > allowed:
        raise AssertionError(
            f"{grown} bytes of device memory are still allocated after the block; {allowed} are allowed"
        )


def assert_deterministic(run: Callable[[], Any], *, times: int = 3) -> None:
    """`run()` returns the same bits each time: an array, a buffer, or several in a list, tuple or dict.

    On the software device, dispatches between barriers, and threadgroups, run in another order each time, on the fibers
    and lanes engines in turn, so that dependence on an unspecified order shows. That goes for devices that `run` opens
    and for `kernel(source)`; of devices that are open before, as that of the fixture `metal_device`, each pass is
    repeated in other orders, as by `device.schedules`.
    """
    from .. import settings
    from ..memory.shapes import whole

    if not callable(run):
        raise InvalidArgument(f"assert_deterministic takes a function without arguments, not {run!r}")
    orders = ["ordered", "reversed", *(f"shuffled:{seed}" for seed in range(1, whole(times, "times", 1)))]
    first = _results(run())
    for order, engine in zip(orders[1:], cycle(("fibers", "lanes")), strict=False):
        with settings.override(soft_schedule=order, soft_engine=engine):
            again = _results(run())
        if again.keys() != first.keys():
            raise AssertionError(f"results are {list(again)} in the order {order!r}, and were {list(first)}")
        for name, array in first.items():
            if again[name].tobytes() != array.tobytes():
                raise AssertionError(
                    f"result {name} has other bits in the order {order!r} than in the first run"
                    f"{_difference(array, again[name])}"
                )
    _repeat(run, len(orders))


def _repeat(run: Callable[[], Any], count: int) -> None:
    """Runs it once more, with each pass of devices that are open already in several orders."""
    from ..profiling import kernel_profile

    queues = kernel_profile.queues()
    try:
        with ExitStack() as repeated:
            for queue in queues:
                repeated.enter_context(queue.in_orders(count))
            run()
            for queue in queues:
                queue.wait_all()
    except OrderDependenceError as error:
        raise AssertionError(str(error.__cause__ or error)) from error


def _budget(what: str, exactly: int | None, at_most: int | None) -> Callable[..., None]:
    """Compares a count with what is allowed."""
    from ..memory.shapes import whole

    if (exactly is None) == (at_most is None):
        raise SignatureError(f"give either a number of {what} or at_most=")
    allowed = whole(at_most if exactly is None else exactly, f"the number of {what}")

    def hold(counted: int, detail: Mapping[str, int] | None = None) -> None:
        told = f" ({', '.join(f'{name} {count}' for name, count in Counter(detail).most_common())})" if detail else ""
        if counted > allowed or (exactly is not None and counted != allowed):
            word = "at most" if exactly is None else "exactly"
            raise AssertionError(f"{counted} {what}{told}; {word} {allowed} are allowed")

    return hold


def _allocated(device: MlxDevice) -> int:
    gc.collect()
    device.recycler.clear()
    device.residency.flush()
    return int(device.mtl.currentAllocatedSize())


def _results(returned: Any) -> dict[Any, Any]:
    """The arrays that a run returned, by name."""
    import numpy as np

    values = returned if isinstance(returned, (list, tuple, Mapping)) else [returned]
    named = values.items() if isinstance(values, Mapping) else enumerate(values)
    arrays = {name: np.array(value) for name, value in named}
    if not arrays or any(array.dtype.hasobject for array in arrays.values()):
        raise InvalidArgument(f"the run returned {returned!r:.200}, expected arrays or buffers to compare")
    return arrays


def _difference(one: Any, other: Any) -> str:
    """Where two arrays of one type and shape differ first."""
    import numpy as np

    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return f": it is {other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}"
    rows = [np.frombuffer(each.tobytes(), np.uint8).reshape(-1, each.dtype.itemsize) for each in (one, other)]
    differing = np.flatnonzero((rows[0] != rows[1]).any(axis=1))
    index = tuple(map(int, np.unravel_index(differing[0], one.shape)))
    return (
        f": {len(differing)} of {one.size} values, the first at {list(index)}, {other[index]} instead of {one[index]}"
    )

"""Repetition of passes in other orders, which must give the same bytes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from ..memory import DeviceMemory
from .indirect import Replay
from .passes import EncodedDispatch, Pass
from .residency import Resident, joined

_MOST_GROUPS = 1 << 32


def orders(count: int) -> tuple[str, ...]:
    """Names of so many orders, the usual one first."""
    return ("ordered", "reversed", *(f"shuffled:{seed}" for seed in range(1, count - 1)))[:count]


def order_groups(dispatch: EncodedDispatch, order: str) -> None:
    """Has the launch run its threadgroups in another order, too."""
    launch = dispatch.launch
    total = math.prod(launch.groups)
    launch.group_step = launch.group_start = 0
    if order == "ordered" or not 1 < total < _MOST_GROUPS:
        return
    step = start = total - 1
    if order != "reversed":
        chosen = random.Random(order)
        start = chosen.randrange(total)
        step = next(each for each in iter(lambda: chosen.randrange(1, total), 0) if math.gcd(each, total) == 1)
    launch.group_step, launch.group_start = step, start


def _replayed(work: Pass, resident: Resident) -> Iterator[EncodedDispatch]:
    """The dispatches of indirect command buffers."""
    for item in (item for epoch in work.epochs for item in epoch):
        if isinstance(item, Replay):
            for epoch in item.expand(joined(resident, item.resident)):
                yield from epoch


def memory_of(work: Pass, resident: Resident) -> dict[DeviceMemory, str]:
    """All that a pass may touch, and its name in messages: a label, the first argument that it is, or an address."""
    used = {*resident, *work.buffers(), *(texture.allocation for _, texture in work.textures())}
    arguments: dict[DeviceMemory, str] = {}
    replayed = list(_replayed(work, resident))
    for dispatch in (*work.dispatches(), *replayed):
        for slot, each in enumerate(dispatch.allocations):
            if each is not None:
                arguments.setdefault(each, f"argument {dispatch.pipeline.argument_name(slot)!r} of {dispatch.kernel!r}")
    for dispatch in replayed:
        used.update(dispatch.resident)
    return {
        each: f"buffer {each.label!r}" if each.label else arguments.get(each, f"the buffer at {each.address:#x}")
        for each in used | arguments.keys()
        if each.live
    }


def kernels_of(work: Pass, resident: Resident) -> list[str]:
    """The names of all kernels that a pass runs."""
    return sorted({each.kernel for each in (*work.dispatches(), *_replayed(work, resident))})


class Repetition:
    """Runs a pass in several orders from the same memory."""

    def __init__(self, names: tuple[str, ...], kernels: Sequence[str], memory: Mapping[DeviceMemory, str]) -> None:
        self._names = names
        self._kernels = kernels
        self._memory = memory
        self._before = {each: bytes(each.view()) for each in memory}

    def run(self, once: Callable[[str], bool]) -> str:
        """Says what differed, if anything did; `once` runs the pass, and answers whether to go on."""
        first: dict[DeviceMemory, bytes] = {}
        for name in self._names:
            for each, held in self._before.items():
                each.view()[:] = held
            if not once(name):
                return ""
            after = {each: bytes(each.view()) for each in self._before}
            first = first or after
            for each, held in after.items():
                if held != first[each]:
                    difference = _difference(self._memory[each], first[each], held)
                    self._restore(first)
                    kernels = ", ".join(map(repr, self._kernels))
                    return f"in the order {name!r}, {difference}, in a pass that runs {kernels}"
        self._restore(first)
        return ""

    def _restore(self, first: dict[DeviceMemory, bytes]) -> None:
        for each, held in first.items():
            each.view()[:] = held


def order_dependence(differences: Sequence[str]) -> Exception | None:
    """The finding of a command buffer, if any pass of it has left other bytes in another order."""
    if not differences:
        return None
    from ..checked import OrderDependence, combined  # which need numpy

    return combined([OrderDependence(difference) for difference in differences])


def _difference(name: str, one: bytes, two: bytes) -> str:
    places = [index for index, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    bytes_differ = "1 byte" if len(places) == 1 else f"{len(places)} bytes"
    return f"{bytes_differ} of {name} differ from the first run, from byte {places[0]} on"

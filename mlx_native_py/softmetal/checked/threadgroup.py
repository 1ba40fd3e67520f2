"""Threadgroup memory of a checked dispatch, in which each variable and argument lies apart from the others."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..engines.abi import THREADGROUP_ZONE
from ..program import KernelSignature, ThreadgroupVariable
from .errors import Place


@dataclass(frozen=True)
class _Zone:
    name: str
    length: int
    slot: int | None = None


class ThreadgroupMemory:
    """What is in it: the kernel's variables, then its arguments. While it is in use, the launch has arguments there."""

    def __init__(self, kernel: KernelSignature, launch: Any, variables: Sequence[ThreadgroupVariable]) -> None:
        self._launch = launch
        self._places: dict[int, int] = {}  # where arguments are otherwise
        self._zones = [_Zone(each.name, each.length) for each in variables]
        arguments = sorted((each for each in kernel.arguments if each.kind == "threadgroup"), key=lambda a: a.index)
        bounds = [*(int(launch.tg_offsets[each.index]) for each in arguments), int(launch.tg_bytes)]
        for argument, (start, end) in zip(arguments, itertools.pairwise(bounds), strict=True):
            self._places[argument.index] = start
            launch.tg_offsets[argument.index] = len(self._zones) * THREADGROUP_ZONE
            self._zones.append(_Zone(argument.name, end - start, argument.index))
        self.count = len(self._zones)
        self.lengths = (ctypes.c_uint32 * self.count)(*(zone.length for zone in self._zones))

    def finish(self) -> None:
        """The launch is as it was."""
        for slot, place in self._places.items():
            self._launch.tg_offsets[slot] = place

    def place(self, offset: int) -> Place:
        """What a pointer was made for that leads so far into the memory: mistakes go up more often than down."""
        if not self._zones:
            return Place("threadgroup memory", offset)
        number = min(max((offset + THREADGROUP_ZONE // 4) // THREADGROUP_ZONE, 0), self.count - 1)
        zone = self._zones[number]
        return Place("threadgroup memory", offset - number * THREADGROUP_ZONE, zone.length, zone.slot, zone.name)

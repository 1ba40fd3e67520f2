"""Launch sizes: grid, threadgroup and threadgroup memory, checked against a pipeline's limits."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from ..errors import InvalidArgument
from ..pipelines.pipeline import Pipeline

__all__ = ["DispatchKind", "Launch", "Launchable", "Size", "group_of", "is_nothing", "pipeline_of", "plan_launch"]

Size = tuple[int, int, int]

_MAX_GRID = 1 << 32  # MSL's grid positions are 32 bits wide
_MOST_THREADS = 1 << 64
_DEFAULT_GROUP = 256  # threads per threadgroup, if not given
_MAX_CACHED = 1024  # launches cached per pipeline
_GROUP_MEMORY_STEP = 16  # threadgroup memory is allocated in steps of 16 bytes


class DispatchKind(Enum):
    """Whether a launch counts threads or threadgroups."""

    Threads = "threads"
    ThreadGroups = "threadgroups"


@dataclass(frozen=True, slots=True)
class Launch:
    """A checked launch size; `shared` has (index, bytes) of each threadgroup argument."""

    by_threads: bool
    grid: Size
    group: Size
    shared: tuple[tuple[int, int], ...] = ()
    is_plain: bool = field(init=False, repr=False, compare=False)
    """Whether it counts threads and has no threadgroup arguments; the common case of generated code."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_plain", self.by_threads and not self.shared)

    @property
    def kind(self) -> DispatchKind:
        return DispatchKind.Threads if self.by_threads else DispatchKind.ThreadGroups


class Launchable(Protocol):
    """A kernel that can be dispatched on any device; it has one pipeline per device."""

    def pipeline_on(self, device: Any) -> Pipeline: ...


def pipeline_of(given: Pipeline | Launchable, device: Any) -> Pipeline:
    """Returns the pipeline itself, or the one of a kernel from `device.compile(source)`."""
    if isinstance(given, Pipeline):
        return given
    if hasattr(given, "pipeline_on"):
        return given.pipeline_on(device)
    raise InvalidArgument(
        "dispatch takes a Pipeline from device.kernels.get_pipeline(name), or a kernel of device.compile(source), "
        f"not {given!r}"
    )


def is_nothing(threads: Any, threadgroups: Any) -> bool:
    """Whether a launch has zero threads."""
    if (threads is None) == (threadgroups is None):
        return False
    grid = threadgroups if threads is None else threads
    return 0 in (grid if isinstance(grid, (tuple, list)) else (grid,))


def plan_launch(pipeline: Pipeline, threads: Any, threadgroups: Any, group: Any, shared: Any) -> Launch:
    """Checks a launch size, and caches it in the pipeline."""
    if (threads is None) == (threadgroups is None):
        problem = "neither was given" if threads is None else "and not both"
        raise InvalidArgument(f"{_name(pipeline)}: give either threads= or threadgroups=, {problem}")
    kind = DispatchKind.ThreadGroups if threads is None else DispatchKind.Threads
    grid = _size(pipeline, kind.value, threads if threads is not None else threadgroups)
    size = _chosen(pipeline, grid, kind) if group is None else _size(pipeline, "group", group)
    _check_group(pipeline, size)
    if kind is DispatchKind.ThreadGroups and any(g * s >= _MAX_GRID for g, s in zip(grid, size, strict=True)):
        raise InvalidArgument(f"{_name(pipeline)}: {grid} threadgroups of {size} have 2**32 or more threads in a row")
    total = math.prod(grid) * (math.prod(size) if kind is DispatchKind.ThreadGroups else 1)
    if total >= _MOST_THREADS:
        raise InvalidArgument(f"{_name(pipeline)}: {kind.value}={grid} are {total} threads, expected fewer than 2**64")
    launch = Launch(kind is DispatchKind.Threads, grid, size, _shared(pipeline, shared))
    try:
        if len(pipeline.launches) >= _MAX_CACHED:
            pipeline.launches.clear()
            pipeline.thread_launches.clear()
        pipeline.launches[threads, threadgroups, group, shared] = launch
        if threadgroups is None and group is None and shared == ():
            pipeline.thread_launches[threads] = launch
    except TypeError:  # lists are welcome, but cannot be looked up
        pass
    return launch


def _name(pipeline: Pipeline) -> str:
    return f"kernel {pipeline.label!r}"


def _whole(pipeline: Pipeline, what: str, value: Any) -> int:
    """Converts to int; 4.0 is accepted, so that cached and new shapes behave alike."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{_name(pipeline)}: {what} is {value!r}, expected whole numbers") from None


def _size(pipeline: Pipeline, what: str, value: Any) -> Size:
    parts = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not 1 <= len(parts) <= 3:
        raise InvalidArgument(f"{_name(pipeline)}: {what}={value!r}, expected one to three numbers")
    x, y, z = (*(_whole(pipeline, what, part) for part in parts), 1, 1)[:3]
    if min(x, y, z) < 1 or max(x, y, z) >= _MAX_GRID:
        raise InvalidArgument(f"{_name(pipeline)}: {what}={value!r}, expected numbers from 1 to {_MAX_GRID - 1}")
    return x, y, z


def group_of(pipeline: Pipeline, group: Any) -> Size:
    """The size of a threadgroup, checked."""
    size = _size(pipeline, "group", group)
    _check_group(pipeline, size)
    return size


def _check_group(pipeline: Pipeline, group: Size) -> None:
    total = group[0] * group[1] * group[2]
    if total > pipeline.max_threads:
        raise InvalidArgument(
            f"{_name(pipeline)}: a threadgroup of {group} has {total} threads; "
            f"this kernel allows at most {pipeline.max_threads}"
        )
    if any(part > most for part, most in zip(group, pipeline.limits.threads, strict=True)):
        raise InvalidArgument(
            f"{_name(pipeline)}: a threadgroup of {group}; the device allows {pipeline.limits.threads}"
        )


def _floor_power(value: int) -> int:
    return 1 << (value.bit_length() - 1)


def _chosen(pipeline: Pipeline, grid: Size, kind: DispatchKind) -> Size:
    """A default threadgroup: whole simdgroups, no wider than the grid, of about the usual number of threads."""
    left = _floor_power(min(_DEFAULT_GROUP, pipeline.max_threads))
    if kind is DispatchKind.ThreadGroups:
        return min(left, pipeline.limits.threads[0]), 1, 1
    sizes = []
    for extent, most in zip(grid, pipeline.limits.threads, strict=True):
        part = min(1 << (extent - 1).bit_length(), left, _floor_power(most))
        sizes.append(part)
        left //= part
    total = sizes[0] * sizes[1] * sizes[2]
    # A threadgroup smaller than a simdgroup leaves lanes idle either way; simd functions expect full simdgroups.
    if total < pipeline.width <= pipeline.max_threads:
        sizes[0] *= pipeline.width // total
    return sizes[0], sizes[1], sizes[2]


def _shared(pipeline: Pipeline, shared: Any) -> tuple[tuple[int, int], ...]:
    lengths = tuple(shared) if isinstance(shared, Sequence) else (shared,)
    slots = pipeline.shared
    if len(lengths) != len(slots):
        names = ", ".join(str(slot) for slot in slots if slot is not None) or "no threadgroup arguments"
        raise InvalidArgument(f"{_name(pipeline)} has {names}; shared= gives {len(lengths)} lengths in bytes")
    rounded = []
    for index, (slot, length) in enumerate(zip(slots, lengths, strict=True)):
        if slot is None or length is None:
            if slot is not None or length is not None:
                raise InvalidArgument(
                    f"{_name(pipeline)}: shared[{index}] is {length!r}, "
                    + ("but there is no such argument" if slot is None else f"but {slot} needs a length in bytes")
                )
            continue
        count = _whole(pipeline, f"shared[{index}]", length)
        if count < 1:
            raise InvalidArgument(f"{_name(pipeline)}: {slot} of {count} bytes, expected at least 1")
        rounded.append((index, -(-count // _GROUP_MEMORY_STEP) * _GROUP_MEMORY_STEP))
    own = -(-pipeline.static_threadgroup_bytes // _GROUP_MEMORY_STEP) * _GROUP_MEMORY_STEP
    total = own + sum(count for _, count in rounded)
    if total > pipeline.limits.threadgroup_memory:
        raise InvalidArgument(
            f"{_name(pipeline)}: {total} bytes of threadgroup memory ({own} of them the kernel's own variables); "
            f"the device has {pipeline.limits.threadgroup_memory}"
        )
    return tuple(rounded)

"""Positions and sizes that a kernel may ask for, in grids whose edge threadgroups are smaller."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .program import Program, zeros

Array = NDArray[Any]
GRID, GROUP = (10, 7, 3), (4, 3, 2)


def _positions(grid: tuple[int, ...]) -> Array:
    """Coordinates, x first, of every thread in the order of its linear number."""
    axes = np.meshgrid(*(np.arange(n) for n in reversed(grid)), indexing="ij")
    return np.stack(axes[::-1], -1).reshape(-1, len(grid))


def vectors(grid: tuple[int, ...], group: tuple[int, ...]) -> dict[str, Array]:
    """Builtins with a component per dimension."""
    at = _positions(grid)
    where = at // group
    return {
        "thread_position_in_grid": at,
        "thread_position_in_threadgroup": at % group,
        "threadgroup_position_in_grid": where,
        "threads_per_grid": np.broadcast_to(grid, at.shape),
        "threadgroups_per_grid": np.broadcast_to(-(-np.array(grid) // group), at.shape),
        "threads_per_threadgroup": np.minimum(group, np.array(grid) - where * group),
        "dispatch_threads_per_threadgroup": np.broadcast_to(group, at.shape),
    }


def scalars(grid: tuple[int, ...], group: tuple[int, ...], width: str) -> dict[str, Array]:
    """Builtins that are always one number; `width` is one of the two names of the simdgroup's."""
    all_vectors = vectors(grid, group)
    local, size = all_vectors["thread_position_in_threadgroup"], all_vectors["threads_per_threadgroup"]
    strides = np.concatenate([np.ones((len(size), 1), int), np.cumprod(size, 1)[:, :-1]], 1)
    index, count, whole = (local * strides).sum(1), size.prod(1), int(np.prod(group))
    return {
        "thread_index_in_threadgroup": index,
        "thread_index_in_simdgroup": index % 32,
        "simdgroup_index_in_threadgroup": index // 32,
        "thread_index_in_quadgroup": index % 4,
        "quadgroup_index_in_threadgroup": index // 4,
        width: np.full(len(index), 32),
        "simdgroups_per_threadgroup": -(-count // 32),
        "quadgroups_per_threadgroup": -(-count // 4),
        "dispatch_simdgroups_per_threadgroup": np.full(len(index), -(-whole // 32)),
        "dispatch_quadgroups_per_threadgroup": np.full(len(index), -(-whole // 4)),
    }


def _linear(dimensions: int) -> str:
    if dimensions == 1:
        return "v0"
    return " + ".join(f"{int(np.prod(GRID[:axis]))} * v0[{axis}]" for axis in range(dimensions))


def position_kernel(scalar: str, dimensions: int) -> Program:
    """Every vector builtin in one shape, each to its own buffer."""
    kind = scalar + (str(dimensions) if dimensions > 1 else "")
    grid, group = GRID[:dimensions], GROUP[:dimensions]
    wanted = vectors(grid, group)
    outs = [f"device {scalar}* o{n}" for n in range(len(wanted))]
    ins = [f"{kind} v{n} [[{name}]]" for n, name in enumerate(wanted)]
    lines = [
        f"  o{n}[j * {dimensions} + {axis}] = v{n}{'' if dimensions == 1 else f'[{axis}]'};"
        for n in range(len(wanted))
        for axis in range(dimensions)
    ]
    body = f"kernel void k({', '.join(outs + ins)}) {{\n  uint j = {_linear(dimensions)};\n" + "\n".join(lines) + "\n}"
    dtype = np.uint16 if scalar == "ushort" else np.uint32
    args = [zeros(values.size, dtype) for values in wanted.values()]
    results = {name: (slot, values.reshape(-1).astype(dtype)) for slot, (name, values) in enumerate(wanted.items())}
    return Program(f"builtins-{kind}", body, args, results, threads=grid, group=group)


def index_kernel(
    scalar: str, grid: tuple[int, ...], group: tuple[int, ...], width: str = "threads_per_simdgroup"
) -> Program:
    """Every scalar builtin; the group spans several simdgroups."""
    wanted = scalars(grid, group, width)
    outs = [f"device {scalar}* o{n}" for n in range(len(wanted))]
    ins = [f"{scalar} v{n} [[{name}]]" for n, name in enumerate(wanted)]
    lines = [f"  o{n}[j] = v{n};" for n in range(len(wanted))]
    at = "uint3 at [[thread_position_in_grid]], uint3 size [[threads_per_grid]]"
    body = (
        f"kernel void k({', '.join([*outs, *ins, at])}) {{\n  uint j = at.x + size.x * (at.y + size.y * at.z);\n"
        + "\n".join(lines)
        + "\n}"
    )
    dtype = np.uint16 if scalar == "ushort" else np.uint32
    args = [zeros(values.size, dtype) for values in wanted.values()]
    results = {name: (slot, values.astype(dtype)) for slot, (name, values) in enumerate(wanted.items())}
    return Program(f"indices-{scalar}-{len(grid)}d", body, args, results, threads=grid, group=group)


def whole_groups() -> Program:
    """dispatchThreadgroups runs full groups, so threads_per_grid is their product."""
    body = """kernel void k(device uint* out, uint3 t [[thread_position_in_grid]], uint3 n [[threads_per_grid]], uint3
        g [[threadgroups_per_grid]]) {
  uint j = t.x + n.x * (t.y + n.y * t.z);
  out[j] = j + 1000 * n.z + 10000 * g.y;
}"""
    want = np.arange(15 * 8 * 2) + 1000 * 2 + 10000 * 4
    return Program(
        "whole-groups", body, [zeros(240, np.uint32)], {"out": (0, want)}, threadgroups=(3, 4, 2), group=(5, 2, 1)
    )


def all_programs() -> list[Program]:
    shapes = [position_kernel(scalar, n) for scalar in ("uint", "ushort") for n in (1, 2, 3)]
    numbers = [
        index_kernel("uint", (100, 3), (50, 2)),
        index_kernel("ushort", (90,), (70,), "thread_execution_width"),
        index_kernel("uint", (9, 9, 9), (4, 4, 4)),
    ]
    return [*shapes, *numbers, whole_groups()]

"""Gives a dispatch the fastest code that is ready for its threadgroups, and tells what it took."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..engines.abi import FIBERS, FLAT, LANES
from ..program import Specialised
from .passes import Dispatch

if TYPE_CHECKING:
    from ..engines import LaunchTimes


def specialise(dispatch: Dispatch) -> Specialised | None:
    """Puts code for the lanes engine into the launch if there is some; groups at the grid's edge keep the first."""
    pipeline, launch = dispatch.pipeline, dispatch.launch
    code = pipeline._code
    found = code.tiers.choose(dispatch.shape) if code.tiers is not None else None
    pipeline._last_engine = pipeline._ran[dispatch.shape] = code.engine if found is None else "lanes"
    if found is not None:
        launch.engine = FLAT if found.engine == "flat" else LANES
        launch.entry = found.entry
        launch.stack_bytes = max(found.stack_bytes, code.stack_bytes)
        launch.edge_entry = code.entry
        launch.edge_engine = FLAT if code.engine == "flat" else FIBERS
    return found


def took(dispatches: Iterable[Dispatch], codes: Iterable[Specialised | None], times: Iterable[LaunchTimes]) -> None:
    """Tells what launches took with the code that `specialise` gave them."""
    for dispatch, code, spent in zip(dispatches, codes, times, strict=True):
        tiers = dispatch.pipeline._code.tiers
        if tiers is not None and tiers.listens(dispatch.shape):
            x, y, z = dispatch.launch.threads
            tiers.ran(dispatch.shape, code, x * y * z, spent.end_ns - spent.start_ns)

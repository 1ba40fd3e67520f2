"""Checked mode: out-of-bounds accesses, data races and missing barriers, reported as exceptions.

Kernels are compiled with callbacks before each load and store, and run on fibers. A checked device raises at
`waitUntilCompleted()`, which is stricter than a GPU; the command buffer's `error()` has the same report.
"""

from .declared import undeclared
from .dispatch import DispatchCheck, Footprint, Window
from .errors import (
    Access,
    CheckedError,
    DataRace,
    DispatchName,
    DivergentBarrier,
    MisalignedAccess,
    MissingBarrier,
    MissingFence,
    OrderDependence,
    OutOfBounds,
    Place,
    UndeclaredAccess,
    UninitialisedRead,
    UnorderedQueues,
    combined,
)
from .fences import untracked
from .hazards import HazardCheck
from .queues import Timeline
from .sites import Sites
from .zones import arguments_apart

__all__ = [
    "Access",
    "CheckedError",
    "DataRace",
    "DispatchCheck",
    "DispatchName",
    "DivergentBarrier",
    "Footprint",
    "HazardCheck",
    "MisalignedAccess",
    "MissingBarrier",
    "MissingFence",
    "OrderDependence",
    "OutOfBounds",
    "Place",
    "Sites",
    "Timeline",
    "UndeclaredAccess",
    "UninitialisedRead",
    "UnorderedQueues",
    "Window",
    "arguments_apart",
    "combined",
    "undeclared",
    "untracked",
]

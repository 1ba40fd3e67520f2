"""Checked mode: bounds, data races and missing barriers, reported as exceptions.

Kernels are compiled with callbacks before each load and store, and run on fibers. A checked device raises at
`waitUntilCompleted()`, which is stricter than a GPU; the command buffer's `error()` carries the same report.
"""

from .dispatch import DispatchCheck, Footprint, Window
from .errors import (
    Access,
    CheckedError,
    DataRace,
    DispatchName,
    MissingBarrier,
    OutOfBounds,
    Place,
    combined,
)
from .hazards import HazardCheck

__all__ = [
    "Access",
    "CheckedError",
    "DataRace",
    "DispatchCheck",
    "DispatchName",
    "Footprint",
    "HazardCheck",
    "MissingBarrier",
    "OutOfBounds",
    "Place",
    "Window",
    "combined",
]

"""Lloyd-Max levels of the normal distribution, computed in float64."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np

from .bench import Array


@cache
def levels(bits: int) -> Array:
    """All 2^bits levels: each is the mean of what lies nearest to it. Newton's method on that condition."""
    count = 1 << (bits - 1)
    wide = NormalDist(0, math.sqrt(3))
    c = np.array([wide.inv_cdf(0.5 + (i + 0.5) / (2 * count)) for i in range(count)])
    for _ in range(100):
        edges = np.concatenate([[0.0], (c[1:] + c[:-1]) / 2, [40.0]])
        density = np.exp(-edges * edges / 2) / math.sqrt(2 * math.pi)
        beyond = np.array([math.erfc(edge / math.sqrt(2)) / 2 for edge in edges])
        mass = beyond[:-1] - beyond[1:]
        mean = (density[:-1] - density[1:]) / mass
        lower, upper = density[:-1] * (mean - edges[:-1]) / mass / 2, density[1:] * (edges[1:] - mean) / mass / 2
        lower[0] = upper[-1] = 0
        slope = np.diag(lower + upper - 1) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
        step = np.linalg.solve(slope, c - mean)
        c = c + step
        if np.abs(step).max() < 1e-11:
            break
    return np.concatenate([-c[::-1], c])


@cache
def table(bits: int) -> Array:
    """The levels as kernels have them."""
    return levels(bits).astype(np.float32).astype(np.float64)

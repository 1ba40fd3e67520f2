"""Graphs of recorded dispatches: capture, optimisation passes, and plans for replay."""

from __future__ import annotations

from .arena import Scalars
from .compute_graph import ComputeGraph, capture
from .executor import GraphExecutor, GraphSession, Outcome
from .fuse import Arguments, fusion
from .order import Step
from .plan import Plan
from .template import Template

__all__ = [
    "Arguments",
    "ComputeGraph",
    "GraphExecutor",
    "GraphSession",
    "Outcome",
    "Plan",
    "Scalars",
    "Step",
    "Template",
    "capture",
    "fusion",
]

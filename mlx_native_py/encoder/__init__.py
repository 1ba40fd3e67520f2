"""Encoding work for the GPU: dispatches, barriers, capture, submission and its outcome."""

from __future__ import annotations

from .arguments import Out
from .barriers import Barrier
from .command_encoder import CommandEncoder
from .launch import Launch
from .nodes import (
    CapturedBarrier,
    CapturedDispatch,
    CapturedNode,
    CapturedOpKind,
    Dispatched,
    DispatchKind,
    RecordedBinding,
)
from .submissions import Submissions
from .ticket import Ticket

__all__ = [
    "Barrier",
    "CapturedBarrier",
    "CapturedDispatch",
    "CapturedNode",
    "CapturedOpKind",
    "CommandEncoder",
    "DispatchKind",
    "Dispatched",
    "Launch",
    "Out",
    "RecordedBinding",
    "Submissions",
    "Ticket",
]

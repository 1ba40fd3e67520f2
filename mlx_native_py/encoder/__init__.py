"""Encoding GPU work: dispatches, barriers, recording, submission and completion."""

from __future__ import annotations

from .arguments import Out
from .barriers import Barrier
from .command_encoder import CommandEncoder
from .context import DeviceContext, require_open
from .dispatch import CapturedBarrier, CapturedNode, CapturedOpKind, Dispatch, Dispatched, RecordedBinding
from .launch import DispatchKind, Launch
from .recorder import Encoder, Recorder
from .submissions import Submissions
from .ticket import Ticket

__all__ = [
    "Barrier",
    "CapturedBarrier",
    "CapturedNode",
    "CapturedOpKind",
    "CommandEncoder",
    "DeviceContext",
    "Dispatch",
    "DispatchKind",
    "Dispatched",
    "Encoder",
    "Launch",
    "Out",
    "RecordedBinding",
    "Recorder",
    "Submissions",
    "Ticket",
    "require_open",
]

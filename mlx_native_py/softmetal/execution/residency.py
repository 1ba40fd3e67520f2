"""Resident memory: what kernels may access without a binding, from residency sets and pass declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import constants as c
from ..memory import DeviceMemory

# Memory that kernels may reach through pointers, with its MTLResourceUsage; never changed once handed out.
Resident = Mapping[DeviceMemory, int]
_ANY = c.MTLResourceUsageRead | c.MTLResourceUsageWrite
NOTHING: Resident = {}


class ResidencyState:
    """The members of a residency set, effective once committed. Each change is one store."""

    __slots__ = ("committed", "members", "resident")

    def __init__(self) -> None:
        self.members: dict[Any, None] = {}
        self.committed: dict[Any, None] = {}
        self.resident: Resident = NOTHING

    def commit(self) -> None:
        """Lets additions and removals take effect."""
        committed = self.members.copy()
        self.resident = {member.allocation: _ANY for member in committed}
        self.committed = committed


def joined(*parts: Resident) -> Resident:
    """All of them as one; the very same object where only one has members, or the first has all that others have."""
    if len(parts) == 1:
        return parts[0]
    filled = [part for part in parts if part]
    filled = [part for part in filled if part is filled[0] or not part.items() <= filled[0].items()]
    if len(filled) < 2:
        return filled[0] if filled else NOTHING
    together: dict[DeviceMemory, int] = {}
    for part in filled:
        together.update(part)
    return together

"""Finds private memory that all lanes use identically, so that one copy per simdgroup suffices."""

from __future__ import annotations

from ..ir.model import Instruction, IrFunction, Value, uses
from .intrinsics import lane_function

_COPY, _HINT = "llvm.memcpy.", "llvm.lifetime."


def shared_allocas(function: IrFunction) -> set[Instruction]:
    """Allocas of simdgroup matrices, which are only handed to functions run once or copied to each other."""
    users = uses(function)
    allocas = [inst for inst in function.instructions() if inst.opcode == "alloca"]
    shared = {inst for inst in allocas if all(_as_one(user) for user in _final_users(inst, users))}
    while wrong := {inst for inst in shared if not _copied_within(inst, users, shared)}:
        shared -= wrong
    return shared | {inst for inst in allocas if "shared" in inst.flags}


def _final_users(place: Value, users: dict[Value, list[Instruction]]) -> list[Instruction]:
    """What is done with an address, and with addresses computed from it."""
    done = []
    for user in users.get(place, ()):
        if user.opcode == "getelementptr" and user.operands[0] is place:
            done += _final_users(user, users)
        else:
            done.append(user)
    return done


def _as_one(user: Instruction) -> bool:
    if user.opcode != "call":
        return False
    return lane_function(user.callee) == "once" or user.callee.startswith((_COPY, _HINT))


def _copied_within(inst: Instruction, users: dict[Value, list[Instruction]], shared: set[Instruction]) -> bool:
    copies = [user for user in _final_users(inst, users) if user.callee.startswith(_COPY)]
    return all(_origin(place) in shared for user in copies for place in user.operands[:2])


def _origin(place: Value) -> Value:
    while isinstance(place, Instruction) and place.opcode == "getelementptr":
        place = place.operands[0]
    return place

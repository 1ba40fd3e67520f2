"""Functions for accesses of large kernels: written once for each kind of address, and called.

An access in many pieces is dozens of instructions. In a kernel with hundreds of them the compiler would take minutes
and gigabytes, and a call costs little beside the accesses themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from ..ir.model import Instruction
from .address import POINTERS, Address
from .frame import Frame

Body = Callable[[Frame, Address], str]
"""Emits the access; returns what its function returns, or nothing."""


def outlined(
    frame: Frame, key: Hashable, address: Address, result: str, body: Body, given: tuple[tuple[str, str], ...] = ()
) -> str:
    """Calls the function of `key` for an address; `given` are types and values of its further parameters.

    `body` finds them under the names %given0, %given1, and so on.
    """
    shape, stride = address.shape, address.shape.stride
    kind = POINTERS if shape.varying else "ptr"
    parameters, arguments = [f"{kind} %where"], [f"{kind} {address.text}"]
    if stride is not None:
        parameters.append(f"{stride.type} %stride")
        arguments.append(f"{stride.type} {frame.scalar(stride)}")
    for i, (type_, text) in enumerate(given):
        parameters.append(f"{type_} %given{i}")
        arguments.append(f"{type_} {text}")
    names = frame.writer.outlined
    step = "" if stride is None else stride.type if isinstance(stride, Instruction) else stride.text
    whole = (key, kind, shape.offsets, shape.factors, str(step))
    if whole not in names:
        names[whole] = f"@lanes.access.{len(names)}"
        lines = _written(frame, address, result, body)
        frame.helper(names[whole], f"{result} {names[whole]}({', '.join(parameters)})", lines)
    call = f"call {result} {names[whole]}({', '.join(arguments)})"
    if result != "void":
        return frame.let("access", call)
    frame.emit(call)
    return ""


def _written(frame: Frame, address: Address, result: str, body: Body) -> list[str]:
    """The lines of a function, which knows the address by the names of its parameters."""
    writer = replace(frame.writer, lines=[], taken=0, is_large=False)
    inner, stride = Frame(writer, frame.block), address.shape.stride
    if isinstance(stride, Instruction):
        inner.scalars[stride] = "%stride"
    made = body(inner, replace(address, text="%where", distant=False))
    return [*writer.lines, f"  ret {result} {made}" if made else "  ret void"]

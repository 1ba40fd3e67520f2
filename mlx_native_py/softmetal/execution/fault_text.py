"""Error messages for faulting kernels: which kernel, whose memory, and how to find out more."""

from __future__ import annotations

from ..engines.runtime import KernelFault
from ..options import SoftOptions
from .passes import EncodedDispatch

_FAR = 1 << 32
"""Bytes from every buffer beyond which an address tells nothing about any of them."""
_ADVICE = {
    "bad address": "; run with MLX_SOFT_CHECKED=1 to see the thread, the argument and the index",
    "stack overflow": "; run with MLX_SOFT_CHECKED=1 to see whether an array was left",
}


def fault_text(fault: KernelFault, dispatch: EncodedDispatch, options: SoftOptions) -> str:
    """The message of a command buffer whose kernel was stopped."""
    limit = f" after {options.watchdog_seconds:g} s" if fault.kind == "timeout" else ""
    near = _nearest(fault, dispatch) if fault.kind == "bad address" else ""
    usual = "; run with MLX_SOFT_CHECKED=1 to have every load and store checked"
    advice = "" if options.checked or not fault.checkable else _ADVICE.get(fault.kind, usual)
    return f"kernel {dispatch.label}: {fault.kind}{fault.detail}{limit}{fault.where}{near}{advice}"


def _nearest(fault: KernelFault, dispatch: EncodedDispatch) -> str:
    """Read or write, and the argument that the address is nearest to: a guess, since only an address is known."""
    access = f", a {fault.access}" if fault.access else ""
    launch, distances = dispatch.launch, []
    for argument in dispatch.pipeline.code.kernel.arguments:
        start, length = launch.buffers[argument.index] or 0, launch.lengths[argument.index]
        if argument.kind == "buffer" and start and length:
            offset = fault.address - start
            distances.append((max(-offset, offset - length, 0), offset, length, argument))
    if not distances or (nearest := min(distances, key=lambda each: each[0]))[0] > _FAR:
        return access
    _, offset, length, argument = nearest
    return f"{access}; nearest is byte {offset} of {argument.name!r} (slot {argument.index}, {length} bytes)"

"""The base class of encoders: open until endEncoding, debug groups, fences."""

from __future__ import annotations

from ..execution.command_buffer import CommandBufferState
from ..execution.commands import BlitPass
from ..execution.passes import Pass
from ..misuse import MetalMisuse
from ..values import instance, text
from .base import Labelled
from .events import MTLFence
from .owned import DeviceObject, Owned


class MTLCommandEncoder(Labelled):
    """Writes commands into a command buffer until it is ended."""

    is_open = False
    _owner: Owned
    _buffer: CommandBufferState
    _pass: Pass | BlitPass
    _groups: tuple[str, ...] = ()
    _path = ""

    def device(self) -> DeviceObject:
        return self._owner.device()

    def commandBuffer(self) -> Owned:
        return self._owner

    def endEncoding(self) -> None:
        if not self.is_open:
            self._alive("endEncoding")
        if self._groups:
            raise MetalMisuse(f"endEncoding on {self!r}: debug group {self._groups[-1]!r} was never popped")
        self.is_open = False
        self._buffer.encoding = None

    def insertDebugSignpost_(self, name: str) -> None:
        self._alive("insertDebugSignpost_")
        self._pass.signposts.append(text(name, "signpost"))

    def pushDebugGroup_(self, name: str) -> None:
        self._alive("pushDebugGroup_")
        self._groups = (*self._groups, text(name, "debug group"))
        self._path = "/".join(self._groups)

    def popDebugGroup(self) -> None:
        self._alive("popDebugGroup")
        if not self._groups:
            raise MetalMisuse(f"popDebugGroup on {self!r}: no debug group is open")
        self._groups = self._groups[:-1]
        self._path = "/".join(self._groups)

    def _alive(self, call: str) -> None:
        if not self.is_open:
            raise MetalMisuse(f"{call} on {self!r} after endEncoding")

    def updateFence_(self, fence: MTLFence) -> None:
        self._alive("updateFence_")
        self._buffer.retain(instance(fence, MTLFence, "fence"))
        self._pass.fences.append(("update", fence))

    def waitForFence_(self, fence: MTLFence) -> None:
        self._alive("waitForFence_")
        self._buffer.retain(instance(fence, MTLFence, "fence"))
        self._pass.fences.append(("wait", fence))

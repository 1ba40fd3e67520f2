"""Exceptions for misuse that would abort the process, or be silently wrong, in Metal."""

from __future__ import annotations

from ..errors import EncoderStateError, ForkedProcessError


class MetalMisuse(RuntimeError):
    """A call that Metal would answer with an abort, silence or undefined behaviour."""


class InvalidValue(MetalMisuse, ValueError):
    """An argument that the kernel, the object or the device does not allow."""


class QueueFull(MetalMisuse, TimeoutError):
    """All command buffers of a queue are in use, and none in flight can complete."""


class EndlessWait(MetalMisuse, EncoderStateError):
    """A wait for what would never happen: on the thread that is to run it, or while the process ends."""


class ForkedProcess(MetalMisuse, ForkedProcessError):
    """A device opened before a fork was used in the child."""

"""What software Metal raises where Metal would abort the process or silently do the wrong thing."""

from __future__ import annotations

from ..errors import ForkedProcessError


class MetalMisuse(RuntimeError):
    """A call that Metal answers with an abort, with silence or with undefined behaviour."""


class InvalidValue(MetalMisuse, ValueError):
    """An argument outside what the kernel, the object or the device allows."""


class QueueFull(MetalMisuse, TimeoutError):
    """Every command buffer of a queue is taken and nothing on the way can give one back."""


class ForkedProcess(MetalMisuse, ForkedProcessError):
    """A device, opened before a fork, was used in the child."""

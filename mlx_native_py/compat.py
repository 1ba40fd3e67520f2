"""The crate mlx-native's method names where they differ from ours, as mixins; docs/from-the-crate.md has the table."""

from __future__ import annotations

import builtins
from typing import Any

from . import settings

__all__ = ["EncoderSpellings", "SessionSpellings", "TrackerSpellings"]


class EncoderSpellings:
    """Additional names for `CommandEncoder`."""

    def force_barrier_and_reset_tracker(self: Any) -> None:
        """`memory_barrier`, which also empties the tracker if no pass is open."""
        self.memory_barrier()
        self.mem_ranges.reset()

    def mem_ranges_len(self: Any) -> int:
        """`len(enc.mem_ranges)`."""
        return len(self.mem_ranges)

    def commit_wait_with_gpu_time(self: Any, label: str | None = None) -> tuple[float, float]:
        """`commit_and_wait`, then `ticket.gpu_interval`: start and end on the GPU, in seconds."""
        self.commit_and_wait(label)
        interval: tuple[float, float] = self.ticket.gpu_interval
        return interval

    def metal_command_buffer(self: Any) -> Any:
        """`ticket.mtl`: the MTLCommandBuffer, or None after completion."""
        return self.ticket.mtl


class SessionSpellings:
    """Additional names for `EncoderSession`."""

    @staticmethod
    def env_enabled() -> bool:
        """Whether `HF2Q_ENCODER_SESSION` makes `GraphExecutor` use sessions."""
        return settings.current().encoder_session

    def metal_command_buffer(self: Any) -> Any:
        """`ticket.mtl`: the stage's MTLCommandBuffer, or None after completion."""
        return self.ticket.mtl

    def add_to_residency_set(self: Any, buffer: Any) -> bool:
        """Stages a buffer into the device's residency set; False if there is none."""
        return bool(self._device.residency.add(buffer.allocation))

    def remove_from_residency_set(self: Any, buffer: Any) -> bool:
        """Stages a removal from the residency set; False if there is none."""
        return bool(self._device.residency.remove(buffer.allocation))


class TrackerSpellings:
    """Additional names for `MemRanges`."""

    __slots__ = ()

    def len(self: Any) -> int:
        """`len(ranges)`: the number of live ranges; duplicates count, empty ones do not."""
        return builtins.len(self)

    def is_empty(self: Any) -> bool:
        """`not ranges`: whether no range is live."""
        return not self

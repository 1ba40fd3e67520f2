"""Spellings of the crate mlx-native that differ from ours, as base classes; docs/from-the-crate.md has the table."""

from __future__ import annotations

import builtins
from typing import Any

from . import settings

__all__ = ["EncoderSpellings", "SessionSpellings", "TrackerSpellings"]


class EncoderSpellings:
    """Of `CommandEncoder`."""

    def force_barrier_and_reset_tracker(self: Any) -> None:
        """`memory_barrier`, and an empty tracker also where there is nothing to order yet."""
        self.memory_barrier()
        self.mem_ranges.reset()

    def mem_ranges_len(self: Any) -> int:
        """`len(enc.mem_ranges)`."""
        return len(self.mem_ranges)

    def commit_wait_with_gpu_time(self: Any, label: str | None = None) -> tuple[float, float]:
        """`commit_and_wait`, then `ticket.gpu_interval`: when the GPU began and ended, in seconds."""
        self.commit_and_wait(label)
        interval: tuple[float, float] = self.ticket.gpu_interval
        return interval

    def metal_command_buffer(self: Any) -> Any:
        """`ticket.mtl`: the MTLCommandBuffer, or None once it is done with."""
        return self.ticket.mtl


class SessionSpellings:
    """Of `EncoderSession`."""

    @staticmethod
    def env_enabled() -> bool:
        """Whether `HF2Q_ENCODER_SESSION` asks `GraphExecutor` for sessions; made by hand they work without it."""
        return settings.current().encoder_session

    def metal_command_buffer(self: Any) -> Any:
        """`ticket.mtl`: the stage's MTLCommandBuffer, or None once it is known to be done."""
        return self.ticket.mtl

    def add_to_residency_set(self: Any, buffer: Any) -> bool:
        """Stages a buffer into the device's set; False where there is none."""
        return bool(self._device.residency.add(buffer.allocation))

    def remove_from_residency_set(self: Any, buffer: Any) -> bool:
        """Stages a removal from the device's set; False where there is none."""
        return bool(self._device.residency.remove(buffer.allocation))


class TrackerSpellings:
    """Of `MemRanges`."""

    __slots__ = ()

    def len(self: Any) -> int:
        """`len(ranges)`: how many are live; one that is recorded twice counts twice, an empty one not at all."""
        return builtins.len(self)

    def is_empty(self: Any) -> bool:
        """`not ranges`: whether nothing is live."""
        return not self

"""The buffer pool: device memory in power-of-two blocks that are reused."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..errors import BufferAllocationError, InvalidArgument
from ..forks import Lock
from ..metal import Backend
from .allocation import Allocation
from .buffer import MlxBuffer
from .residency import Residency
from .shapes import exact_layout, whole

__all__ = ["MlxBufferPool", "PoolStatistics", "bucket_size"]


def bucket_size(nbytes: int) -> int:
    """Rounds up to a power of two.

    >>> [bucket_size(n) for n in (1, 3, 5, 1023, 1024, 1025)]
    [1, 4, 8, 1024, 1024, 2048]
    """
    return 1 << (nbytes - 1).bit_length()


class _Device(Protocol):
    """The members of a device that a pool uses."""

    backend: Backend
    residency: Residency

    def allocate(self, nbytes: int) -> Allocation: ...


@dataclass(frozen=True, kw_only=True)
class PoolStatistics:
    """Usage statistics of a pool; bytes count whole blocks.

    >>> pool = device.buffer_pool()
    >>> pool.release(pool.alloc(100, "u8", 100))
    >>> kept = pool.alloc(100, "u8", 100)
    >>> now = pool.statistics()
    >>> now.requested_bytes, now.in_use_bytes, now.reused, now.allocated
    (100, 128, 1, 1)
    """

    in_use_count: int
    in_use_bytes: int
    waiting_count: int
    waiting_bytes: int
    """Released, but possibly still used by the GPU or an array."""
    free_count: int
    free_bytes: int
    requested_bytes: int
    """Bytes that the buffers in use asked for."""
    peak_bytes: int
    """The maximum that the pool ever held."""
    reused: int
    allocated: int
    cap_bytes: int | None

    @property
    def held_bytes(self) -> int:
        return self.in_use_bytes + self.waiting_bytes + self.free_bytes


class MlxBufferPool:
    """Leases blocks of device memory to buffers; thread-safe.

    `release` returns one block, `reset` returns all. The buffer and its views are then invalid, and the block is reused
    once the GPU is done with it and no array over it is alive. New blocks are zero-filled; reused ones too, with
    `zero=True`.

    >>> pool = device.buffer_pool()
    >>> x = pool.alloc(100, "u8", 100)
    >>> x
    MlxBuffer(u8[100], 100 bytes at 0 of 128: 0, 0, 0, ..., 0)
    >>> pool.release(x)
    >>> pool.alloc(120, "f32", (5, 6)).span[1] == x.span[1], pool.in_use_count, pool.free_count
    (True, 1, 0)
    """

    def __init__(self, device: _Device, *, cap_bytes: int | None = None, zero: bool = False) -> None:
        self.device = device
        self._cap = None if cap_bytes is None else whole(cap_bytes, "cap_bytes", 1)
        self._zero = zero
        # Reentrant, because a finaliser that releases a buffer may run anywhere inside.
        self._lock = Lock()
        # Each block with its current buffer, in use or waiting for the GPU. One assignment changes the owner, so that
        # an exception cannot leave a block half assigned.
        self._blocks: dict[Allocation, MlxBuffer | None] = {}
        # Where to look first for a free block, by size; `_blocks` is authoritative.
        self._free: dict[int, list[Allocation]] = {}
        self._returned: dict[int, list[Allocation]] = {}
        self._held = self._peak = self._reused = self._allocated = 0

    # Allocation

    def alloc(self, byte_len: int, dtype: Any, shape: int | Sequence[int]) -> MlxBuffer:
        """A buffer of exactly `byte_len` bytes in a power-of-two block."""
        nbytes, kind, axes = exact_layout(byte_len, dtype, shape)
        block: Allocation | None = None
        try:
            with self._lock:
                block, fresh = self._take(bucket_size(nbytes))
                lease = Allocation(
                    block.mtl, block.address, block.nbytes, block.residency, memory=block.memory, owner=block
                )
                buffer = MlxBuffer(lease, kind, axes, 0, nbytes)
                if buffer.label:
                    buffer.label = ""
                self._blocks[block] = buffer
                self._count(block.nbytes, fresh)
            return buffer
        except BaseException:
            if block is not None and self._blocks.get(block) is not None:
                self._blocks[block] = None  # nobody got the buffer
            raise

    def alloc_batch(self, requests: Iterable[tuple[int, Any, int | Sequence[int]]]) -> list[MlxBuffer]:
        """A buffer for each `(byte_len, dtype, shape)`; all or none are allocated.

        >>> device.buffer_pool().alloc_batch([(8, "f32", 2), (2, "f16", ())])
        [MlxBuffer(f32[2], 8 bytes: 0, 0), MlxBuffer(f16[], 2 bytes: 0)]
        """
        buffers: list[MlxBuffer] = []
        with self._lock:
            try:
                for byte_len, dtype, shape in requests:
                    buffers.append(self.alloc(byte_len, dtype, shape))
            except BaseException:
                for buffer in buffers:
                    self.release(buffer)
                raise
        return buffers

    def release(self, buffer: MlxBuffer) -> None:
        """Returns a buffer; raises for views and for buffers that are not leased from this pool."""
        with self._lock:
            lent = self._lent(buffer.allocation)
            if lent is None:
                why = "is already released" if buffer.allocation.released else "does not come from this pool"
                raise InvalidArgument(f"{buffer!r} {why}")
            if (buffer.offset, buffer.nbytes) != (lent.offset, lent.nbytes):
                raise InvalidArgument(f"{buffer!r} is a part of {lent!r}; release that one")
            self._take_back(buffer.allocation)

    def reset(self) -> None:
        """Returns all leased buffers."""
        with self._lock:
            for buffer in self._in_use():
                self._take_back(buffer.allocation)

    def register_existing(self, buffer: MlxBuffer) -> bool:
        """Keeps a buffer of the same device resident, without taking ownership. False without a residency set."""
        if buffer.allocation.residency is not self.device.residency:
            raise InvalidArgument(f"{buffer!r} belongs to another device than {self.device!r}")
        return self.device.residency.add(buffer.allocation)

    # Retention

    def trim(self, keep_bytes: int = 0) -> int:
        """Frees unused blocks, largest first, until at most `keep_bytes` are unused; returns the bytes freed."""
        keep, freed = whole(keep_bytes, "keep_bytes"), 0
        with self._lock:
            free = sorted(self._settle(), key=lambda block: block.nbytes, reverse=True)
            surplus = sum(block.nbytes for block in free) - keep
            for block in free:
                if freed >= surplus:
                    break
                del self._blocks[block]
                freed += block.nbytes
            self._settle()
        return freed

    def clear(self) -> int:
        """Frees all unused blocks."""
        return self.trim(0)

    @property
    def free_count(self) -> int:
        return self.statistics().free_count

    @property
    def free_bytes(self) -> int:
        return self.statistics().free_bytes

    @property
    def in_use_count(self) -> int:
        return len(self._in_use())

    def statistics(self) -> PoolStatistics:
        """Current usage statistics."""
        with self._lock:
            free, lent = [block.nbytes for block in self._settle()], self._in_use()
            waiting = [
                each.allocation.nbytes
                for each in self._blocks.values()
                if each is not None and each.allocation.released
            ]
            return PoolStatistics(
                in_use_count=len(lent),
                in_use_bytes=sum(buffer.allocation.nbytes for buffer in lent),
                waiting_count=len(waiting),
                waiting_bytes=sum(waiting),
                free_count=len(free),
                free_bytes=sum(free),
                requested_bytes=sum(buffer.nbytes for buffer in lent),
                peak_bytes=self._peak,
                reused=self._reused,
                allocated=self._allocated,
                cap_bytes=self._cap,
            )

    def __repr__(self) -> str:
        now = self.statistics()
        return f"MlxBufferPool({now.in_use_count} in use, {now.waiting_count} waiting, {now.free_count} free)"

    # Blocks

    def _take(self, size: int) -> tuple[Allocation, bool]:
        """A free block, and whether it is new."""
        block = self._free_block(size)
        if block is not None:
            if self._zero:
                ctypes.memset(block.address, 0, size)
            elif self.device.backend.forget is not None:
                self.device.backend.forget(block.mtl)
            return block, False
        self._make_room(size)
        try:
            block = self.device.allocate(size)
        except BufferAllocationError:
            # Free blocks of other sizes may be enough.
            if not self.trim():
                raise
            self.device.residency.flush()
            block = self.device.allocate(size)
        ctypes.memset(block.address, 0, size)
        return block, True

    def _free_block(self, size: int) -> Allocation | None:
        free = self._free.get(size, [])
        while free:
            block = free.pop()
            if block in self._blocks and self._blocks[block] is None:
                return block
        returned = self._returned.get(size, [])
        for at, block in enumerate(returned):
            if self._is_free(block):
                del returned[at]
                return block
        return None

    def _is_free(self, block: Allocation) -> bool:
        """Whether neither a caller, the GPU nor an array uses the block."""
        buffer = self._blocks.get(block)
        lease = buffer.allocation if buffer is not None else None
        if lease is not None and lease.released and not lease.is_busy() and not lease.is_exported():
            self._blocks[block] = lease = None
        return lease is None and block in self._blocks

    def _count(self, size: int, fresh: bool) -> None:
        self._allocated += fresh
        self._reused += not fresh
        self._held += size if fresh else 0
        self._peak = max(self._peak, self._held)

    def _make_room(self, size: int) -> None:
        if self._cap is None or self._held + size <= self._cap:
            return
        now = self.statistics()
        self.trim(max(0, now.free_bytes - (self._held + size - self._cap)))
        if self._held + size > self._cap:
            raise BufferAllocationError(size, f"the pool is capped at {self._cap} bytes and {self._held} are in use")

    def _lent(self, lease: Allocation) -> MlxBuffer | None:
        buffer = self._blocks.get(lease.root)
        return buffer if buffer is not None and buffer.allocation is lease and not lease.released else None

    def _in_use(self) -> list[MlxBuffer]:
        return [each for each in list(self._blocks.values()) if each is not None and not each.allocation.released]

    def _take_back(self, lease: Allocation) -> None:
        lease.release()
        self._returned.setdefault(lease.nbytes, []).append(lease.root)

    def _settle(self) -> list[Allocation]:
        """Updates and returns the free blocks, including any that an interrupted call left out."""
        free = [block for block in list(self._blocks) if self._is_free(block)]
        sizes: dict[int, list[Allocation]] = {}
        for block in free:
            sizes.setdefault(block.nbytes, []).append(block)
        self._free = sizes
        self._held = sum(block.nbytes for block in self._blocks)
        waiting: dict[int, list[Allocation]] = {}
        for block, buffer in self._blocks.items():
            if buffer is not None and buffer.allocation.released:
                waiting.setdefault(block.nbytes, []).append(block)
        self._returned = waiting
        return free

"""Rendezvous before a collective: MPI would wait forever for a missing rank, and does not compare the calls.

Each rank writes the number of its call and a checksum of its arguments to memory shared by all ranks of the machine.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from typing import Any

from ..errors import CollectiveTimeout, DistributedError
from .mpi import mpi

__all__ = ["Call", "SharedMemoryRendezvous"]

_WORDS = 64  # 8-byte words per rank: two of arrival, its process ID, and two texts
_PROCESS, _TEXT, _TEXT_WORDS = 2, 3, 30
_CHECK_BITS = 24
_SPINS = range(300)  # polls without a pause: about as long as a small reduction takes
_FIRST_NAP, _LONGEST_NAP = 0.0, 0.001
_CHECK_ALIVE_SECONDS = 0.1  # seconds between checks that other ranks are alive


class Call:
    """A collective call, which must be the same on all ranks."""

    __slots__ = ("check", "text")

    def __init__(self, name: str, detail: str = "") -> None:
        self.text = f"{name}({detail})"
        self.check = zlib.crc32(self.text.encode()) >> (32 - _CHECK_BITS)


class SharedMemoryRendezvous:
    """The rendezvous of ranks on one machine, through shared memory.

    A rank writes its n-th arrival to word n mod 2 of its slot, and continues once all others have the same value there.
    A rank can be at most one call ahead, so two words suffice.
    """

    def __init__(self, memory: mmap.mmap, rank: int, size: int) -> None:
        self._bytes = memoryview(memory)
        self._words = self._bytes.cast("Q")
        self._base = rank * _WORDS
        self._others = [other * _WORDS for other in range(size) if other != rank]
        self._count = 0
        self._spins = _SPINS
        self.timeout = 0.0
        """Seconds that a rank waits for the others."""
        self._sees_processes = False

    @classmethod
    def shared_by(cls, comm: Any, *, patient: bool) -> SharedMemoryRendezvous | None:
        """The rendezvous of all ranks of `comm`; None if they are on several machines. `patient` ranks sleep instead of
        spinning."""
        here = comm.Split_type(mpi().COMM_TYPE_SHARED)
        alone, here_size = here.size != comm.size, here.size
        here.Free()
        if comm.allreduce(alone, mpi().LOR):
            return None
        path = ""
        if comm.rank == 0:
            handle, path = tempfile.mkstemp(prefix="mlx-native-ranks-")
            os.truncate(handle, here_size * _WORDS * 8)
            os.close(handle)
        path = comm.bcast(path)
        with open(path, "r+b") as file:
            rendezvous = cls(mmap.mmap(file.fileno(), 0), comm.rank, comm.size)
        rendezvous._spins = range(0) if patient else _SPINS
        rendezvous._words[rendezvous._base + _PROCESS] = os.getpid()
        comm.Barrier()
        if comm.rank == 0:
            os.unlink(path)
        rendezvous._sees_processes = not list(rendezvous._ended())
        return rendezvous

    def meet(self, call: Call) -> None:
        """Waits until all ranks have made the same call."""
        self._count = count = self._count + 1
        word = count << _CHECK_BITS | call.check
        words, parity = self._words, count & 1
        words[self._base + parity] = word
        for other in self._others:
            at = other + parity
            if words[at] != word:
                for _ in self._spins:
                    if words[at] == word:
                        break
                else:
                    self._wait(call, word)
                    return

    def _wait(self, call: Call, word: int) -> None:
        """Polls with increasing sleeps, since a late rank may need the processor."""
        words, parity = self._words, self._count & 1
        missing, nap = self._others, _FIRST_NAP
        start = looked = time.monotonic()
        while True:
            for other in missing:
                there = words[other + parity]
                if there != word and there >> _CHECK_BITS == self._count:
                    raise self._disagreement(call)
            missing = [other for other in missing if words[other + parity] != word]
            if not missing:
                return
            now = time.monotonic()
            if now - looked > _CHECK_ALIVE_SECONDS:
                looked = now
                self.require_alive(call.text)
            if now - start > self.timeout:
                raise self._late(call, missing)
            time.sleep(nap)
            nap = min(nap * 1.2 + 1e-6, _LONGEST_NAP)

    def _ended(self) -> Iterator[tuple[int, int]]:
        """Rank and process id of processes that have ended."""
        for other in self._others:
            process = self._words[other + _PROCESS]
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                yield other // _WORDS, process
            except PermissionError:
                pass

    def require_alive(self, what: str) -> None:
        """Raises if a rank's process has ended."""
        ended = list(self._ended()) if self._sees_processes else []
        if ended:
            names = ", ".join(f"rank {rank} (process {process})" for rank, process in ended)
            raise DistributedError(f"{what} cannot be done: {names} has ended")

    def _late(self, call: Call, missing: list[int]) -> CollectiveTimeout:
        ranks = tuple(other // _WORDS for other in missing)
        here = [other // _WORDS for other in (self._base, *self._others) if other not in missing]
        return CollectiveTimeout(call.text, self.timeout, ranks, tuple(sorted(here)))

    def _disagreement(self, call: Call) -> DistributedError:
        """The error for different calls; each rank publishes its own call and waits for the others'."""
        self._say(call.text)
        everyone, until = sorted((self._base, *self._others)), time.monotonic() + self.timeout
        while not all(texts := [self._said(base) for base in everyone]) and time.monotonic() < until:
            self.require_alive(call.text)
            time.sleep(_LONGEST_NAP)
        calls = "; ".join(f"rank {rank}: {text or 'has not come'}" for rank, text in enumerate(texts))
        return DistributedError(f"the ranks made different calls: {calls}")

    def _text_at(self, base: int) -> int:
        return base + _TEXT + _TEXT_WORDS * (self._count & 1)

    def _say(self, text: str) -> None:
        at = self._text_at(self._base)
        encoded = text.encode()[: (_TEXT_WORDS - 1) * 8]
        self._bytes[at * 8 + 8 : at * 8 + 8 + len(encoded)] = encoded
        # The length is written last, since other ranks poll it.
        self._words[at] = self._count << 16 | len(encoded)

    def _said(self, base: int) -> str:
        at = self._text_at(base)
        head = self._words[at]
        if head >> 16 != self._count:
            return ""
        return bytes(self._bytes[at * 8 + 8 : at * 8 + 8 + (head & 0xFFFF)]).decode(errors="replace")

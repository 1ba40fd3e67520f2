"""Rendezvous before a collective for groups on several machines, by messages."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..errors import CollectiveTimeout, DistributedError
from .mpi import call as told
from .mpi import mpi
from .rendezvous import Call

__all__ = ["MessageRendezvous"]

_SPINS, _NAP = 2000, 0.0002
_HEARTBEAT_SHARE = 0.25  # share of the timeout after which a waiting rank reports that it is alive


class MessageRendezvous:
    """A small reduction before each collective, which also compares the calls."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm.Dup()
        self._size: int = comm.size
        self._rank: int = comm.rank
        self._count = 0
        self._sent: list[Any] = []
        self.timeout = 0.0
        """Seconds that a rank waits for the others."""

    def meet(self, call: Call) -> None:
        """Waits until all ranks have made the same call."""
        self._count += 1
        # The largest and the smallest in one reduction.
        checks = np.array([call.check, -call.check], np.int64)
        self._wait(told(self._comm.Iallreduce, mpi().IN_PLACE, checks, mpi().MAX), call)
        if checks[0] != -checks[1]:
            texts = told(self._comm.allgather, call.text)
            calls = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
            raise DistributedError(f"the ranks made different calls: {calls}")

    def require_alive(self, what: str) -> None:
        """Does nothing: processes on other machines are unknown, and the launcher ends a job that lost one."""

    def _wait(self, request: Any, call: Call) -> None:
        start, spins, is_told = time.monotonic(), 0, False
        while not told(request.Test):
            spins += 1
            if spins < _SPINS:
                continue
            waited = time.monotonic() - start
            if waited > self.timeout:
                here = self._here()
                missing = tuple(rank for rank in range(self._size) if rank not in here)
                raise CollectiveTimeout(call.text, self.timeout, missing, tuple(sorted(here)))
            if waited > self.timeout * _HEARTBEAT_SHARE and not is_told:
                is_told = True
                self._tell()
            time.sleep(_NAP)

    def _tell(self) -> None:
        """Tells all other ranks which call this rank waits at; only after a long wait."""
        self._sent = [each for each in self._sent if not each[0].Test()]
        for rank in range(self._size):
            if rank != self._rank:
                number = np.array([self._count], np.int64)
                self._sent.append((told(self._comm.Isend, number, rank), number))

    def _here(self) -> set[int]:
        """The ranks that have reported waiting at this call, including this one."""
        here, status, number = {self._rank}, mpi().Status(), np.zeros(1, np.int64)
        while told(self._comm.Iprobe, mpi().ANY_SOURCE, mpi().ANY_TAG, status):
            told(self._comm.Recv, number, status.Get_source(), status.Get_tag())
            if number[0] == self._count:
                here.add(status.Get_source())
        return here

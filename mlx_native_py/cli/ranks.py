"""Shared parts of commands on several ranks: standard input and profiles."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from ..distributed import Group
from ..distributed.mpi import mpi
from ..errors import InvalidArgument
from ..profiling.at_exit import print_tables
from ..profiling.profile import Profile, profile
from ..profiling.trace import merged
from .table import print_table

__all__ = ["ranks_profiled", "text_of_first_rank"]


def text_of_first_rank(group: Group, read: Callable[[], str]) -> str:
    """What rank 0 reads, on all ranks, since only rank 0 has standard input."""
    if group.size > 1 and mpi().get_vendor()[0] == "Open MPI":
        raise InvalidArgument(
            "- cannot be read here: Open MPI's mpiexec does not pass the end of its standard input on; "
            "use mlx-native launch, or give the text as an argument"
        )
    text: str = group.gather_objects(read() if group.rank == 0 else "")[0]
    return text


@contextmanager
def ranks_profiled(chosen: argparse.Namespace, group: Group, out: TextIO) -> Iterator[None]:
    """Profiles the block on every rank, if `--profile` or `--trace` asks for it; rank 0 prints the tables."""
    if not (chosen.profile or chosen.trace):
        yield
        return
    with profile("dispatch" if chosen.profile else "cb") as own:
        yield
    if chosen.profile and group.rank == 0:
        print_tables(own, out)
    if chosen.profile and group.size > 1:
        _print_times(own, group, out)
    if chosen.trace:
        _write_trace(own, group, chosen.trace)


def _print_times(own: Profile, group: Group, out: TextIO) -> None:
    """Communication includes waiting for late ranks."""
    gpu = sum(record.gpu_ns for record in own.records)
    spans = [span for span in own.spans if span.track == "MPI"]
    took, nbytes = sum(span.end_ns - span.start_ns for span in spans), sum(span.args["bytes"] for span in spans)
    each_rank = group.gather_objects((gpu, took, len(spans), nbytes, own.ended_ns - own.started_ns))
    if group.rank:
        return
    rows = [
        (str(rank), f"{gpu / 1e6:.3f}", f"{took / 1e6:.3f}", f"{count:,}", f"{nbytes:,}", f"{whole / 1e6:.3f}")
        for rank, (gpu, took, count, nbytes, whole) in enumerate(each_rank)
    ]
    print(file=out)
    print_table(("rank", "GPU ms", "communication ms", "calls", "bytes", "all ms"), rows, file=out)


def _write_trace(own: Profile, group: Group, path: str) -> None:
    name = f"rank {group.rank} of {group.size}" if group.size > 1 else "mlx-native generate"
    tables = group.gather_objects(own.trace(rank=group.rank, process=name).as_dict())
    if group.rank == 0:
        Path(path).write_text(json.dumps(merged(tables), separators=(",", ":")))

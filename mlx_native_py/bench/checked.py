"""`mlx-native bench checked`: the cost of checked mode per op, on the same engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from .. import settings
from ..device import MlxDevice
from .harness import Measured, measuring, options, report
from .ops import inputs_on, run_work
from .ops_works import WORKS, OpWork

__all__ = ["CheckedRow", "main", "measure"]

LIMIT = 20
"""How many times slower a checked kernel may be."""
_MAX_SECONDS = 2.0  # seconds of CPU time after which a workload is not repeated


@dataclass(frozen=True)
class CheckedRow(Measured):
    """One workload, in milliseconds of CPU time on one core."""

    work: str
    plain_ms: float
    checked_ms: float

    @property
    def ratio(self) -> float:
        return self.checked_ms / self.plain_ms


def _opened(checked: bool) -> MlxDevice:
    """Both on fibers, the engine of checked mode."""
    with settings.override(soft_engine="fibers", soft_threads=1, soft_checked=checked, soft_timeout=600.0):
        return MlxDevice("soft")


def _milliseconds(work: OpWork, device: MlxDevice, rounds: int) -> float:
    inputs = inputs_on(device, work.arrays())
    run_work(work, device, inputs, {})
    taken: list[float] = []
    while len(taken) < rounds and sum(taken) < _MAX_SECONDS:
        start = time.process_time()
        run_work(work, device, inputs, {})
        taken.append(time.process_time() - start)
    return min(taken) * 1e3


def measure(rounds: int, only: str = "") -> list[CheckedRow]:
    """The workloads whose name or op contains `only`."""
    rows = []
    with _opened(False) as plain, _opened(True) as checked:
        for work in (work for work in WORKS if only in work.name or only == work.op):
            measuring(work.name)
            times = _milliseconds(work, plain, rounds), _milliseconds(work, checked, rounds)
            met = times[1] <= LIMIT * times[0]
            rows.append(CheckedRow(work.name, *times, bar=f"{LIMIT} x at most", passed=met))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    parser = options("checked", __doc__)
    parser.add_argument("--only", default="", help="works of this op, or with this in their name")
    chosen = parser.parse_args(argv)
    columns = {
        "work": lambda row: row.work,
        "plain ms": lambda row: row.plain_ms,
        "checked ms": lambda row: row.checked_ms,
        "times": lambda row: row.ratio,
    }
    title = "CPU time on one core, fibers without and with checks, least of some runs"
    return report(chosen, title, measure(chosen.rounds, chosen.only), columns)

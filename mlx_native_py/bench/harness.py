"""Shared parts of the benchmarks: medians, optional peers, the command line and tables."""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..table import Table

__all__ = ["Measured", "library", "measuring", "median_seconds", "medians_in_turns", "options", "report", "settle"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A row of a benchmark table; its bar, if any, and whether it is met."""

    bar: str = ""
    passed: bool | None = None


_LOOKS, _LOOK_SECONDS, _IDLE = 100, 0.01, 0.1


def settle() -> None:
    """Waits until this process is idle, at most a second: BLAS threads spin long after a call."""
    for _ in range(_LOOKS):
        before = time.process_time()
        time.sleep(_LOOK_SECONDS)
        if time.process_time() - before < _IDLE * _LOOK_SECONDS:
            return


def median_seconds(work: Callable[[], object], rounds: int) -> float:
    """The median wall time of `work` once the process is idle, after a warm-up round."""
    settle()
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


_TURN = 5  # rounds of one alternative before the next one


def medians_in_turns(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median wall time of each alternative over as many rounds. They take turns, so that whatever else the machine
    does affects all of them; each turn begins when the process is idle, with a round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for begun in range(0, rounds, _TURN):
        for name, work in ways.items():
            settle()
            work()
            for _ in range(min(_TURN, rounds - begun)):
                start = time.perf_counter()
                work()
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(each) for name, each in times.items()}


def measuring(what: str) -> None:
    """Shows what is being measured, on one line of a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


def library(name: str) -> Any:
    """An optional library, with MLX set to its CPU; None if it is not installed."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return None
    if name == "mlx.core":
        module.set_default_device(module.cpu)
    return module


def options(bench: str, description: str | None, *, rounds: bool = True) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    parser = argparse.ArgumentParser(prog=f"mlx-native bench {bench}", description=description)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--bars", action="store_true", help="show the limits that this project sets itself")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where such a limit is not met")
    if rounds:
        parser.add_argument("--rounds", type=int, default=7, help="runs per median (default: 7)")
    return parser


def report(
    chosen: argparse.Namespace,
    title: str,
    rows: Sequence[Any],
    columns: Mapping[str, Callable[[Any], str | float | None]],
) -> int:
    """Prints the rows as a table or JSON; returns the exit code: 1 if a bar is missed and `--strict` was given."""
    measuring("")
    if chosen.json:
        json.dump({"title": title, "how": "measured", "rows": [asdict(row) for row in rows]}, sys.stdout, indent=1)
        print()
    else:
        _print(title, rows, columns, bars=chosen.bars or chosen.strict)
    return int(chosen.strict and any(row.passed is False for row in rows))


def _print(
    title: str, rows: Sequence[Any], columns: Mapping[str, Callable[[Any], str | float | None]], *, bars: bool
) -> None:
    head, cells = list(columns), [[_cell(of(row)) for of in columns.values()] for row in rows]
    if bars:
        verdicts = {None: "", True: "  met", False: "  NOT MET"}
        cells = [[*line, f"{row.bar}{verdicts[row.passed]}"] for line, row in zip(cells, rows, strict=True)]
        head.append("bar")
    print(Table(title, head, cells, words=(head[0], "bar")).text())


def _cell(value: str | float | None) -> str:
    return "-" if value is None else value if isinstance(value, str) else f"{value:.2f}"

"""`mlx-native bench SUBJECT`: runs a benchmark."""

from __future__ import annotations

import argparse
from importlib import import_module

__all__ = ["options", "run"]

_SUBJECTS = {
    "soft": "the software device's engines against numpy, MLX and PoCL",
    "ops": "the ops against MLX, torch and numpy",
    "matvec": "one row by a matrix in every weight format, against the speed of memory",
    "checked": "what checked mode costs, op by op",
    "calls": "a tiny kernel run and waited for, against PyOpenCL on PoCL",
    "encode": "what a dispatch costs in Python",
    "decode": "tokens a second of a model",
    "parallel": "tokens a second of a model over ranks, beside predictions; after mlx-native launch -n 2",
    "distributed": "an all_sum of ranks beside mpi4py's own call; after mlx-native launch -n 2",
}


def options(command: argparse.ArgumentParser) -> None:
    meaning = "; ".join(f"{name}: {purpose}" for name, purpose in _SUBJECTS.items())
    command.add_argument("subject", choices=tuple(_SUBJECTS), help=meaning)
    command.add_argument("options", nargs=argparse.REMAINDER, help="of the subject; --help after it lists them")


def run(chosen: argparse.Namespace) -> int:
    return int(import_module(f"..bench.{chosen.subject}", __package__).main(chosen.options))

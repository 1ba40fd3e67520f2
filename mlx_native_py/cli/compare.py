"""`mlx-native compare`: compares two saved profiles."""

from __future__ import annotations

import argparse
from typing import get_args

from ..profiling.profile import load_profile
from ..profiling.summary import By
from .table import print_json

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    meaning = "a profile saved by `mlx-native profile --save` or by p.save()"
    command.add_argument("before", help=meaning)
    command.add_argument("after", help=meaning)
    command.add_argument("--by", choices=get_args(By), help="what to compare (default: what was measured)")
    command.add_argument("--fail", action="store_true", help="exit with status 1 where something got slower")
    command.add_argument("--json", action="store_true", help="print a list of objects")


def run(chosen: argparse.Namespace) -> int:
    comparison = load_profile(chosen.before).compare(load_profile(chosen.after), chosen.by)
    if chosen.json:
        print_json(comparison.to_records())
    else:
        print(comparison)
    return 1 if chosen.fail and comparison.slower else 0

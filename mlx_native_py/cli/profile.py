"""`mlx-native profile`: profiles a Python script."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import redirect_stdout
from typing import get_args

from ..profiling.profile import Level, Profile, load_profile, profile
from ..profiling.summary import SORTS, By
from .script import run_script
from .table import print_json

__all__ = ["options", "run"]

_ROWS = 30


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("script", help="a Python file")
    command.add_argument("--args", default="", metavar="TEXT", help="the script's own arguments, in one pair of quotes")
    command.add_argument("--level", choices=get_args(Level), default="dispatch", help="what to time (%(default)s)")
    command.add_argument("--by", choices=get_args(By), default="kernel", help="rows of the table (%(default)s)")
    command.add_argument("--sort", choices=list(SORTS), default="gpu", help="order of the rows (%(default)s)")
    command.add_argument("--save", metavar="FILE", help="write the profile, for `mlx-native compare`")
    command.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto, chrome://tracing and speedscope")
    command.add_argument("--html", metavar="FILE", help="write a report for a browser, all in one file")
    command.add_argument("--against", metavar="FILE", help="of --html: a saved profile to compare with")
    command.add_argument("--json", action="store_true", help="print the profile as JSON; the script prints to stderr")


def run(chosen: argparse.Namespace) -> int:
    with profile(chosen.level) as profiled, redirect_stdout(sys.stderr if chosen.json else sys.stdout):
        status = run_script(chosen.script, shlex.split(chosen.args))
    _hand_out(profiled, chosen)
    return status


def _hand_out(profiled: Profile, chosen: argparse.Namespace) -> None:
    if chosen.save:
        profiled.save(chosen.save)
    if chosen.html:
        earlier = load_profile(chosen.against) if chosen.against else None
        profiled.report(chosen.html, compare_with=earlier, title=chosen.script)
    if chosen.trace:
        profiled.trace(chosen.trace)
    for written in filter(None, (chosen.save, chosen.html, chosen.trace)):
        print(f"wrote {written}", file=sys.stderr)
    if chosen.json:
        print_json(profiled.as_dict())
    elif profiled.records:
        print(f"\n{profiled.table(chosen.by, chosen.sort, limit=_ROWS)}")
    else:
        print("nothing was committed to a device, so there is nothing to show")

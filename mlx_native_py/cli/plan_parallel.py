"""`mlx-native plan-parallel`: estimates the time per token of a model on several ranks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from math import inf

from ..errors import InvalidArgument
from ..models import model_path
from ..models.loading import open_model
from ..parallel.time_model import Estimate, Machine, estimate
from .table import print_table

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model", help="a path, smollm2, or OWNER/NAME on the Hugging Face hub; only its header is read"
    )
    command.add_argument("--ranks", type=_count, nargs="+", default=[2, 4], metavar="N", help="(default: 2 4)")
    command.add_argument(
        "--bandwidth",
        type=_positive,
        default=100.0,
        metavar="GB/S",
        help="at which a rank reads weights: bytes of the model x tokens/s of one process (default: %(default)s)",
    )
    command.add_argument(
        "--rate",
        type=_positive,
        default=inf,
        metavar="G/S",
        help="billions of weights a second that a rank multiplies, for processors slower than their memory "
        "(default: no limit)",
    )
    command.add_argument(
        "--link", type=_positive, default=2.0, metavar="GB/S", help="between two ranks (default: %(default)s)"
    )
    command.add_argument(
        "--latency",
        type=_positive,
        default=50.0,
        metavar="US",
        help="of a sum over the ranks, with the command buffer before it, in microseconds (default: %(default)s)",
    )
    command.add_argument("--json", action="store_true", help="print the estimates as JSON, in bytes and seconds")


def run(chosen: argparse.Namespace) -> int:
    """Prints a row for one process and for each strategy and number of ranks."""
    opened = open_model(model_path(chosen.model))
    machine = Machine(chosen.bandwidth * 1e9, chosen.link * 1e9, chosen.latency * 1e-6, chosen.rate * 1e9)
    one = estimate(opened, 1, "tensor", machine)
    estimates, refusals = [one], []
    for ranks in sorted({*chosen.ranks} - {1}):
        for way in ("tensor", "pipeline"):
            try:
                estimates.append(estimate(opened, ranks, way, machine))
            except InvalidArgument as refusal:
                refusals.append(f"{ranks} ranks, {way}: {refusal}")
    if chosen.json:
        print(json.dumps({"estimates": [asdict(each) for each in estimates], "refused": refusals}))
        return 0
    rows = [_row(each, one.token) for each in estimates]
    print_table(("ranks", "way", "weights of a rank", "token ms", "of it exchange", "tokens/s", "in flight"), rows)
    for each in refusals:
        print(each)
    return 0


def _row(estimate: Estimate, alone: float) -> tuple[str, ...]:
    return (
        str(estimate.ranks),
        estimate.way,
        f"{max(estimate.nbytes) / 1e6:,.1f} MB",
        f"{estimate.token * 1e3:.2f}",
        f"{estimate.communication / estimate.token:.0%}",
        f"{1 / estimate.token:.1f} ({alone / estimate.token:.2f} x)",
        f"{1 / estimate.between:.1f} ({alone / estimate.between:.2f} x)",
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number of ranks from 1")
    return int(text)


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}, expected a number above 0")
    return value

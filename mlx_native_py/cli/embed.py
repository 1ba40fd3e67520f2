"""`mlx-native embed`: texts as vectors."""

from __future__ import annotations

import argparse
import json
import sys

from ..models import embed, load
from .generate import MODEL

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("text", nargs="+", help="the texts; - reads one from standard input")
    command.add_argument("--model", default="minilm", help=MODEL)
    command.add_argument("--json", action="store_true", help="print a list of vectors")


def run(chosen: argparse.Namespace) -> int:
    """Prints a vector for each text."""
    texts = [sys.stdin.read() if text == "-" else text for text in chosen.text]
    vectors = embed(*load(chosen.model), texts)
    if chosen.json:
        print(json.dumps(vectors.tolist()))
        return 0
    for vector in vectors:
        print(" ".join(f"{value:.7f}" for value in vector))
    return 0

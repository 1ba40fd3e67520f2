"""`mlx-native embed`: computes text embeddings."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

from ..distributed import init
from ..errors import InvalidArgument
from ..models import embed, load
from .generate import MODEL
from .ranks import text_of_first_rank

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "text", nargs="+", help="the texts, or one file with a text on each line; - reads one from standard input"
    )
    command.add_argument("--model", default="minilm", help=MODEL)
    command.add_argument("--json", action="store_true", help="print a list of vectors")


def run(chosen: argparse.Namespace) -> int:
    """Prints a vector per text; ranks share the texts, and rank 0 prints them in order."""
    group = init()
    texts = _texts(chosen.text, lambda: text_of_first_rank(group, sys.stdin.read))
    group.agree("what there is to embed", hashlib.sha256("\n".join(texts).encode()).hexdigest())
    mine = range(len(texts) * group.rank // group.size, len(texts) * (group.rank + 1) // group.size)
    vectors = embed(*load(chosen.model), [texts[at] for at in mine]).tolist() if mine else []
    gathered = [vector for part in group.gather_objects(vectors) for vector in part]
    if group.rank:
        return 0
    if chosen.json:
        print(json.dumps(gathered))
        return 0
    for vector in gathered:
        print(" ".join(f"{value:.7f}" for value in vector))
    return 0


def _texts(given: list[str], standard_input: Callable[[], str]) -> list[str]:
    """The texts given, with standard input for a -, or the lines of a single file."""
    if "-" in given:
        texts = [standard_input() if text == "-" else text for text in given]
        if not all(text.strip() for text in texts):
            raise InvalidArgument("standard input contains no text")
        return texts
    if len(given) > 1 or not Path(given[0]).is_file():
        return given
    lines = Path(given[0]).read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise InvalidArgument(f"{given[0]} contains no text; expected one text per line")
    return texts

"""`mlx-native ops`: lists the ops."""

from __future__ import annotations

import argparse

from ..report import fn_stub, ops_table
from .table import print_json, print_table

__all__ = ["options", "run"]

_COLUMNS = ("family", "op", "types", "formula")


def options(command: argparse.ArgumentParser) -> None:
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a list of objects")
    form.add_argument("--markdown", action="store_true", help="print the page docs/ops.md")
    form.add_argument("--stub", action="store_true", help="print the stub mlx_native_py/fn/derived.pyi")


def run(chosen: argparse.Namespace) -> int:
    if chosen.stub:
        print(fn_stub.stub(), end="")
    elif chosen.markdown:
        print(ops_table.markdown(), end="")
    elif chosen.json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in ops_table.rows()])
    else:
        print_table(_COLUMNS, ops_table.rows())
    return 0

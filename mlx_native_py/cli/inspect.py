"""`mlx-native inspect FILE.metal`: how kernels use memory, line by line."""

from __future__ import annotations

import argparse

from ..calls.inspection import NOTE, Inspection
from ..device import MlxDevice
from .arguments import parse_sizes
from .kernel_launch import add_source_options, chosen_kernel, library_of
from .table import print_json, print_table

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="a file with MSL source")
    command.add_argument("--kernel", metavar="K", help="which kernel of the file; all by default")
    command.add_argument("--group", metavar="N", help="threads of a threadgroup, such as 256 or 16x16 (default: 256)")
    add_source_options(command)
    command.add_argument("--json", action="store_true", help="print it as JSON")


def run(chosen: argparse.Namespace) -> int:
    group = parse_sizes(chosen.group, "--group") if chosen.group else None
    with MlxDevice("soft") as device:
        library = library_of(device, chosen.file, chosen)
        names = [chosen_kernel(library, chosen.kernel, chosen.file).name] if chosen.kernel else list(library)
        found = [library[name].inspect(group) for name in names]
    if chosen.json:
        print_json([each.to_dict() for each in found])
        return 0
    for each in found:
        _show(each)
    print(NOTE)
    return 0


def _show(found: Inspection) -> None:
    print("\n".join(found.facts()))
    rows = [
        (
            str(each.line),
            each.source,
            each.kind,
            each.argument or "-",
            str(each.nbytes),
            each.pattern,
            "-" if each.stride is None else str(each.stride),
            str(each.conflicts) if each.argument == "threadgroup" else "-",
        )
        for each in found.accesses
    ]
    if rows:
        print_table(("line", "source", "access", "of", "bytes", "pattern", "stride", "threads on a bank"), rows)
    print()

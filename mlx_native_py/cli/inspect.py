"""`mlx-native inspect FILE.metal`: shows memory access per line, and counts what a launch does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..calls.inspection import COUNTED, NOTE, Inspection
from ..calls.library import Library
from ..device import MlxDevice
from .arguments import parse_sizes
from .kernel_launch import add_launch_options, chosen_kernel, launch_from, library_of
from .table import print_json, print_table

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="a file with MSL source")
    add_launch_options(command)
    command.add_argument("--json", action="store_true", help="print it as JSON")


def run(chosen: argparse.Namespace) -> int:
    with MlxDevice("soft") as device:
        library = library_of(device, chosen.file, chosen)
        inspections = list(_inspected(chosen, library, device))
    if chosen.json:
        print_json([each.to_dict() for each in inspections])
        return 0
    for each in inspections:
        _show(each)
    print(NOTE)
    if any(each.measured for each in inspections):
        print(COUNTED)
    else:
        print("to count what a launch does, line by line, describe it with --arg and --threads")
    return 0


def _inspected(chosen: argparse.Namespace, library: Library, device: MlxDevice) -> Iterator[Inspection]:
    if chosen.arg or chosen.threads or chosen.threadgroups:
        launch = launch_from(chosen, chosen_kernel(library, chosen.kernel, chosen.file), device)
        yield launch.kernel.inspect(*launch.values, **launch.sizes)
        return
    group = parse_sizes(chosen.group, "--group") if chosen.group else None
    names = [chosen_kernel(library, chosen.kernel, chosen.file).name] if chosen.kernel else list(library)
    for name in names:
        yield library[name].inspect(group=group)


def _show(inspection: Inspection) -> None:
    print("\n".join(inspection.facts()))
    rows = [
        (
            each.place,
            each.source,
            each.kind,
            each.argument or "-",
            str(each.nbytes),
            each.pattern,
            "-" if each.stride is None else str(each.stride),
            str(each.conflicts) if each.argument == "threadgroup" else "-",
        )
        for each in inspection.accesses
    ]
    if inspection.measured:
        head, *lines = inspection.listing()
        print_table(head, lines)
    elif rows:
        print_table(("line", "source", "access", "of", "bytes", "pattern", "stride", "threads on a bank"), rows)
    print()

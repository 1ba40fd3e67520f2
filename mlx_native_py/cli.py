"""The command `mlx-native`: what the device is, whether all is well, which ops there are, and how fast they run."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import fields

from .errors import MlxError
from .metal import open_metal

__all__ = ["main"]

_BENCHES = ("soft", "ops", "encode")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["bench"] and arguments[1:2] and arguments[1] in _BENCHES:
        return _bench(arguments[1], arguments[2:])
    parser = argparse.ArgumentParser(prog="mlx-native", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in (
        ("info", "print the device, its limits and what it can do"),
        ("doctor", "check PyObjC, the compiler, the cache folder and a kernel's result, and say what to do"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.add_argument("--device", choices=("auto", "metal", "soft"), help="instead of MLX_NATIVE_DEVICE")
    bench = commands.add_parser("bench", help="measure the device", description="measure the device")
    bench.add_argument("subject", choices=_BENCHES)
    listing = commands.add_parser("ops", help="list the ops", description="list the ops")
    listing.add_argument("--markdown", action="store_true", help="as the page docs/ops.md")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "ops":
            return _ops(chosen.markdown)
        return _info(chosen.device) if chosen.command == "info" else _doctor(chosen.device)
    except MlxError as error:
        print(f"mlx-native: {error}", file=sys.stderr)
        return 1


def _info(device: str | None) -> int:
    door = open_metal(device)  # type: ignore[arg-type]  # argparse has checked it
    found = door.capabilities(door.default_device())
    rows = [("kind", door.kind)] + [(f.name.replace("_", " "), _text(getattr(found, f.name))) for f in fields(found)]
    if door.declined:
        rows.append(("Apple's Metal", f"not used: {door.declined}"))
    _print_table(("property", "value"), rows)
    return 0


def _doctor(device: str | None) -> int:
    from .doctor import examine

    findings = examine(device)  # type: ignore[arg-type]  # argparse has checked it
    _print_table(("check", "state", "detail"), [(f.subject, "ok" if f.good else "FAULT", f.detail) for f in findings])
    advice = [f"{f.subject}: {f.advice}" for f in findings if f.advice]
    print("\n".join(advice) if advice else "All is well.")
    return 0 if all(f.good for f in findings) else 1


def _ops(markdown: bool) -> int:
    from .report import ops_table

    if markdown:
        print(ops_table.markdown(), end="")
    else:
        _print_table(("family", "op", "types", "formula"), ops_table.rows())
    return 0


def _bench(subject: str, arguments: Sequence[str]) -> int:
    module = importlib.import_module(f".bench.{subject}", __package__)
    return int(module.main(arguments))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1 << 20:
        return f"{value:,} ({value / (1 << 30):.1f} GiB)"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return "unknown" if value is None else str(value)


def _print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """With rich where it is installed and somebody looks, else in plain columns."""
    lines = [head, *rows]
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table(*head)
            for row in lines[1:]:
                table.add_row(*row)
            Console().print(table)
            return
    widths = [max(len(line[i]) for line in lines) for i in range(len(head) - 1)]
    for line in lines:
        print("  ".join([cell.ljust(width) for cell, width in zip(line, widths, strict=False)] + [line[-1]]))

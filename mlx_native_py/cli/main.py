"""The command `mlx-native`: text out of models, what the device is, whether all is well, and how fast it runs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from ..errors import MlxError
from ..metal import open_metal
from . import models as cli_models
from .table import print_table

__all__ = ["main"]

_BENCHES = ("soft", "ops", "encode", "decode")
_INTERRUPTED = 130
"""As shells say it: 128 and the number of the signal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["bench"] and arguments[1:2] and arguments[1] in _BENCHES:
            return _bench(arguments[1], arguments[2:])
        return _run(_parser().parse_args(arguments))
    except KeyboardInterrupt:
        print("\nmlx-native: stopped", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has left; the interpreter must not try to write the rest of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (MlxError, OSError) as error:
        print(f"mlx-native: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlx-native", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cli_models.add_commands(commands)
    for name, purpose in (
        ("info", "print the device, its limits and what it can do, or what is in a model file"),
        ("doctor", "check PyObjC, the compiler, the cache folder and a kernel's result, and say what to do"),
    ):
        command = commands.add_parser(name, help=purpose, description=purpose)
        command.add_argument("--device", choices=("auto", "metal", "soft"), help="instead of MLX_NATIVE_DEVICE")
        if name == "info":
            command.add_argument("file", nargs="?", help="a GGUF file, safetensors, or a folder with them")
            command.add_argument("--tensors", action="store_true", help="of a file: list every tensor")
        else:
            command.add_argument("--mac", action="store_true", help="look at every library, pipeline and op as well")
            command.add_argument("--report", default="mlx-native-doctor.json", help="of --mac: the file (%(default)s)")
    bench = commands.add_parser("bench", help="measure the device", description="measure the device")
    bench.add_argument("subject", choices=_BENCHES)
    listing = commands.add_parser("ops", help="list the ops", description="list the ops")
    listing.add_argument("--markdown", action="store_true", help="as the page docs/ops.md")
    listing.add_argument("--stub", action="store_true", help="as the stub mlx_native_py/fn/derived.pyi")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    match chosen.command:
        case "generate":
            return cli_models.generate(chosen)
        case "embed":
            return cli_models.embed(chosen)
        case "ops":
            return _ops(chosen.markdown, chosen.stub)
        case "doctor":
            return _rehearse(chosen.device, chosen.report) if chosen.mac else _doctor(chosen.device)
    return _file_info(chosen.file, chosen.tensors) if chosen.file else _info(chosen.device)


def _file_info(file: str, every_tensor: bool) -> int:
    from .model_file import show_model_file

    show_model_file(file, every_tensor=every_tensor)
    return 0


def _info(device: str | None) -> int:
    backend = open_metal(device)  # type: ignore[arg-type]  # argparse has checked it
    found = backend.capabilities(backend.default_device())
    rows = [("kind", backend.kind)] + [(f.name.replace("_", " "), _text(getattr(found, f.name))) for f in fields(found)]
    if backend.declined:
        rows.append(("Apple's Metal", f"not used: {backend.declined}"))
    print_table(("property", "value"), rows)
    return 0


def _doctor(device: str | None) -> int:
    from .doctor import examine

    findings = examine(device)  # type: ignore[arg-type]  # argparse has checked it
    print_table(("check", "state", "detail"), [(f.subject, "ok" if f.good else "FAULT", f.detail) for f in findings])
    advice = [f"{f.subject}: {f.advice}" for f in findings if f.advice]
    print("\n".join(advice) if advice else "All is well.")
    return 0 if all(f.good for f in findings) else 1


def _rehearse(device: str | None, report: str) -> int:
    from .rehearsal import rehearse, write_report

    findings = []
    for finding in rehearse(device):  # type: ignore[arg-type]  # argparse has checked it
        print(f"{'ok' if finding.good else 'FAULT':6}{finding.subject}: {finding.detail}", flush=True)
        findings.append(finding)
    write_report(findings, Path(report))
    faults = sum(not finding.good for finding in findings)
    print(f"{len(findings)} things looked at, {faults} faults; all of it is in {report}")
    return 1 if faults else 0


def _ops(markdown: bool, stub: bool) -> int:
    from ..report import fn_stub, ops_table

    if stub:
        print(fn_stub.stub(), end="")
    elif markdown:
        print(ops_table.markdown(), end="")
    else:
        print_table(("family", "op", "types", "formula"), ops_table.rows())
    return 0


def _bench(subject: str, arguments: Sequence[str]) -> int:
    module = importlib.import_module(f"..bench.{subject}", __package__)
    return int(module.main(arguments))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1 << 20:
        return f"{value:,} ({value / (1 << 30):.1f} GiB)"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return "unknown" if value is None else str(value)

"""`mlx-native info`: shows the device and its capabilities, or the contents of a model file."""

from __future__ import annotations

import argparse
from dataclasses import fields

from ..metal import open_metal
from .model_file import describe_model_file, show_model_file
from .table import print_json, print_table

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", nargs="?", help="a GGUF file, safetensors, or a folder with them")
    command.add_argument("--device", choices=("auto", "metal", "soft"), help="instead of MLX_NATIVE_DEVICE")
    command.add_argument("--tensors", action="store_true", help="of a file: list every tensor")
    command.add_argument("--json", action="store_true", help="print it as JSON")


def run(chosen: argparse.Namespace) -> int:
    if chosen.file and chosen.json:
        print_json(describe_model_file(chosen.file, every_tensor=chosen.tensors))
    elif chosen.file:
        show_model_file(chosen.file, every_tensor=chosen.tensors)
    else:
        _show_device(chosen)
    return 0


def _show_device(chosen: argparse.Namespace) -> None:
    backend = open_metal(chosen.device)
    capabilities = backend.capabilities(backend.default_device())
    facts = {"kind": backend.kind, **{f.name: getattr(capabilities, f.name) for f in fields(capabilities)}}
    if backend.declined:
        facts["declined"] = f"Apple's Metal is not used: {backend.declined}"
    if chosen.json:
        print_json(facts)
    else:
        print_table(("property", "value"), [(name.replace("_", " "), _text(value)) for name, value in facts.items()])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1 << 20:
        return f"{value:,} ({value / (1 << 30):.1f} GiB)"
    if isinstance(value, tuple):
        return " x ".join(map(str, value))
    return "unknown" if value is None else str(value)

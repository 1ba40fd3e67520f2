"""`mlx-native run FILE.metal`: launches a kernel and prints its results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..device import MlxDevice
from ..errors import InvalidArgument
from .kernel_launch import KernelLaunch, add_launch_options, chosen_kernel, launch_from, library_of
from .table import print_json

__all__ = ["options", "run"]


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="a file with MSL source")
    add_launch_options(command)
    command.add_argument("--device", choices=("auto", "metal", "soft"), help="instead of MLX_NATIVE_DEVICE")
    command.add_argument(
        "--save", action="append", default=[], metavar="NAME=FILE.npy", help="write what is in an argument to a file"
    )
    command.add_argument("--json", action="store_true", help="print all values as JSON")


def run(chosen: argparse.Namespace) -> int:
    with MlxDevice(chosen.device) as device:
        kernel = chosen_kernel(library_of(device, chosen.file, chosen), chosen.kernel, chosen.file)
        launch = launch_from(chosen, kernel, device)
        places = _places(chosen.save, launch)
        ticket = launch.run()
        results = launch.results()
        for name, path in places.items():
            _save(name, path, results[name])
        if chosen.json:
            _print_json(launch, results, device, ticket.gpu_time)
        else:
            _print(results, {name: str(path) for name, path in places.items()})
            print(f"{kernel.name} took {ticket.gpu_time * 1e6:.1f} us on {device.name}")
    return 0


def _save(name: str, path: Path, result: Any) -> None:
    try:
        np.save(path, result)
    except OSError as problem:  # numpy counts bytes where a disk is full, and names no file
        raise InvalidArgument(f"--save {name}={path} cannot be written: {problem}") from None


def _places(save: list[str], launch: KernelLaunch) -> dict[str, Path]:
    """The output files, checked before anything runs."""
    places = {}
    places_of = (*launch.pipeline.buffers, *launch.pipeline.textures)
    written = [binding.name for binding in places_of if binding is not None and binding.writes]
    for text in save:
        name, _, path = text.partition("=")
        if name not in written or not path.endswith(".npy"):
            names = ", ".join(written) or "nothing"
            raise InvalidArgument(f"--save {text}: expected NAME=FILE.npy with what the kernel writes: {names}")
        if not Path(path).parent.is_dir():
            raise InvalidArgument(f"--save {text}: there is no folder {Path(path).parent}")
        places[name] = Path(path)
    return places


def _print(results: dict[str, Any], saved: dict[str, str]) -> None:
    for name, array in results.items():
        kept = f", saved as {saved[name]}" if name in saved else ""
        print(f"{name} ({array.dtype}{list(array.shape)}{kept})")
        print(np.array2string(array, threshold=64, edgeitems=4, max_line_width=100))


def _print_json(launch: KernelLaunch, results: dict[str, Any], device: MlxDevice, seconds: float) -> None:
    told = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape), "values": _plain(array)}
        for name, array in results.items()
    }
    facts = {"kernel": launch.kernel.name, "device": device.name, "kind": device.backend.kind, "gpu_seconds": seconds}
    print_json({**facts, "results": told})


def _plain(array: Any) -> list[Any]:
    """Values for JSON; non-finite ones as text."""
    return [value if np.isfinite(value) else str(value) for value in array.ravel().tolist()]

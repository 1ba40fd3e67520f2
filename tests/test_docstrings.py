"""Every example in a docstring of the core runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.encoding import SOURCE

import mlx_native_py
from mlx_native_py import MlxDevice, fn, ops

MODULES = [
    found.name
    for found in pkgutil.walk_packages(mlx_native_py.__path__, "mlx_native_py.")
    if found.name.split(".")[1] not in ("__main__", "softmetal", "metal")
]


def stage(device: MlxDevice, folder: Path) -> dict[str, Any]:
    """What an example may take for granted."""
    device.kernels.register_source("axpy", SOURCE)
    return {
        "device": device,
        "enc": device.command_encoder(),
        "axpy": device.kernels.get_pipeline("axpy"),
        "x": device.buffer(np.arange(4, dtype=np.float32)),
        "y": device.buffer(np.ones(4, np.float32)),
        "folder": folder,
        "np": np,
        "fn": fn,
        "ops": ops,
    }


@pytest.mark.soft
@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, tmp_path: Path) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        if test.examples:
            with MlxDevice("soft") as device:
                test.globs.update(stage(device, tmp_path))
                runner.run(test)
    assert runner.summarize(verbose=False).failed == 0

"""What is built on ranks: texts shared among them, spans in profiles, the example and the benchmark."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from distributed.test_launch import ROOT, launch
from mlx_native_py import distributed as d
from mlx_native_py.cli.main import main
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.profiling import observer

pytest.importorskip("mpi4py", reason="the extra distributed is not installed")


def ended(started: subprocess.Popen[str]) -> str:
    out, err = started.communicate(timeout=120)
    assert started.returncode == 0, err
    return out


def test_embed_over_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(write_tiny(tmp_path / "bert", "bert"))
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(f"text number {n} of some length" for n in range(7)) + "\n\n")
    assert main(["embed", str(texts), "--model", model, "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    shared = json.loads(ended(launch("embed", str(texts), "--model", model, "--json")))
    assert np.shape(shared) == (7, 64)
    np.testing.assert_allclose(shared, alone, atol=1e-5)


def test_an_empty_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none.txt").write_text("\n\n")
    assert main(["embed", str(tmp_path / "none.txt"), "--model", "tiny"]) == 1
    assert "contains no text" in capsys.readouterr().err


def test_example() -> None:
    lines = ended(launch("python", str(ROOT / "examples" / "distributed_sum.py"))).splitlines()
    assert sorted(lines) == [f"rank {rank} of 2: squares of 6 numbers, sum of all 650" for rank in range(2)]


def test_example_of_a_model() -> None:
    lines = sorted(ended(launch("python", str(ROOT / "examples" / "parallel_model.py"))).splitlines())
    divided = [(2, 2), (4, 1)]
    assert lines == sorted(
        f"rank {rank} of 2: {heads} heads of {layers} layers, the same tokens as one process"
        for heads, layers in divided
        for rank in range(2)
    )


def test_bench() -> None:
    out = ended(launch("bench", "distributed", "--rounds", "5", "--nbytes", "4096"))
    assert re.search(r"2 ranks, 4096 bytes: mpi4py [\d.]+ us, all_sum of an array .* of a buffer [\d.]+ us", out), out


class Spans:
    """A profile that keeps spans alone."""

    dispatches = False

    def __init__(self) -> None:
        self.found: list[tuple[str, str, bool, dict[str, Any]]] = []

    def add(self, notes: Any) -> None: ...

    def add_span(self, track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> None:
        self.found.append((track, name, start_ns <= end_ns, args))


def test_collectives_are_spans_of_a_profile() -> None:
    spans = Spans()
    observer.start(spans)
    try:
        d.all_sum(np.zeros(4, np.float32))
        d.barrier()
    finally:
        observer.stop(spans)
    assert spans.found == [("MPI", "all_sum", True, {"bytes": 16}), ("MPI", "barrier", True, {"bytes": 0})]

"""The examples run, and print what they promise."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTED: dict[str, tuple[list[str], list[str]]] = {
    "graph_pictures": (
        ["{folder}"],
        [r"graph-before\.svg: <ComputeGraph of 6 dispatches", r"changes: \{'fused': [1-9]"],
    ),
    "generate_text": (
        ["--model", "tiny", "--max-tokens", "4"],
        [
            r"The capital of France is",
            r"prompt +24 tokens, [\d.]+ tokens/s",
            r"generation +4 tokens",
            r"ended by length",
        ],
    ),
    "embed": (["--model", "tiny", "a cat", "a hat"], [r" 1\.00 +\d\.\d\d  a cat", r" 1\.00  a hat"]),
    "profile_a_decode": (
        ["--model", "tiny", "--tokens", "2"],
        [r"decode: 2 command buffers, median [\d.]+ ms", r"replayed: <Plan of \d+", r"us +\d+ x matmul"],
    ),
    "profile_a_step": (
        [],
        [
            r"layer\.step +3 +[\d.]+ +[\d.]+ +[\d.]+",
            r" 1 matmul_\w+ +Other +[\d.]+  \w+",
            r"matmul +6\* .* (measured|simulated)",
        ],
    ),
    "write_your_own_model": ([], [r"llama\.Llama: '.+'", r"__main__\.SigmoidLlama: '.+'"]),
    "distributed_sum": ([], [r"rank 0 of 1: squares of 12 numbers, sum of all 650"]),
    "image_blur": (
        [],
        [
            r"blur +MlxTexture\(RGBA8Unorm, 256 x 192 texels\)",
            r"resize +MlxTexture\(RGBA8Unorm, 128 x 96 texels\)",
            r"barriers  2, .*\(right\)",
        ],
    ),
    "hello_kernel": ([], [r"result .*\(right\)", r"device ", r"GPU time +\d+ us"]),
    "dispatch_cost_calibration": (
        ["--quick"],
        [
            r"measured on .+",
            r"\| N +\| encode_ms \(med\) \| commit_ms \(med\) \| µs/dispatch \(encode\) \|",
            r"\| +100 \| +\d+\.\d{3} \| +\d+\.\d{3} \| +\d+\.\d{3} \|",
        ],
    ),
    "cb_cost_calibration": (
        ["--quick"],
        [
            r"measured on .+",
            r"\| N +\| async µs/CB \(med\) \| sync µs/CB \(med\)  \| alloc µs/CB \(med\) \|",
            r"\| +50 \| +\d+\.\d \| +\d+\.\d \| +\d+\.\d \|",
        ],
    ),
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    arguments, expected = PRINTED[path.stem]
    monkeypatch.setattr(sys, "argv", [str(path), *(each.format(folder=tmp_path) for each in arguments)])
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as left:
        assert not left.code
    printed = capsys.readouterr().out
    assert [pattern for pattern in expected if not re.search(pattern, printed)] == []

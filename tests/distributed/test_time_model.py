"""The time model: its formula, the bytes of ranks, and that it needs nothing but a header."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from models.reference import Table
from models.tiny import BASE, random_weights, write_mlx, write_plain

from mlx_native_py.cli import main as cli
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.models.loading import OpenedModel, open_model
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.parallel.shard import stage_shards, tensor_shards
from mlx_native_py.parallel.time_model import Machine, calibrated, estimate, rank_bytes

HIDDEN, WIDE, LAYERS, VOCABULARY = 4096, 14336, 32, 128256
MACHINE = Machine(bandwidth=100e9, link=2e9, latency=50e-6)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedModel:
    """A model of 8 billion weights whose file is all holes behind the header."""
    path = tmp_path_factory.mktemp("large") / "large.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in (
        (writer.add_embedding_length, HIDDEN),
        (writer.add_feed_forward_length, WIDE),
        (writer.add_block_count, LAYERS),
        (writer.add_head_count, 32),
        (writer.add_head_count_kv, 8),
        (writer.add_context_length, 8192),
    ):
        add(value)
    writer.add_layer_norm_rms_eps(1e-5)
    kind = gguf.GGMLQuantizationType.Q4_0
    total = 0

    def matrix(name: str, rows: int, columns: int) -> None:
        nonlocal total
        nbytes = rows * columns // 32 * 18
        writer.add_tensor_info(f"{name}.weight", (rows, columns // 32 * 18), np.dtype(np.uint8), nbytes, raw_dtype=kind)
        total += nbytes

    matrix("token_embd", VOCABULARY, HIDDEN)
    matrix("output", VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attn_q", HIDDEN, HIDDEN),
            ("attn_k", 1024, HIDDEN),
            ("attn_v", 1024, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_gate", WIDE, HIDDEN),
            ("ffn_up", WIDE, HIDDEN),
            ("ffn_down", HIDDEN, WIDE),
        ):
            matrix(f"blk.{layer}.{name}", rows, columns)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_ti_data_to_file):
        write()
    writer.close()
    os.truncate(path, path.stat().st_size + total + 4096)
    return open_model(path)


def test_bytes_of_ranks(opened: OpenedModel) -> None:
    table = opened.file["token_embd.weight"].nbytes
    whole = opened.file.nbytes - table
    for shards in (tensor_shards(opened, 1), tensor_shards(opened, 8), stage_shards(opened, 4)):
        assert sum(rank_bytes(opened, shard) for shard in shards) == whole
    sizes = [rank_bytes(opened, shard) for shard in tensor_shards(opened, 2)]
    assert max(sizes) <= 0.51 * whole


def test_formula(opened: OpenedModel) -> None:
    whole = opened.file.nbytes - opened.file["token_embd.weight"].nbytes
    assert estimate(opened, 1, "tensor", MACHINE).token == pytest.approx(whole / 100e9)
    two = estimate(opened, 2, "tensor", MACHINE)
    sums = 2 * LAYERS * (50e-6 + HIDDEN * 4 / 2e9) + 50e-6
    assert two.communication == pytest.approx(sums)
    assert two.token == pytest.approx(max(two.nbytes) / 100e9 + sums)
    stages = estimate(opened, 4, "pipeline", MACHINE)
    assert stages.token == pytest.approx(whole / 100e9 + 3 * (50e-6 + HIDDEN * 4 / 2e9) + 50e-6)
    assert stages.between < stages.token / 3.5


def test_a_processor_slower_than_its_memory(opened: OpenedModel) -> None:
    """Then the number of weights counts, whatever bytes each takes; here all matrices have the same format."""
    reading = estimate(opened, 1, "tensor", MACHINE).token
    slow = calibrated(opened, MACHINE, 3 * reading)
    weights = (opened.file.nbytes - opened.file["token_embd.weight"].nbytes) // 18 * 32
    assert slow.rate == pytest.approx(weights / (3 * reading), rel=1e-4) and slow.bandwidth == MACHINE.bandwidth
    assert estimate(opened, 1, "tensor", slow).token == pytest.approx(3 * reading, rel=1e-4)
    two = estimate(opened, 2, "tensor", slow)
    assert two.token - two.communication == pytest.approx(max(two.nbytes) / whole_bytes(opened) * 3 * reading, rel=1e-3)
    quick = calibrated(opened, MACHINE, reading / 2)
    assert quick.rate == float("inf") and quick.bandwidth == pytest.approx(2 * MACHINE.bandwidth)


def whole_bytes(opened: OpenedModel) -> int:
    return opened.file.nbytes - opened.file["token_embd.weight"].nbytes


def test_groups_of_words_stand_for_weights(tmp_path: Path) -> None:
    """MLX's 4-bit weights: eight in a word, and none in the scales."""
    table: Table = {**BASE, "model_type": "llama"}
    write_mlx(tmp_path / "words", table, random_weights(table))
    write_plain(tmp_path / "plain", table, random_weights(table))
    machine = Machine(bandwidth=1e30, link=1e9, latency=1e-6, rate=1.0)
    words, plain = (estimate(open_model(tmp_path / name), 1, "tensor", machine) for name in ("words", "plain"))
    assert words.token == plain.token and words.nbytes < plain.nbytes


def test_too_many_ranks(opened: OpenedModel) -> None:
    with pytest.raises(InvalidArgument, match="32 heads of attention cannot be divided among 33 ranks; use at most 32"):
        estimate(opened, 33, "tensor", MACHINE)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(write_tiny(tmp_path))
    assert cli.main(["plan-parallel", model, "--ranks", "2", "5", "--bandwidth", "10", "--latency", "100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [["1", "one"], ["2", "tensor"], ["2", "pipeline"]]
    assert lines[4] == "5 ranks, tensor: 4 heads of attention cannot be divided among 5 ranks; use at most 4"
    assert lines[5] == "5 ranks, pipeline: 2 layers cannot be divided among 5 ranks; use at most 2"
    assert cli.main(["plan-parallel", model, "--ranks", "2", "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert [each["way"] for each in parsed["estimates"]] == ["one process", "tensor", "pipeline"]
    with pytest.raises(SystemExit):
        cli.main(["plan-parallel", model, "--latency", "0"])
    assert "expected a number above 0" in capsys.readouterr().err

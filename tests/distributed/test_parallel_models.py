"""Models over 1 to 4 ranks: the tokens of one process, in every family and weight format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from models.reference import Table
from models.tiny import BASE, GEMMA, random_weights, write_gguf, write_mlx, write_plain

from distributed.ranks import run_ranks
from distributed.test_launch import launch
from mlx_native_py.models import architectures
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.parallel.fingerprint import digest

pytest.importorskip("mpi4py", reason="the extra distributed is not installed")

# Over 2 ranks a KV head more on one of them; over 4, KV heads that two ranks need.
THREE: Table = {**BASE, "num_attention_heads": 6, "num_key_value_heads": 3, "intermediate_size": 128}
SHARED: Table = {**BASE, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 4}
SLIDING: Table = {**GEMMA, "num_attention_heads": 6, "num_key_value_heads": 3, "num_hidden_layers": 4}
CAPS: Table = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
LOCAL: Table = {"sliding_window_pattern": 3, "rope_local_base_freq": 100.0, "rope_theta": 5000.0}
LARGE: Table = {**BASE, "hidden_size": 256, "intermediate_size": 1024, "head_dim": 64, "num_attention_heads": 16}


def write_models(folder: Path) -> None:
    """One file or folder for each family and kind of weights."""

    def config(name: str, table: Table) -> Table:
        return {**table, "model_type": name, "num_hidden_layers": max(4, table["num_hidden_layers"])}

    llama = config("llama", {**THREE, "tie_word_embeddings": False})
    write_gguf(folder / "llama-Q4_1.gguf", llama, random_weights(llama), "Q4_1")
    shared = config("mistral", SHARED)
    write_plain(folder / "mistral-f16", shared, random_weights(shared))
    qwen2 = config("qwen2", {**THREE, "head_dim": 16})
    write_plain(folder / "qwen2-f16", qwen2, random_weights(qwen2, biases=True))
    qwen3 = config("qwen3", THREE)
    write_mlx(folder / "qwen3-4bit", qwen3, random_weights(qwen3, head_norms=True))
    gemma2 = config("gemma2", {**SLIDING, **CAPS, "intermediate_size": 256})
    write_gguf(folder / "gemma2-Q8_0.gguf", gemma2, random_weights(gemma2), "Q8_0")
    gemma3 = config("gemma3_text", {**SLIDING, **LOCAL, "head_dim": 64, "intermediate_size": 256})
    write_mlx(folder / "gemma3-6bit", gemma3, random_weights(gemma3, head_norms=True), bits=6, group_size=64)
    large = config("llama", LARGE)
    write_gguf(folder / "llama-Q6_K.gguf", large, random_weights(large), "Q6_K")
    write_tiny(folder / "bert", "bert")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


def test_every_family_is_there(models: Path) -> None:
    families = {each.name.partition("-")[0] for each in models.iterdir()}
    assert families == set(architectures()) - {"gemma3_text"}


def test_same_tokens_as_one_process(models: Path) -> None:
    compare(models, 2, ["bert", "llama-Q4_1.gguf", "mistral-f16"])


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_same_tokens_in_every_family(models: Path, count: int) -> None:
    compare(models, count, [each.name for each in models.iterdir()])


def compare(models: Path, count: int, names: list[str]) -> None:
    done = run_ranks(count, "parallel_models.py", *(str(models / name) for name in sorted(names)), timeout=500)
    assert done.returncode == 0, done.stderr
    parsed = dict(json.loads(line) for line in done.stdout.splitlines())
    assert parsed.keys() == set(names)
    for name, ranks in parsed.items():
        assert len(ranks) == count
        for rank in ranks:
            check(name, rank)
    (first, *_), (shared, *_) = parsed["llama-Q4_1.gguf"], parsed["mistral-f16"]
    expected = {1: [6], 2: [4, 2], 3: [2, 2, 2], 4: [2, 2, 1, 1]}[count]
    assert first["tensor"]["heads"] == expected and sum(first["pipeline"]["layers"]) == 4
    if count == 3:
        assert shared["tensor"]["keys"] == [[0], [0, 1, 1], [1]]


def check(name: str, rank: dict[str, Any]) -> None:
    for way, result in rank.items():
        where = f"{name}, {way}: {result}"
        if "vectors" in result:
            assert result["vectors"] < 1e-4, where
            continue
        assert result["tokens"] and result["batch"] and result["sampled"], where
        assert result["logits"] < 1e-3 and result["log_probabilities"] < 1e-3, where


@pytest.mark.full
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_smollm2(count: int) -> None:
    done = run_ranks(count, "smollm2.py", timeout=500)
    assert done.returncode == 0, done.stderr
    for rank in json.loads(done.stdout):
        assert rank["tokens"] and rank["pipeline"] and rank["logits"] < 1e-3
        assert rank["share"] <= {1: 1.01, 2: 0.6, 3: 0.4, 4: 0.35}[count]


@pytest.mark.full
def test_predictions_stand_beside_measured_times() -> None:
    """How close they are says only a machine on which nothing else runs; docs/parallel-models.md has figures."""
    started = launch("bench", "parallel", "--rounds", "1", "--json")
    out, err = started.communicate(timeout=500)
    assert started.returncode == 0, err
    rows = json.loads(out)["rows"]
    assert [row["predicted"] is not None for row in rows] == [False] * 3 + [True] * 3
    assert rows[5]["predicted"] < rows[4]["predicted"]


def test_a_digest_is_kept_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    first = digest(file)
    (kept,) = (tmp_path / "cache" / "mlx_native_py" / "model-digests").iterdir()
    kept.write_text(kept.read_text().replace(first, "remembered"))
    assert digest(file) == "remembered"
    file.write_bytes(b"abcd")
    assert digest(file) not in (first, "remembered")
    kept.write_text("[]")
    file.write_bytes(b"abc")
    assert digest(file) == first


def test_different_files_are_refused(models: Path, tmp_path: Path) -> None:
    """Files of the same shape too, of which a single byte differs; a copy is as good as the file itself."""
    first, other, copy = models / "llama-Q4_1.gguf", tmp_path / "other.gguf", tmp_path / "copy.gguf"
    whole = bytearray(first.read_bytes())
    copy.write_bytes(whole)
    whole[len(whole) * 2 // 3] ^= 1
    other.write_bytes(whole)
    cache = str(tmp_path / "cache")
    done = run_ranks(2, "different_files.py", str(first), str(other), XDG_CACHE_HOME=cache)
    assert done.returncode != 0
    assert "the ranks do not agree: the digest of the model's weights" in done.stderr
    done = run_ranks(2, "different_files.py", str(first), str(copy), XDG_CACHE_HOME=cache)
    assert done.returncode == 0, done.stderr

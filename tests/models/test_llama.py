"""A tiny Llama out of each kind of file, against numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from mlx_native_py import InvalidArgument, MlxDevice, ModelFileError
from mlx_native_py.models import load_model as load
from models.reference import Reference, Table
from models.running import all_logits, decoded
from models.tiny import BASE, random_weights, write_gguf, write_mlx, write_plain

LLAMA: Table = {**BASE, "model_type": "llama"}
PROMPT = [5, 17, 90, 3, 3, 41, 8, 60, 22, 13, 77]


def agrees(model: Any, reference: Reference, tolerance: float = 2e-4) -> None:
    """Logits at every position of a chunk, and those of greedy steps after it."""
    assert np.abs(all_logits(model, PROMPT) - reference.logits(PROMPT)).max() < tolerance
    tokens, logits = decoded(model, PROMPT, 6)
    expected = reference.logits([*PROMPT, *tokens])[len(PROMPT) - 1 : -1]
    assert np.abs(logits - expected).max() < tolerance
    assert expected.argmax(-1).tolist() == tokens


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_gguf(device: MlxDevice, tmp_path: Path, kind: str) -> None:
    stored = write_gguf(tmp_path / "m.gguf", LLAMA, random_weights(LLAMA), kind)
    model = load(tmp_path / "m.gguf", device)
    assert model.config.stop_ids == (1,) and model.metadata["general.architecture"] == "llama"
    agrees(model, Reference(LLAMA, stored, traditional=True))


@pytest.mark.parametrize(("bits", "dtype"), [(4, mx.float32), (8, mx.bfloat16), (3, mx.float16)])
def test_mlx(device: MlxDevice, tmp_path: Path, bits: int, dtype: Any) -> None:
    stored = write_mlx(tmp_path, LLAMA, random_weights(LLAMA), bits=bits, dtype=dtype)
    agrees(load(tmp_path, device), Reference(LLAMA, stored))


def test_mlx_with_modules_of_their_own(device: MlxDevice, tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": False}
    overrides = {
        "model.embed_tokens": {"bits": 8, "group_size": 64},
        "model.layers.1.mlp.down_proj": {"bits": 6, "group_size": 32},
    }
    stored = write_mlx(tmp_path, config, random_weights(config), overrides=overrides)
    agrees(load(tmp_path, device), Reference(config, stored))


@pytest.mark.parametrize(
    "scaling",
    [
        {"type": "linear", "factor": 4.0},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ],
    ids=["linear", "llama3"],
)
def test_rope_scaling(device: MlxDevice, tmp_path: Path, scaling: Table) -> None:
    config = {**LLAMA, "rope_scaling": scaling, "rope_theta": 500.0}
    stored = write_plain(tmp_path, config, random_weights(config))
    agrees(load(tmp_path, device), Reference(config, stored))


def test_stop_tokens_of_generation_config(device: MlxDevice, tmp_path: Path) -> None:
    write_plain(tmp_path, LLAMA, random_weights(LLAMA))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [7, 9]}')
    assert load(tmp_path, device).config.stop_ids == (7, 9)


def test_rope_factors_of_a_gguf_file(device: MlxDevice, tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 16, dtype=np.float32)
    weights = {**random_weights(LLAMA), "rope_freqs.weight": factors}
    stored = write_gguf(tmp_path / "m.gguf", LLAMA, weights)
    reference = Reference(LLAMA, stored, traditional=True)
    reference.factors = factors.astype(np.float64)
    agrees(load(tmp_path / "m.gguf", device), reference)


def test_mistral_slides(device: MlxDevice, tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": "mistral", "sliding_window": 6}
    stored = write_plain(tmp_path, config, random_weights(config))
    agrees(load(tmp_path, device), Reference({**config, "sliding_window_pattern": 99}, stored))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_activations_of_half_the_size(device: MlxDevice, tmp_path: Path, dtype: str) -> None:
    stored = write_gguf(tmp_path / "m.gguf", LLAMA, random_weights(LLAMA))
    expected = Reference(LLAMA, stored, traditional=True).logits(PROMPT)
    model = load(tmp_path / "m.gguf", device, dtype=dtype)
    tolerance = {"f16": 0.02, "bf16": 0.2}[dtype]
    assert np.abs(all_logits(model, PROMPT) - expected).max() < tolerance
    assert np.abs(decoded(model, PROMPT, 1)[1] - expected[-1:]).max() < tolerance
    assert np.abs(decoded(model, PROMPT, 1, bits=8)[1] - expected[-1:]).max() < 5 * tolerance


def test_activations_are_floats(device: MlxDevice, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="dtype is u32, expected f32, f16 or bf16"):
        load(tmp_path, device, dtype="u32")


@pytest.mark.parametrize("how", [{"mode": "mxfp4"}, {"bits": 0}, {"group_size": "32"}, {"bits": 8}])
def test_quantised_in_other_ways(device: MlxDevice, tmp_path: Path, how: Table) -> None:
    write_mlx(tmp_path, LLAMA, random_weights(LLAMA))
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization"]["model.layers.1.mlp.up_proj"] = how
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match="layers.1.mlp.up_proj.*expected"):
        load(tmp_path, device)


def test_formats_without_a_kernel(device: MlxDevice, tmp_path: Path) -> None:
    """The file is fine; the model that needs the tensor is not."""
    weights = {**random_weights(LLAMA), "blk.9.unused.weight": np.ones((2, 64), np.float32)}
    write_gguf(tmp_path / "m.gguf", LLAMA, weights, "Q8_0")
    load(tmp_path / "m.gguf", device)
    wide = {**LLAMA, "hidden_size": 256, "intermediate_size": 256, "head_dim": 64}
    write_gguf(tmp_path / "m.gguf", wide, random_weights(wide), "TQ1_0")
    with pytest.raises(InvalidArgument, match="token_embd.weight.*GGML type 34 is not supported"):
        load(tmp_path / "m.gguf", device)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "mamba"}, "'mamba' is not supported; there are: .*llama"),
        ({"model_type": "config"}, "'config' is not supported"),
        ({"model_type": "../llama"}, "is not supported"),
        ({"model_type": 3}, "3 is not supported"),
        ({"hidden_size": 65}, "embed_tokens.*expected .*65"),
        ({"num_hidden_layers": 3}, "layers.2.* missing, but llama needs it"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers: '2', expected a whole number from 1 to"),
        ({"num_key_value_heads": 3}, "3, expected a number that divides 4"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "'dynamic', expected 'default', 'linear' or 'llama3'"),
        ({"hidden_act": "relu2"}, "'relu2', expected 'silu' or 'swish'"),
        ({"quantization_config": {"quant_method": "gptq"}}, "'gptq', expected weights that are plain"),
        ({"rms_norm_eps": -1}, "rms_norm_eps: -1, expected a positive number"),
        ({"eos_token_id": "x"}, "expected one token or a list"),
    ],
)
def test_what_cannot_be_loaded(device: MlxDevice, tmp_path: Path, change: Table, complaint: str) -> None:
    write_plain(tmp_path, {**LLAMA, **change}, random_weights(LLAMA))
    with pytest.raises(ModelFileError, match=complaint):
        load(tmp_path, device)

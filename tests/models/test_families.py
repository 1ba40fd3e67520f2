"""Every family as a tiny random model: against numpy, and against MLX's own code where it can be imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.nn.layers.quantized import quantize

from mlx_native_py import MlxDevice, ops
from mlx_native_py.models import architectures
from mlx_native_py.models import load_model as load
from mlx_native_py.models.families import llama
from models.reference import Array, Reference, Table
from models.running import all_logits, decoded
from models.tiny import BASE, GEMMA, random_weights, write_gguf, write_mlx

PROMPT = [5, 17, 90, 3, 3, 41, 8, 60, 22, 13, 77]
CAPS = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
LOCAL = {"sliding_window_pattern": 3, "rope_local_base_freq": 100.0, "rope_theta": 5000.0}
FAMILIES: dict[str, tuple[Table, dict[str, bool]]] = {
    "llama": ({**BASE, "tie_word_embeddings": False}, {}),
    "mistral": (BASE, {}),
    "qwen2": ({**BASE, "head_dim": 16}, {"biases": True}),
    "qwen3": ({**BASE, "tie_word_embeddings": False}, {"head_norms": True}),
    "gemma2": ({**GEMMA, **CAPS}, {}),
    "gemma3_text": ({**GEMMA, **LOCAL}, {"head_norms": True}),
}


def made(name: str, **change: Any) -> tuple[Table, dict[str, Array]]:
    config, options = FAMILIES[name]
    config = {**config, "model_type": name, **change}
    return config, random_weights(config, **options)


def test_all_have_a_row() -> None:
    assert set(architectures()) - {"bert", "gemma3"} == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_mlx_folder(device: MlxDevice, tmp_path: Path, name: str) -> None:
    config, weights = made(name)
    reference = Reference(config, write_mlx(tmp_path, config, weights))
    model = load(tmp_path, device)
    assert np.abs(all_logits(model, PROMPT) - reference.logits(PROMPT)).max() < 3e-4
    tokens, logits = decoded(model, PROMPT, 6)
    expected = reference.logits([*PROMPT, *tokens])[len(PROMPT) - 1 : -1]
    assert np.abs(logits - expected).max() < 3e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_gguf(device: MlxDevice, tmp_path: Path, name: str) -> None:
    # GGUF has no keys for these; readers know them by the architecture.
    fixed: Table = {"query_pre_attn_scalar": 32, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6}
    config, weights = made(name, **({key: fixed[key] for key in fixed if key in FAMILIES[name][0]}))
    stored = write_gguf(tmp_path / "m.gguf", config, weights, "Q8_0")
    reference = Reference(config, stored, traditional=name in ("llama", "mistral"))
    assert np.abs(all_logits(load(tmp_path / "m.gguf", device), PROMPT) - reference.logits(PROMPT)).max() < 3e-4


class ParallelBlock(llama.LlamaBlock):
    """Attention and feed-forward side by side, as in GPT-J."""

    def __call__(self, enc: Any, x: Any, inputs: Any, cache: Any) -> Any:
        h = ops.rms_norm(enc, x, self.input_layernorm, eps=self.eps)
        both = ops.add(enc, self.self_attn(enc, h, inputs, cache), self.feed_forward(enc, h))
        return ops.add(enc, x, both)


class ParallelModel(llama.Llama):
    block = ParallelBlock


class ParallelReference(Reference):
    def block(self, x: Array, layer: int) -> Array:
        h = self.norm(x, f"model.layers.{layer}.input_layernorm")
        return x + self.attention(h, layer) + self.mlp(h, f"model.layers.{layer}.")


def test_a_family_of_ones_own(device: MlxDevice, tmp_path: Path) -> None:
    config, weights = made("llama", model_type="parallel")
    reference = ParallelReference(config, write_mlx(tmp_path, config, weights))
    model = load(tmp_path, device, family=ParallelModel)
    assert np.abs(all_logits(model, PROMPT) - reference.logits(PROMPT)).max() < 3e-4


def test_text_inside_of_a_model_that_sees(device: MlxDevice, tmp_path: Path) -> None:
    config, weights = made("gemma3_text")
    inside = {f"language_model.{name}": array for name, array in weights.items()}
    write_mlx(tmp_path, {"model_type": "gemma3", "text_config": config}, inside)
    whole = all_logits(load(tmp_path, device), PROMPT)
    write_mlx(tmp_path / "text", config, weights)
    assert np.array_equal(whole, all_logits(load(tmp_path / "text", device), PROMPT))


@pytest.fixture(scope="module")
def mlx_lm() -> ModuleType:
    """The package without what its own `__init__` imports, of which models need nothing."""
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None:
        pytest.skip("mlx-lm is not installed")
    package = ModuleType("mlx_lm")
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["mlx_lm"] = package
    return package


@pytest.mark.parametrize("name", FAMILIES)
def test_as_mlx_lm(mlx_lm: ModuleType, device: MlxDevice, tmp_path: Path, name: str) -> None:
    # mlx-lm's Gemma 2 has no windows.
    config, weights = made(name, **({"sliding_window": 400} if name == "gemma2" else {}))
    write_mlx(tmp_path, config, weights)
    module = importlib.import_module(f"mlx_lm.models.{'llama' if name == 'mistral' else name}")
    theirs = module.Model(module.ModelArgs.from_dict(config))
    tensors: Any = mx.load(str(tmp_path / "model.safetensors"))
    tensors = theirs.sanitize(tensors) if hasattr(theirs, "sanitize") else tensors
    quantize(theirs, 32, 4, class_predicate=lambda path, _: f"{path}.scales" in tensors)
    theirs.load_weights(list(tensors.items()))
    expected = np.array(theirs(mx.array([PROMPT]))[0].astype(mx.float32))
    assert np.abs(all_logits(load(tmp_path, device), PROMPT) - expected).max() < 1e-3

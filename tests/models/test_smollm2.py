"""SmolLM2-135M in Q4_1, as people have it: logits of every position and greedy tokens, against numpy."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from mlx_native_py import MlxDevice, counters
from mlx_native_py.models import Decoder
from mlx_native_py.models import load_model as load
from mlx_native_py.models.fetch import model_path
from models.reference import Array, Reference, Table
from models.running import all_logits

CAPITAL = [504, 3575, 282, 4649, 314]
"""The capital of France is"""
CONFIG: Table = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e5,
}


def dequantised(path: str) -> dict[str, Array]:
    """All weights, by gguf's own code, under the names of Hugging Face."""
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, CONFIG["num_hidden_layers"])
    modules = ["model.embed_tokens", "model.norm"]
    for layer in range(CONFIG["num_hidden_layers"]):
        parts = ["input_layernorm", "post_attention_layernorm", *(f"self_attn.{each}_proj" for each in "qkvo")]
        parts += [f"mlp.{each}_proj" for each in ("gate", "up", "down")]
        modules += [f"model.layers.{layer}.{part}" for part in parts]
    stored = {names.get_name(module): module for module in modules}
    tensors = {each.name.removesuffix(".weight"): each for each in gguf.GGUFReader(path).tensors}
    assert tensors.keys() == stored.keys()
    return {
        f"{stored[name]}.weight": gguf.quants.dequantize(each.data, each.tensor_type).astype(np.float32)
        for name, each in tensors.items()
    }


@pytest.mark.full
def test_smollm2(device: MlxDevice) -> None:
    path = model_path("smollm2")
    model = load(path, device)
    decoder = Decoder(model, model.make_cache())
    decoder.prefill([CAPITAL])
    outcome, logits = [], []
    for _ in range(32):
        with counters.scope() as tally:
            (token,), _ = decoder.step()
        outcome.append(token)
        logits.append(decoder.logits.numpy()[0].copy())
    assert tally.cmd_bufs <= 3 and decoder.plan.message_count <= 60
    tokens = [*CAPITAL, *outcome]
    expected = Reference(CONFIG, dequantised(str(path)), traditional=True).logits(tokens)
    assert np.abs(all_logits(model, tokens) - expected).max() < 0.01
    assert np.abs(np.array(logits) - expected[len(CAPITAL) - 1 : -1]).max() < 0.01
    assert expected[len(CAPITAL) - 1 : -1].argmax(-1).tolist() == outcome

"""Encoders: a tiny random BERT, and MiniLM as people have it, against numpy."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mlx_native_py import InvalidArgument, MlxDevice
from mlx_native_py.models import Tokenizer, embed
from mlx_native_py.models import load_model as load
from mlx_native_py.models.fetch import model_path
from models.reference import Array, Table

TINY: Table = {
    "model_type": "bert",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 96,
    "max_position_embeddings": 40,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}
SEQUENCES = [[5, 17, 90, 3, 3, 41, 8, 60, 22, 13, 77, 2], [4], [11, 12, 13]]


def erf(x: Array) -> Array:
    """Abramowitz and Stegun's series would not do; Python's is exact, and slow does not matter here."""
    from math import erf as exact

    return np.asarray(np.vectorize(exact, otypes=[np.float32])(x))


def reference(config: Table, weights: dict[str, Array], tokens: list[int]) -> Array:
    """The hidden states of one sequence."""

    def linear(x: Array, name: str) -> Array:
        result: Array = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return result

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(config["layer_norm_eps"]))
        result: Array = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return result

    heads, length = config["num_attention_heads"], len(tokens)
    table = {key: weights[f"embeddings.{key}_embeddings.weight"] for key in ("word", "position", "token_type")}
    x = norm(table["word"][tokens] + table["position"][:length] + table["token_type"][0], "embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        q, k, v = (linear(x, f"{at}attention.self.{part}") for part in ("query", "key", "value"))
        q, k, v = (each.reshape(length, heads, -1).swapaxes(0, 1) for each in (q, k, v))
        scores = q @ k.swapaxes(1, 2) * np.float32(q.shape[-1] ** -0.5)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        out = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(length, -1)
        x = norm(x + linear(out, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
        h = linear(x, f"{at}intermediate.dense")
        h = np.multiply(h, (1 + erf(h / np.float32(2**0.5))) / 2, dtype=np.float32)
        x = norm(x + linear(h, f"{at}output.dense"), f"{at}output.LayerNorm")
    return x


def pooled(states: Array, pooling: str) -> Array:
    vector = states.mean(0) if pooling == "mean" else states[0]
    result: Array = vector / np.linalg.norm(vector)
    return result


def random_weights() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    hidden, wide = TINY["hidden_size"], TINY["intermediate_size"]
    tables = {"word": TINY["vocab_size"], "position": TINY["max_position_embeddings"], "token_type": 2}
    shapes: dict[str, tuple[int, ...]] = {f"embeddings.{k}_embeddings": (rows, hidden) for k, rows in tables.items()}
    norms = ["embeddings.LayerNorm"]
    for layer in range(TINY["num_hidden_layers"]):
        at = f"encoder.layer.{layer}."
        shapes |= {f"{at}attention.self.{part}": (hidden, hidden) for part in ("query", "key", "value")}
        shapes |= {f"{at}attention.output.dense": (hidden, hidden), f"{at}intermediate.dense": (wide, hidden)}
        shapes |= {f"{at}output.dense": (hidden, wide)}
        norms += [f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"]
    values = {f"{name}.weight": rng.normal(size=shape) * shape[-1] ** -0.5 for name, shape in shapes.items()}
    values |= {f"{name}.bias": rng.normal(size=shape[0]) for name, shape in shapes.items() if "_embed" not in name}
    for name in norms:
        values |= {f"{name}.weight": 1 + 0.2 * rng.normal(size=hidden), f"{name}.bias": rng.normal(size=hidden) * 0.2}
    return {name: array.astype(np.float32) for name, array in values.items()}


def write_folder(folder: Path, weights: dict[str, Array], prefix: str = "") -> None:
    save_file({prefix + name: array for name, array in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(TINY))


def agrees(vectors: Array, weights: dict[str, Array], pooling: str) -> None:
    expected = [pooled(reference(TINY, weights, each), pooling) for each in SEQUENCES]
    assert np.abs(vectors - np.array(expected)).max() < 1e-5


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_folder(device: MlxDevice, tmp_path: Path, prefix: str) -> None:
    weights = random_weights()
    write_folder(tmp_path, weights, prefix)
    model = load(tmp_path, device)
    agrees(model.embed_ids(SEQUENCES), weights, "mean")
    agrees(model.embed_ids(SEQUENCES, pooling="cls"), weights, "cls")


def test_pooling_of_the_folder(device: MlxDevice, tmp_path: Path) -> None:
    weights = random_weights()
    write_folder(tmp_path, weights)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    agrees(load(tmp_path, device).embed_ids(SEQUENCES), weights, "cls")


def test_gguf(device: MlxDevice, tmp_path: Path) -> None:
    weights, path = random_weights(), tmp_path / "bert.gguf"
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, 2)
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_block_count(2)
    writer.add_head_count(4)
    writer.add_context_length(40)
    writer.add_layer_norm_eps(1e-12)
    writer.add_pooling_type(gguf.PoolingType.CLS)
    for name, array in weights.items():
        module, _, part = name.rpartition(".")
        writer.add_tensor(f"{names.get_name(module)}.{part}", array)
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    agrees(load(path, device).embed_ids(SEQUENCES), weights, "cls")


@pytest.mark.parametrize(
    ("sequences", "pooling", "complaint"),
    [
        ([], None, "at least one"),
        ([[]], None, "sequences of 1 to 40 tokens"),
        ([[1] * 41], None, "sequences of 1 to 40 tokens"),
        ([[96]], None, "token 96, expected 0 to 95"),
        ([[1]], "max", "'max', expected 'mean' or 'cls'"),
    ],
)
def test_what_cannot_be_embedded(
    device: MlxDevice, tmp_path: Path, sequences: list[list[int]], pooling: str | None, complaint: str
) -> None:
    write_folder(tmp_path, random_weights())
    with pytest.raises(InvalidArgument, match=complaint):
        load(tmp_path, device).embed_ids(sequences, pooling=pooling)


SUBJECTS = (
    "The old lighthouse", "My neighbour's cat", "A compiler for shaders", "The committee", "Heavy rain in autumn",
    "Her first symphony", "The night train to Vienna", "An unread letter", "The kitchen light", "Nobody in the village",
)  # fmt: skip
ENDINGS = (
    "was seen by thousands of people last year.",
    "costs more than 12,500 dollars, and isn't worth it!",
    "reminded us of something we had forgotten.",
    "can run on any machine, with or without a GPU.",
    "- who would have thought? - is still waiting.",
)


@pytest.mark.full
def test_minilm(device: MlxDevice) -> None:
    folder = model_path("minilm")
    sentences = [f"{subject} {ending}" for subject in SUBJECTS for ending in ENDINGS]
    weights = {name: array.astype(np.float32) for name, array in load_file(folder / "model.safetensors").items()}
    config = json.loads((folder / "config.json").read_text())
    model, tokenizer = load(folder, device), Tokenizer.from_file(folder)
    assert model.pooling == "mean" and len(sentences) == 50
    for vector, sentence in zip(embed(model, tokenizer, sentences), sentences, strict=True):
        ids = tokenizer.encode(sentence)
        assert (ids[0], ids[-1]) == (101, 102)
        assert vector @ pooled(reference(config, weights, ids), "mean") >= 0.9999

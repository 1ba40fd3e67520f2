"""The shape of a model, out of what its file says."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from mlx_native_py import MlxDevice, MlxError, ModelFileError
from mlx_native_py.json_fields import Fields
from mlx_native_py.models import Config
from mlx_native_py.models.config import _GGUF as GGUF_KEYS
from mlx_native_py.models.config import fields_of_gguf
from mlx_native_py.models.families.gemma2 import Gemma2
from mlx_native_py.models.families.gemma3 import Gemma3
from mlx_native_py.models.loading import load
from models.tiny import BASE, random_weights, write_plain


def read(table: dict[str, Any], *, is_gguf: bool = False) -> Config:
    return Config.read("llama", Fields(Path("config.json"), table), is_gguf=is_gguf)


def test_what_may_be_left_out() -> None:
    least = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    config = read({key: BASE[key] for key in least})
    assert (config.n_kv_heads, config.head_dim, config.rope.base, config.stop_ids) == (4, 16, 10000.0, ())
    assert config.sliding == (False, False) and config.query_scale == 16**-0.5


def test_rope_parameters_as_newer_files_have_them() -> None:
    given = {"rope_theta": 7.0, "rope_type": "linear", "factor": 4.0}
    assert read({**BASE, "rope_theta": None, "rope_parameters": given}).rope.base == 7.0
    assert read({**BASE, "rope_parameters": given}).rope.scale == 0.25
    kinds = {"full_attention": given, "sliding_attention": {"rope_theta": 9.0, "rope_type": "default"}}
    config = read({**BASE, "rope_parameters": kinds})
    assert (config.rope.base, config.rope.scale, config.local_rope.base, config.local_rope.scale) == (7, 0.25, 9, 1)


def test_layers_that_slide() -> None:
    assert read({**BASE, "sliding_window": 8, "use_sliding_window": False}).sliding == (False, False)
    assert read({**BASE, "sliding_window": 8}).sliding == (True, True)
    assert read({**BASE, "sliding_window": 8, "sliding_window_pattern": 2}).sliding == (True, False)
    kinds = ["full_attention", "sliding_attention"]
    assert read({**BASE, "sliding_window": 8, "layer_types": kinds}).sliding == (False, True)
    with pytest.raises(ModelFileError, match="a list of 2, one for each layer"):
        read({**BASE, "sliding_window": 8, "layer_types": kinds[:1]})


def test_gguf_has_the_same_under_its_own_names() -> None:
    metadata = {
        "general.architecture": "llama",
        "llama.embedding_length": 64,
        "llama.feed_forward_length": 96,
        "llama.block_count": 2,
        "llama.attention.head_count": 4,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.scaling.type": "linear",
        "llama.rope.scaling.factor": 4.0,
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 1,
    }
    config = read(fields_of_gguf(metadata), is_gguf=True)
    assert (config.vocab_size, config.stop_ids, config.rope.scale, config.n_kv_heads) == (3, (2, 1), 0.25, 4)


@pytest.mark.parametrize(("family", "layers"), [(Gemma2, 46), (Gemma3, 62)])
def test_queries_of_the_largest_gemma(family: type[Gemma2], layers: int) -> None:
    table = {**BASE, "hidden_size": 640, "num_hidden_layers": layers}
    assert read(family.completed(table, is_gguf=True)).query_scale == 160**-0.5
    assert read(family.completed({**table, "num_hidden_layers": 26}, is_gguf=True)).query_scale == 32**-0.5
    assert read(family.completed({**table, "query_pre_attn_scalar": 9}, is_gguf=False)).query_scale == 1 / 3


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": 1 << 30},
        {"head_dim": 1 << 30},
        {"rope_dims": 64},
        {"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 4.0}},
        {"hidden_size": True},
        {"rope_theta": float("nan")},
        {"rope_scaling": "linear"},
        {"sliding_window": 1, "layer_types": 7},
    ],
)
def test_numbers_that_no_model_has(change: dict[str, Any]) -> None:
    with pytest.raises(ModelFileError, match="expected"):
        read({**BASE, **change})


ODD: list[Any] = [0, -1, 1, 2.5, 1 << 40, "x", "", [], [[]], {}, {"rope_type": []}, True, float("nan"), float("inf")]


def test_odd_values_are_refused_or_do_no_harm(device: MlxDevice, tmp_path: Path) -> None:
    config = {**BASE, "model_type": "llama", "sliding_window": 8, "layer_types": ["sliding_attention"] * 2}
    config |= {"rope_scaling": None, "rope_parameters": None, "quantization": None, "text_config": None}
    config |= {"hidden_act": None, "quantization_config": None, "pooling_type": None, "query_pre_attn_scalar": None}
    write_plain(tmp_path, config, random_weights(config))
    refused = 0
    for key, value in itertools.product(config, ODD):
        (tmp_path / "config.json").write_text(json.dumps({**config, key: value}))
        try:
            load(tmp_path, device)
        except MlxError:
            refused += 1
    assert refused > len(config) * len(ODD) / 3


@pytest.mark.parametrize("family", ["llama", "gemma2", "gemma3", "bert"])
def test_odd_metadata_is_refused_or_does_no_harm(family: str) -> None:
    result = importlib.import_module(f"mlx_native_py.models.families.{family}").Model
    sizes = {"embedding_length": 64, "feed_forward_length": 96, "block_count": result.__dict__.get("layers_of_27b", 2)}
    plain = {f"{family}.{key}": value for key, value in (*sizes.items(), ("attention.head_count", 4))}
    plain |= {f"{family}.{key}": None for key in ("rope.scaling.type", "rope.scaling.factor", "rope.dimension_count")}
    plain |= {f"{family}.{key}": None for key in (*GGUF_KEYS.values(), "tokenizer.ggml.tokens") if key not in plain}
    for key, value in itertools.product(plain, ODD):
        metadata = {**plain, key: value, "general.architecture": family}
        try:
            read(result.completed(fields_of_gguf(metadata), is_gguf=True), is_gguf=True)
        except ModelFileError:
            pass


def test_folders_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"config\.json: is missing"):
        load(tmp_path)
    (tmp_path / "config.json").write_text("[")
    with pytest.raises(ModelFileError, match="not JSON"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps([1]))
    with pytest.raises(ModelFileError, match="expected a table"):
        load(tmp_path)

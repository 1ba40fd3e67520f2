"""Models by their paths, tensor- and pipeline-parallel, against the whole model in this very process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mlx_native_py import InvalidArgument, MlxDevice
from mlx_native_py import distributed as d
from mlx_native_py.memory.buffer import Array
from mlx_native_py.models import Decoder, generate_batch_ids, load_model
from mlx_native_py.parallel import PipelineParallel, TensorParallel, load_pipeline_parallel, load_tensor_parallel

group = d.init()
device = MlxDevice()
PROMPT = [5, 17, 90, 3, 3, 41, 8, 60, 22, 13, 77]
PROMPTS = [PROMPT, [40, 2, 2], [70, 11], [9] * 20, [33, 34, 35, 36]]
NEW = 32


def logits_of(decoder: Any, model: Any) -> Array:
    """Those of the last step, on all ranks."""
    if isinstance(model, TensorParallel):
        return model.gathered(decoder.logits.numpy())
    if isinstance(model, PipelineParallel):
        own = np.zeros((1, model.config.vocab_size), np.float32)
        if model.is_last:
            own[...] = decoder.micro_batches[0].logits.numpy()
        return d.broadcast(own, root=group.size - 1)
    own_logits: Array = decoder.logits.numpy()
    return own_logits


def greedy(model: Any, prompt: list[int]) -> tuple[list[int], Array, list[float]]:
    decoder: Decoder = model.make_decoder(model.make_cache(chunk=4))
    decoder.prefill([prompt])
    tokens, logits, log_probabilities = [], [], []
    for _ in range(NEW):
        (token,), (log_probability,) = decoder.step()
        tokens.append(token)
        log_probabilities.append(log_probability)
        logits.append(logits_of(decoder, model)[0].copy())
    return tokens, np.array(logits), log_probabilities


def sampled(model: Any) -> list[list[int]]:
    """Of one sequence, so that its number in the batch is the same whatever is in flight."""
    bits = 8 if model.config.head_dim % 32 == 0 else None
    options: dict[str, Any] = {"max_tokens": 12, "stop_ids": (), "kv_bits": bits, "prefill_step_size": 6}
    ways: list[dict[str, Any]] = [
        {"temperature": 0.9, "top_p": 0.9, "seed": 5},
        {"temperature": 0.8, "top_k": 7, "repetition_penalty": 1.3},
    ]
    return [generate_batch_ids(model, [PROMPT], **options, **way)[0] for way in ways]


def compared(path: Path, way: str, whole: Any, expected: dict[str, Any]) -> dict[str, Any]:
    load = load_tensor_parallel if way == "tensor" else load_pipeline_parallel
    try:
        model: Any = load(path, device)
    except InvalidArgument as refusal:
        return {"refused": str(refusal)}
    tokens, logits, log_probabilities = greedy(model, PROMPT)
    return {
        "tokens": tokens == expected["tokens"],
        "logits": float(np.abs(logits - expected["logits"]).max()),
        "log_probabilities": float(np.abs(np.subtract(log_probabilities, expected["log_probabilities"])).max()),
        "batch": generate_batch_ids(model, PROMPTS, max_tokens=10) == expected["batch"],
        "sampled": sampled(model) == expected["sampled"],
        "heads": [len(shard.heads.queries) for shard in model.shards],
        "keys": [list(shard.heads.keys) for shard in model.shards],
        "layers": [len(shard.layers) for shard in model.shards],
    }


def embedded(path: Path) -> dict[str, Any]:
    whole, model = load_model(path, device), load_tensor_parallel(path, device)
    sequences = [[2, 5, 9, 3], [2, 7, 3], [2, *range(10, 30), 3]]
    return {"vectors": float(np.abs(model.embed_ids(sequences) - whole.embed_ids(sequences)).max())}


for place in map(Path, sys.argv[1:]):
    if place.name.startswith("bert"):
        found: dict[str, Any] = {"tensor": embedded(place)}
    else:
        one = load_model(place, device)
        tokens, logits, log_probabilities = greedy(one, PROMPT)
        wanted = {"tokens": tokens, "logits": logits, "log_probabilities": log_probabilities}
        wanted |= {"batch": generate_batch_ids(one, PROMPTS, max_tokens=10), "sampled": sampled(one)}
        found = {way: compared(place, way, one, wanted) for way in ("tensor", "pipeline")}
    each_rank = group.gather_objects(found)
    if group.rank == 0:
        print(json.dumps([place.name, each_rank]), flush=True)

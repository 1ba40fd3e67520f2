"""SmolLM2 over the ranks: its tokens and logits, and the memory of this rank's weights, beside those of one process."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mlx_native_py import MlxDevice
from mlx_native_py import distributed as d
from mlx_native_py.models import load_model, model_path
from mlx_native_py.parallel import load_pipeline_parallel, load_tensor_parallel

PROMPT = [504, 3575, 282, 4649, 314]
group, device = d.init(), MlxDevice()
path = model_path("smollm2")


def allocated() -> int:
    return int(device.info()["currently_allocated"])


def greedy(model: Any) -> tuple[list[int], list[Any]]:
    decoder = model.make_decoder(model.make_cache())
    decoder.prefill([PROMPT])
    tokens, logits = [], []
    for _ in range(32):
        tokens += decoder.step()[0]
        if hasattr(decoder, "logits"):
            own = decoder.logits.numpy()
            logits.append(model.gathered(own) if hasattr(model, "gathered") else own.copy())
    return tokens, logits


before = allocated()
tensor = load_tensor_parallel(path, device)
weights = allocated() - before
tokens, logits = greedy(tensor)
staged, _ = greedy(load_pipeline_parallel(path, device))
before = allocated()
whole = load_model(path, device)
share = weights / (allocated() - before)
expected, right = greedy(whole)
found = {
    "tokens": tokens == expected,
    "pipeline": staged == expected,
    "logits": float(np.abs(np.array(logits) - np.array(right)).max()),
    "share": share,
}
each_rank = group.gather_objects(found)
if group.rank == 0:
    print(json.dumps(each_rank))

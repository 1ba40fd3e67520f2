"""A model whose layers are divided among ranks, and whose tokens are those of one process.

    mlx-native launch -n 2 python examples/parallel_model.py

Started by itself it is a group of one.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from mlx_native_py import MlxDevice, distributed
from mlx_native_py.models import generate_ids, load_model
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.parallel import load_pipeline_parallel, load_tensor_parallel

group = distributed.init()
with TemporaryDirectory() as folder, MlxDevice() as device:
    # Random weights, which are the same on every rank; a real model is a file that all ranks can read.
    path = write_tiny(Path(folder) / "model")
    whole = [each.token for each in generate_ids(load_model(path, device), [5, 17, 90], max_tokens=8)]
    for load in (load_tensor_parallel, load_pipeline_parallel):
        model = load(path, device)
        tokens = [each.token for each in generate_ids(model, [5, 17, 90], max_tokens=8)]
        part = model.shards[group.rank]
        print(
            f"rank {group.rank} of {group.size}: {len(part.heads.queries)} heads of {len(part.layers)} layers, "
            f"{'the same' if tokens == whole else 'other'} tokens as one process"
        )
    # No rank takes its device away while another one still uses its results.
    distributed.barrier()

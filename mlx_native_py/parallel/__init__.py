"""Parallel models: layers, heads and vocabulary partitioned among ranks."""

from __future__ import annotations

from .loading import load_pipeline_parallel, load_tensor_parallel
from .pipeline import PipelineCache, PipelineDecoder, PipelineParallel
from .shard import Shard, stage_shards, tensor_shards
from .tensor import TensorParallel, TensorParallelDecoder

__all__ = [
    "PipelineCache",
    "PipelineDecoder",
    "PipelineParallel",
    "Shard",
    "TensorParallel",
    "TensorParallelDecoder",
    "load_pipeline_parallel",
    "load_tensor_parallel",
    "stage_shards",
    "tensor_shards",
]

"""Loading of models over ranks: each reads its own part of the same file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from ..device import MlxDevice
from ..distributed import Group, init
from ..dtypes import DType
from ..models.loading import OpenedModel, activation_dtype, open_model
from ..shared_device import default_device
from ..weights import TensorFile
from .checkpoint import ShardCheckpoint
from .host_steps import HostSteps
from .pipeline import PipelineParallel
from .shard import stage_shards, tensor_shards
from .tensor import TensorParallel

__all__ = ["fingerprint", "load_pipeline_parallel", "load_tensor_parallel"]

_SAMPLE = 256  # bytes


def load_tensor_parallel(
    path: Path | str,
    device: MlxDevice | None = None,
    *,
    dtype: Any = DType.F32,
    family: type[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """A model whose layers are divided among the ranks; it takes the calls that a whole one takes, on all of them.

    `group` is that of all ranks by default; the other arguments are those of `load_model`.
    """
    ranks, opened, kind = _opened(path, dtype, family, group)
    shards, steps = tensor_shards(opened, ranks.size), HostSteps()
    checkpoint = ShardCheckpoint(opened, shards[ranks.rank], device or default_device(), kind, ranks, steps)
    part = opened.family(checkpoint, opened.metadata)
    return TensorParallel(part, shards, ranks, steps) if hasattr(part, "make_decoder") else part


def load_pipeline_parallel(
    path: Path | str,
    device: MlxDevice | None = None,
    *,
    dtype: Any = DType.F32,
    family: type[Any] | None = None,
    group: Group | None = None,
) -> PipelineParallel:
    """A model of which each rank has some of the layers; it takes the calls that a whole one takes, on all ranks.

    `group` is that of all ranks by default; the other arguments are those of `load_model`.
    """
    ranks, opened, kind = _opened(path, dtype, family, group)
    shards, steps = stage_shards(opened, ranks.size), HostSteps()
    alone = ranks.split(ranks.rank)
    checkpoint = ShardCheckpoint(opened, shards[ranks.rank], device or default_device(), kind, alone, steps)
    return PipelineParallel(opened.family(checkpoint, opened.metadata), shards, ranks, steps)


def _opened(
    path: Path | str, dtype: Any, family: type[Any] | None, group: Group | None
) -> tuple[Group, OpenedModel, DType]:
    ranks, kind = group or init(), activation_dtype(dtype)
    opened = open_model(path, family)
    ranks.agree("the fingerprint of the model file", fingerprint(opened.file))
    ranks.agree("the type of activations", str(kind))
    return ranks, opened, kind


def fingerprint(file: TensorFile) -> str:
    """A digest of all names, shapes and formats, and of the first and last bytes of every tensor.

    It tells models apart without reading them: each rank reads only its own part.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(file.items()):
        digest.update(repr((name, tensor.shape, tensor.format, tensor.nbytes)).encode())
        data, end = memoryview(tensor.file.data), tensor.offset + tensor.nbytes
        digest.update(data[tensor.offset : min(tensor.offset + _SAMPLE, end)])
        digest.update(data[max(end - _SAMPLE, tensor.offset) : end])
    return digest.hexdigest()

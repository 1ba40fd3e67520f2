"""Loading of parallel models: each rank reads its own part of the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..device import MlxDevice
from ..distributed import Group, init
from ..dtypes import DType
from ..models.loading import OpenedModel, activation_dtype, open_model
from ..shared_device import default_device
from .checkpoint import ShardCheckpoint
from .fingerprint import require_same_model
from .host_steps import HostSteps
from .pipeline import PipelineParallel
from .shard import stage_shards, tensor_shards
from .tensor import TensorParallel

__all__ = ["load_pipeline_parallel", "load_tensor_parallel"]


def load_tensor_parallel(
    path: Path | str,
    device: MlxDevice | None = None,
    *,
    dtype: Any = DType.F32,
    family: type[Any] | None = None,
    group: Group | None = None,
) -> Any:
    """Loads a model whose layers are partitioned among the ranks; all ranks call it like a whole model.

    `group` defaults to all ranks; the other arguments are those of `load_model`.
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
    """Loads a model of which each rank has some layers; all ranks call it like a whole model.

    `group` defaults to all ranks; the other arguments are those of `load_model`.
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
    require_same_model(ranks, opened.file)
    ranks.agree("the type of activations", str(kind))
    return ranks, opened, kind

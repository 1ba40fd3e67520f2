"""Shards: the part of a model on one rank, its config and its part of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Literal

from ..errors import InvalidArgument
from ..models.config import Config
from ..models.loading import OpenedModel
from ..models.split import Split
from ..weights import Tensor, TensorFile
from ..weights.ggml_types import GGML_TYPES
from ..weights.parts import part_of
from .ranges import Heads, even_ranges, head_parts, weighted_ranges

__all__ = ["PARTS", "Shard", "shard_file", "stage_shards", "tensor_shards"]

PARTS = ("weight", "scales", "biases", "bias")
"""The tensors that a module can have."""
_LAYER = re.compile(r"^(.*?(?:layers|layer|blk)\.)(\d+)(\..+)$")
_VALUES = 32  # dense rows are split at multiples of this if possible


@dataclass(frozen=True, slots=True)
class Shard:
    """The layers of a rank, and its heads and feed-forward units of each layer."""

    layers: range
    heads: Heads
    wide: range
    vocabulary: range
    """The tokens whose logits it computes; empty if another rank does."""
    leads: bool = True
    """Whether it adds the biases of row-parallel weights."""

    def config(self, whole: Config) -> Config:
        """The config of the model that this rank runs."""
        return replace(
            whole,
            n_layers=len(self.layers),
            sliding=whole.sliding[self.layers.start : self.layers.stop],
            n_heads=len(self.heads.queries),
            n_kv_heads=len(self.heads.keys),
            intermediate_size=len(self.wide),
        )

    def ranges(self, along: Literal["heads", "kv_heads", "wide", "vocabulary"], head_dim: int) -> list[range]:
        """The rows or columns of a weight on this rank."""
        queries = self.heads.queries
        match along:
            case "heads":
                return [range(queries.start * head_dim, queries.stop * head_dim)]
            case "kv_heads":
                return [range(key * head_dim, (key + 1) * head_dim) for key in self.heads.keys]
            case "wide":
                return [self.wide]
        return [self.vocabulary]


def _whole_shard(config: Config) -> Shard:
    """A shard with the whole model."""
    (heads,) = head_parts(config.n_heads, config.n_kv_heads, 1)
    return Shard(range(config.n_layers), heads, range(config.intermediate_size), range(config.vocab_size))


def tensor_shards(opened: OpenedModel, ranks: int) -> list[Shard]:
    """Tensor parallelism: heads, feed-forward units and vocabulary of every layer split among all ranks."""
    config = opened.config
    head_unit, wide_unit = 1, 1
    for module, split in opened.family.splits.items():
        for tensors in _modules(opened, module, range(config.n_layers)) if split.axis == "in" else ():
            border = _border(tensors, _extent(split, config))
            if split.along == "heads":
                head_unit = lcm(head_unit, border // gcd(border, config.head_dim))
            else:
                wide_unit = lcm(wide_unit, border)
    wide = config.intermediate_size
    if wide_unit == 1 and wide % _VALUES == 0 and wide // _VALUES >= ranks:
        wide_unit = _VALUES
    heads = head_parts(config.n_heads, config.n_kv_heads, ranks, head_unit)
    inside = even_ranges(wide, ranks, wide_unit, "values of the feed-forward network")
    tokens = even_ranges(config.vocab_size, ranks, what="tokens of the vocabulary")
    layers = range(config.n_layers)
    return [Shard(layers, heads[rank], inside[rank], tokens[rank], leads=rank == 0) for rank in range(ranks)]


def stage_shards(opened: OpenedModel, ranks: int) -> list[Shard]:
    """Pipeline parallelism: whole layers, in stages of about equal bytes; the last stage also has the vocabulary."""
    config = opened.config
    if not hasattr(opened.family, "make_decoder"):
        raise InvalidArgument(f"{config.model_type} embeds text; only models that write it are divided by layers")
    weights = [0] * config.n_layers
    for name, tensor in opened.file.items():
        if (match := _LAYER.match(name)) and int(match[2]) < config.n_layers:
            weights[int(match[2])] += tensor.nbytes
    head = "lm_head" if f"{opened.name('lm_head')}.weight" in opened.file else "embed_tokens"
    (tensors,) = _modules(opened, head, range(1))
    stages = weighted_ranges(weights, ranks, last=sum(tensor.nbytes for tensor in tensors.values()))
    whole = _whole_shard(config)
    return [
        replace(whole, layers=layers, vocabulary=whole.vocabulary if rank == ranks - 1 else range(0))
        for rank, layers in enumerate(stages)
    ]


def shard_file(opened: OpenedModel, shard: Shard) -> TensorFile:
    """The file as a rank sees it: its own layers, numbered from 0, and its part of each tensor."""
    cut: dict[str, Tensor | None] = {}
    for module, split in opened.family.splits.items():
        if split.along != "vocabulary":
            for tensors in _modules(opened, module, shard.layers):
                for part, tensor in tensors.items():
                    cut[tensor.name] = _cut(tensor, part, split, shard, opened.config)
    shards: dict[str, Tensor] = {}
    for name, tensor in opened.file.items():
        own = cut[name] if name in cut else part_of(tensor)
        match = _LAYER.match(name)
        if own is None or (match and int(match[2]) not in shard.layers):
            continue
        shards[f"{match[1]}{int(match[2]) - shard.layers.start}{match[3]}" if match else name] = own
    return TensorFile(opened.file.path, shards, opened.file.metadata)


def _modules(opened: OpenedModel, module: str, layers: range) -> Iterator[Mapping[str, Tensor]]:
    """The tensors of a module by part, for each layer that has it."""
    names = [module.replace("*", str(layer)) for layer in layers] if "*" in module else [module]
    for full in map(opened.name, names):
        tensors = {part: opened.file[f"{full}.{part}"] for part in PARTS if f"{full}.{part}" in opened.file}
        if tensors:
            yield tensors


def _border(tensors: Mapping[str, Tensor], extent: int) -> int:
    """The columns of a weight are split at multiples of this: blocks, or groups in whole words."""
    weight = tensors.get("weight")
    if weight is not None and weight.format in GGML_TYPES:
        return GGML_TYPES[weight.format].values
    if "scales" in tensors:
        return lcm(_VALUES, extent // tensors["scales"].shape[-1])
    return 1


def _cut(tensor: Tensor, part: str, split: Split, shard: Shard, config: Config) -> Tensor | None:
    ranges = shard.ranges(split.along, config.head_dim)
    if split.axis == "out":
        return part_of(tensor, ranges)
    if part == "bias":
        return part_of(tensor) if shard.leads else None
    (values,), extent, width = ranges, _extent(split, config), tensor.shape[-1]
    # Each packed word and each scale group covers several values.
    return part_of(tensor, None, range(values.start * width // extent, values.stop * width // extent))


def _extent(split: Split, config: Config) -> int:
    """The inputs of a whole row-parallel weight."""
    return config.intermediate_size if split.along == "wide" else config.n_heads * config.head_dim

"""A simple model of the time of a token: a rank reads its weights once, and exchanges take a latency and their bytes.

Tensor-parallel: weights / bandwidth + 2 sums a layer x (latency + bytes / link). Pipeline-parallel: the same reading,
one rank after the other, and a message from each to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from ..models.loading import OpenedModel
from ..weights.parts import part_of
from .shard import PARTS, Shard, shard_file, stage_shards, tensor_shards

__all__ = ["Estimate", "Machine", "estimate", "rank_bytes"]

_ACTIVATION = 4  # bytes of a value that is exchanged


@dataclass(frozen=True, slots=True)
class Machine:
    """What an estimate goes by, in bytes per second and seconds."""

    bandwidth: float
    """At which a rank reads weights while it decodes."""
    link: float
    """Between two ranks."""
    latency: float
    """Of an exchange, with the command buffer that ends before it."""

    def exchange(self, nbytes: int) -> float:
        return self.latency + nbytes / self.link


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of a token, and of that time what is communication."""

    ranks: int
    way: str
    """"tensor", "pipeline", or "one process"."""
    nbytes: tuple[int, ...]
    """Weights of each rank."""
    token: float
    """From one token of a sequence to its next."""
    communication: float
    between: float
    """From one token to the next of any sequence, where as many are in flight as there are ranks."""


def estimate(opened: OpenedModel, ranks: int, way: str, machine: Machine) -> Estimate:
    """The time of a token, from what the header of the file says."""
    if ranks == 1:
        (nbytes,) = sizes = _sizes(opened, tensor_shards(opened, 1))
        token = nbytes / machine.bandwidth
        return Estimate(1, "one process", sizes, token, 0.0, token)
    exchanged = opened.config.hidden_size * _ACTIVATION
    if way == "tensor":
        sizes = _sizes(opened, tensor_shards(opened, ranks))
        # Sums go over the ranks in rounds of pairs; the last exchange is that of the token.
        sums = 2 * opened.config.n_layers * machine.exchange(exchanged) + machine.latency
        communication = ceil(log2(ranks)) * sums
        token = max(sizes) / machine.bandwidth + communication
        return Estimate(ranks, way, sizes, token, communication, token)
    sizes = _sizes(opened, stage_shards(opened, ranks))
    communication = (ranks - 1) * machine.exchange(exchanged) + machine.latency
    token = sum(sizes) / machine.bandwidth + communication
    return Estimate(
        ranks, way, sizes, token, communication, max(sizes) / machine.bandwidth + machine.exchange(exchanged)
    )


def _sizes(opened: OpenedModel, shards: Sequence[Shard]) -> tuple[int, ...]:
    return tuple(rank_bytes(opened, shard) for shard in shards)


def rank_bytes(opened: OpenedModel, shard: Shard) -> int:
    """Bytes of the weights that a rank has, and reads for every token."""
    tables = {f"{opened.name(module)}.{part}" for module in _tables(opened) for part in PARTS}
    whole = shard_file(opened, shard)
    total = sum(tensor.nbytes for name, tensor in whole.items() if name not in tables)
    if not shard.vocabulary:
        return total
    names = (f"{opened.name(module)}.weight" for module in ("lm_head", "embed_tokens") if module in _tables(opened))
    head = next((name.removesuffix(".weight") for name in names if name in opened.file), None)
    parts = [opened.file[f"{head}.{part}"] for part in PARTS if f"{head}.{part}" in opened.file]
    return total + sum(part_of(tensor, [shard.vocabulary]).nbytes for tensor in parts)


def _tables(opened: OpenedModel) -> list[str]:
    return [module for module, split in opened.family.splits.items() if split.along == "vocabulary"]

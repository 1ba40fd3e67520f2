"""A simple model of the time per token: weights are read once, and exchanges cost latency plus bytes.

Tensor-parallel: weights / bandwidth + 2 sums per layer x (latency + bytes / link). Pipeline-parallel: the same reading,
one rank after another, and a message between neighbours. A tensor takes longer if the processor cannot multiply as fast
as memory delivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, log2

from ..models.loading import OpenedModel
from ..weights import Tensor
from ..weights.parts import part_of
from .shard import PARTS, Shard, shard_file, stage_shards, tensor_shards

__all__ = ["Estimate", "Machine", "calibrated", "estimate", "rank_bytes"]

_ACTIVATION_BYTES = 4  # bytes per exchanged value


_Part = Sequence[tuple[int, int]]  # bytes and weights of each tensor that a rank has


@dataclass(frozen=True, slots=True)
class Machine:
    """The parameters of an estimate, in bytes per second and seconds."""

    bandwidth: float
    """At which a rank reads weights while decoding."""
    link: float
    """Between two ranks."""
    latency: float
    """Of an exchange, including the end of the command buffer before it."""
    rate: float = inf
    """Weights per second that a rank can multiply, regardless of memory."""

    def exchange(self, nbytes: int) -> float:
        return self.latency + nbytes / self.link

    def reading(self, part: _Part) -> float:
        """Seconds to read all weights of a rank once."""
        return sum(max(nbytes / self.bandwidth, weights / self.rate) for nbytes, weights in part)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds per token, and the part of it that is communication."""

    ranks: int
    way: str
    """"tensor", "pipeline", or "one process"."""
    nbytes: tuple[int, ...]
    """Weights of each rank."""
    token: float
    """Seconds between tokens of one sequence."""
    communication: float
    between: float
    """Seconds between tokens of any sequence, with as many in flight as there are ranks."""


def estimate(opened: OpenedModel, ranks: int, way: str, machine: Machine) -> Estimate:
    """The time per token, from the header of the file."""
    if ranks == 1:
        way, shards = "one process", tensor_shards(opened, 1)
    else:
        shards = (tensor_shards if way == "tensor" else stage_shards)(opened, ranks)
    parts = [_part(opened, shard) for shard in shards]
    sizes = tuple(sum(nbytes for nbytes, _ in part) for part in parts)
    times = [machine.reading(part) for part in parts]
    exchanged = opened.config.hidden_size * _ACTIVATION_BYTES
    if ranks == 1:
        return Estimate(1, way, sizes, times[0], 0.0, times[0])
    if way == "tensor":
        # All-reduce takes rounds of pairwise exchanges; the last message is the token's.
        sums = 2 * opened.config.n_layers * machine.exchange(exchanged) + machine.latency
        communication = ceil(log2(ranks)) * sums
        token = max(times) + communication
        return Estimate(ranks, way, sizes, token, communication, token)
    communication = (ranks - 1) * machine.exchange(exchanged) + machine.latency
    return Estimate(
        ranks, way, sizes, sum(times) + communication, communication, max(times) + machine.exchange(exchanged)
    )


def calibrated(opened: OpenedModel, machine: Machine, seconds: float) -> Machine:
    """The machine with a rate or bandwidth such that one process takes the measured time per token."""
    (shard,) = tensor_shards(opened, 1)
    part = _part(opened, shard)
    if machine.reading(part) >= seconds:
        return replace(machine, bandwidth=sum(nbytes for nbytes, _ in part) / seconds)
    low, high = 0.0, sum(weights for _, weights in part) / seconds * len(part)
    while high - low > high * 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if replace(machine, rate=middle).reading(part) < seconds else (middle, high)
    return replace(machine, rate=high)


def rank_bytes(opened: OpenedModel, shard: Shard) -> int:
    """Bytes of weights that a rank reads for every token."""
    return sum(nbytes for nbytes, _ in _part(opened, shard))


def _part(opened: OpenedModel, shard: Shard) -> _Part:
    tables = {f"{opened.name(module)}.{part}" for module in _tables(opened) for part in PARTS}
    tensors = [tensor for name, tensor in shard_file(opened, shard).items() if name not in tables]
    if shard.vocabulary:
        names = (f"{opened.name(module)}.weight" for module in ("lm_head", "embed_tokens") if module in _tables(opened))
        head = next((name.removesuffix(".weight") for name in names if name in opened.file), None)
        whole = [opened.file[f"{head}.{part}"] for part in PARTS if f"{head}.{part}" in opened.file]
        tensors += [part_of(tensor, [shard.vocabulary]) for tensor in whole]
    return [(tensor.nbytes, _weights(opened, tensor)) for tensor in tensors]


def _weights(opened: OpenedModel, tensor: Tensor) -> int:
    """The number of weights in a tensor, unpacked; none for scales and biases of groups."""
    module, _, kind = tensor.name.rpartition(".")
    if kind != "weight":
        return 0
    if f"{module}.scales" not in opened.file:
        return tensor.size
    table = opened.config.quantization
    own = table.get(module)
    bits = (own if isinstance(own, Mapping) else table).get("bits", 4)
    return tensor.size * 32 // bits if isinstance(bits, int) and bits > 0 else tensor.size


def _tables(opened: OpenedModel) -> list[str]:
    return [module for module, split in opened.family.splits.items() if split.along == "vocabulary"]

"""Pipeline parallelism: each rank has some of the layers, and sequences go from rank to rank.

A batch is divided into micro-batches, so that a rank can work on one while the next rank works on the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..distributed import Group, recv
from ..distributed.messages import isend
from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..models.cache import KVCache, LayerCache, StepInputs
from ..models.decoder import Decoder, Sampling
from .host_steps import HostSteps, StepPlan
from .ranges import even_ranges
from .shard import Shard

__all__ = ["PipelineCache", "PipelineDecoder", "PipelineParallel", "StageDecoder"]


class PipelineParallel:
    """This rank's layers of a model; all ranks make the same calls and get the same tokens."""

    def __init__(self, part: Any, shards: Sequence[Shard], group: Group, steps: HostSteps) -> None:
        self.part = part
        """The model of this rank, whose config has its own layers."""
        self.shards = tuple(shards)
        """The shard of each rank."""
        self.group = group
        self.steps = steps
        self.is_first, self.is_last = group.rank == 0, group.rank == group.size - 1
        self.config, self.device, self.dtype = part.config, part.device, part.dtype
        self.path, self.metadata, self.step_templates = part.path, part.metadata, part.step_templates

    def __call__(self, enc: Encoder, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer:
        """Hidden states after this rank's layers; the input comes from the previous rank."""
        group = self.group
        if self.is_first:
            x = self.part.embedded(enc, inputs.tokens)
        else:
            x = self.device.empty((inputs.batch * inputs.queries, self.config.hidden_size), self.dtype)
            self.steps.add(enc, lambda: recv(x.shape, x.dtype, group.rank - 1, out=x, group=group), x)
        y: MlxBuffer = self.part.hidden(enc, x, inputs, layers)
        if not self.is_last:
            self.steps.add(enc, lambda: isend(y, group.rank + 1, group=group), y)
        return y

    def logits(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        """Logits of all tokens, on the last rank."""
        logits: MlxBuffer = self.part.logits(enc, x)
        return logits

    def make_cache(self, *, batch: int = 1, **options: Any) -> PipelineCache:
        """An empty KV cache for this rank's layers; options as for a whole model."""
        micro_batches = even_ranges(batch, min(batch, self.group.size), what="sequences")
        return PipelineCache([self.part.make_cache(batch=len(each), **options) for each in micro_batches])

    def make_decoder(self, cache: PipelineCache, sampling: Sampling | None = None) -> PipelineDecoder:
        """A decoder over the sequences of a cache."""
        return PipelineDecoder(self, cache, sampling)

    def __repr__(self) -> str:
        return f"<{self.part!r}, pipeline-parallel, rank {self.group.rank} of {self.group.size}>"


class PipelineCache:
    """The KV caches of one rank, one for each micro-batch."""

    def __init__(self, micro_batches: Sequence[KVCache]) -> None:
        self.micro_batches = tuple(micro_batches)

    @property
    def batch(self) -> int:
        return sum(each.batch for each in self.micro_batches)

    @property
    def nbytes(self) -> int:
        return sum(each.nbytes for each in self.micro_batches)


class StageDecoder(Decoder):
    """Decodes one micro-batch on one rank: `begin` runs this rank's layers, `finish` receives the sampled tokens."""

    model: PipelineParallel
    plans_prompts = False

    def _record(self) -> tuple[StepPlan, MlxBuffer]:
        inputs = self.inputs
        with self.model.device.capture(tokens=inputs.tokens, log_probabilities=self.log_probabilities) as graph:
            enc = graph.encoder
            results = self.model(enc, inputs, self.cache.layers)
            if self.model.is_last:
                results = self.model.logits(enc, results)
                self._sample(enc, results)
                graph.keep(logits=results)
        return self.model.steps.plan(graph, "decode"), results

    def begin(self) -> None:
        """Runs the micro-batch through this rank's layers and sends the result to the next rank."""
        # A finished sequence stays at its position while others of its micro-batch continue.
        longest = self.model.config.max_positions
        self.cache.lengths = lengths = [min(length, longest - 1) for length in self.cache.lengths]
        self._reserve(max(lengths) + 1)
        self.inputs.set_positions(lengths)
        self.plan.run()
        self._note_memory()
        self.cache.lengths = [length + 1 for length in lengths]
        group = self.model.group
        if self.model.is_last:
            sampled = np.stack([self.inputs.tokens.numpy(), self.log_probabilities.numpy().view(np.uint32)])
            for rank in range(group.rank):
                isend(sampled, rank, group=group)

    def finish(self) -> tuple[list[int], list[float]]:
        """The tokens of the current step, sampled by the last rank."""
        group = self.model.group
        if not self.model.is_last:
            sampled = recv((2, self.cache.batch), DType.U32, group.size - 1, group=group)
            self.inputs.tokens.copy_from(sampled[0])
            self.log_probabilities.copy_from(sampled[1].view(np.float32))
        tokens: list[int] = self.inputs.tokens.numpy().tolist()
        self.history.add(tokens)
        return tokens, self.log_probabilities.numpy().tolist()

    def step(self) -> tuple[list[int], list[float]]:
        self.begin()
        return self.finish()


class PipelineDecoder:
    """Decodes a batch in micro-batches over the ranks, one token per sequence and step."""

    def __init__(self, model: PipelineParallel, cache: PipelineCache, sampling: Sampling | None = None) -> None:
        self.model = model
        self.cache = cache
        self.micro_batches = [StageDecoder(model, each, sampling) for each in cache.micro_batches]

    @property
    def peak_bytes(self) -> int:
        """The most memory of this rank's device in use after a step."""
        return max(micro_batch.peak_bytes for micro_batch in self.micro_batches)

    def prefill(self, prompts: Sequence[Sequence[int]], progress: Callable[[int, int], None] | None = None) -> None:
        """Processes a prompt for each sequence, in chunks, after what the cache holds."""
        if len(prompts) != self.cache.batch:
            raise InvalidArgument(f"prefill: {len(prompts)} prompts, expected {self.cache.batch}, one per sequence")
        for micro_batch, part in zip(self.micro_batches, self._parts(prompts), strict=True):
            micro_batch.prefill(part, progress)

    def _parts(self, each_sequence: Sequence[Any]) -> list[Sequence[Any]]:
        parts, at = [], 0
        for micro_batch in self.micro_batches:
            parts.append(each_sequence[at : at + micro_batch.cache.batch])
            at += micro_batch.cache.batch
        return parts

    def step(self) -> tuple[list[int], list[float]]:
        """Generates one token per sequence; returns the tokens and their log-probabilities."""
        for micro_batch in self.micro_batches:
            micro_batch.begin()
        tokens, log_probabilities = [], []
        for micro_batch in self.micro_batches:
            more, logs = micro_batch.finish()
            tokens += more
            log_probabilities += logs
        return tokens, log_probabilities

    def sequences(
        self, prompts: Sequence[Sequence[int]], most: Sequence[int], stops: Collection[int]
    ) -> list[list[int]]:
        """Generated tokens for each prompt, up to its entry in `most` or a token of `stops`.

        Micro-batches do not wait for each other.
        """
        self.prefill(prompts)
        generated: list[list[int]] = [[] for _ in prompts]
        rows, counts = self._parts(generated), self._parts(most)
        under_way = list(range(len(self.micro_batches)))
        for micro_batch in under_way:
            self.micro_batches[micro_batch].begin()
        while under_way:
            for micro_batch in tuple(under_way):
                tokens, _ = self.micro_batches[micro_batch].finish()
                open_ones = False
                for row, token, count in zip(rows[micro_batch], tokens, counts[micro_batch], strict=True):
                    if len(row) < count and not (row and row[-1] in stops):
                        row.append(token)
                        open_ones |= len(row) < count and token not in stops
                if open_ones:
                    self.micro_batches[micro_batch].begin()
                else:
                    under_way.remove(micro_batch)
        return generated

"""Tensor parallelism: every layer is split among the ranks, which sum their results twice per layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..distributed import Group, all_gather, broadcast
from ..dtypes import DType
from ..encoder import Encoder
from ..memory.buffer import Array, MlxBuffer
from ..models.cache import KVCache, LayerCache, StepInputs
from ..models.decoder import Decoder, Sampling
from ..ops import softmax_sample
from .host_steps import HostSteps, StepPlan
from .shard import Shard

__all__ = ["TensorParallel", "TensorParallelDecoder"]


class TensorParallel:
    """This rank's part of a model; all ranks make the same calls and get the same tokens."""

    def __init__(self, part: Any, shards: Sequence[Shard], group: Group, steps: HostSteps) -> None:
        self.part = part
        """The model of this rank, whose config has its own heads."""
        self.shards = tuple(shards)
        """The shard of each rank."""
        self.group = group
        self.steps = steps
        self.config, self.device, self.dtype = part.config, part.device, part.dtype
        self.path, self.metadata, self.step_templates = part.path, part.metadata, part.step_templates
        self.make_cache = part.make_cache

    def __call__(self, enc: Encoder, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer:
        """Hidden states, which are the same on all ranks."""
        states: MlxBuffer = self.part(enc, inputs, layers)
        return states

    def logits(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer:
        """Logits of this rank's tokens; see `gathered`."""
        logits: MlxBuffer = self.part.logits(enc, x)
        return logits

    def gathered(self, logits: Array) -> Array:
        """The logits of all tokens, [rows, vocab_size], from each rank's own."""
        rows, lengths = len(logits), [len(shard.vocabulary) for shard in self.shards]
        # Ranks send equal counts, so those with fewer tokens pad.
        sent = np.zeros((rows, max(lengths)), logits.dtype)
        sent[:, : logits.shape[1]] = logits
        parts = all_gather(sent, group=self.group).reshape(self.group.size, rows, -1)
        return np.concatenate([part[:, :length] for part, length in zip(parts, lengths, strict=True)], axis=1)

    def make_decoder(self, cache: KVCache, sampling: Sampling | None = None) -> TensorParallelDecoder:
        """A decoder over the sequences of a cache."""
        return TensorParallelDecoder(self, cache, sampling)

    def __repr__(self) -> str:
        return f"<{self.part!r}, tensor-parallel, rank {self.group.rank} of {self.group.size}>"


class TensorParallelDecoder(Decoder):
    """A decoder with sums over ranks inside its steps, which samples from the logits of all ranks."""

    model: TensorParallel

    plans_prompts = False

    def _record(self) -> tuple[StepPlan, MlxBuffer]:
        with self.model.device.capture(**self._buffers()) as graph:
            results = self._encode(graph.encoder)
            graph.keep(**results)
        return self.model.steps.plan(graph, "decode"), results["logits"]

    def _replay(self) -> None:
        self.plan.run()
        self._note_memory()

    def _sample(self, enc: Encoder, logits: MlxBuffer) -> None:
        how, steps = self.sampling, self.model.steps
        if how.temperature == 0 and how.repetition_penalty == 1:
            token, log_probability = softmax_sample(enc, logits, temperature=0.0)
            touched = logits, token, log_probability
            steps.add(enc, lambda: self._choose(*touched), *touched)
            return
        every = self.model.device.empty((self.cache.batch, self.model.config.vocab_size), logits.dtype)
        steps.add(enc, lambda: every.copy_from(self.model.gathered(logits.numpy())), logits, every)
        super()._sample(enc, every)
        sampled = self.inputs.tokens, self.log_probabilities
        # Different processors may round differently, so the first rank's choice is used.
        steps.add(enc, lambda: [broadcast(each, out=each, group=self.model.group) for each in sampled], *sampled)

    def _choose(self, logits: MlxBuffer, token: MlxBuffer, log_probability: MlxBuffer) -> None:
        """The largest logit over all ranks; ties go to the first. Exchanges small numbers instead of logits."""
        own, group = token.numpy(), self.model.group
        best = logits.numpy()[np.arange(self.cache.batch), own].astype(np.float64)
        candidates = all_gather(np.stack([best, log_probability.numpy(), own])[None], group=group)
        highest, log_share, index = candidates[:, 0], candidates[:, 1], candidates[:, 2]
        highest = np.where(np.isnan(highest), -np.inf, highest)
        winner, rows = highest.argmax(axis=0), np.arange(self.cache.batch)
        first = np.array([shard.vocabulary.start for shard in self.model.shards])
        self.inputs.tokens.copy_from((index[winner, rows] + first[winner]).astype(np.uint32))
        # A rank's log-probability is minus the logarithm of the sum of exp(logit - highest).
        total = np.logaddexp.reduce(highest - log_share, axis=0)
        self.log_probabilities.copy_from((highest[winner, rows] - total).astype(DType.F32.numpy))

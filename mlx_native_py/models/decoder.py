"""Autoregressive decoding: one step, recorded once and replayed for every token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..graph import ComputeGraph
from ..memory.buffer import MlxBuffer
from ..ops import softmax_sample
from .cache import KVCache, LayerCache, StepInputs
from .config import Config

__all__ = ["Decoder", "Sampling", "TextModel"]


class TextModel(Protocol):
    """What a decoder needs of a model: tokens to hidden states, hidden states to logits."""

    config: Config
    device: MlxDevice

    def __call__(self, enc: Encoder, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer: ...

    def logits(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer: ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen; with temperature 0 it is the likeliest."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_context_size: int = 20
    """How many of the last tokens are penalised."""
    seed: int = 0


class Decoder:
    """Sequences that grow by a token each at every step.

    A prompt is prefilled but for its last token, which the first step takes; `logits` are those of the last step.
    """

    def __init__(self, model: TextModel, cache: KVCache, sampling: Sampling | None = None) -> None:
        self.model = model
        self.cache = cache
        self.sampling = sampling or Sampling()
        device, batch = model.device, cache.batch
        self.inputs = StepInputs(device, batch, 1)
        self.log_probabilities = device.empty(batch, DType.F32)
        self.history = _History(self, prompts=[()] * batch)
        self.peak_bytes = 0
        """The most memory of the device that was in use when a command buffer was committed."""
        self._record()

    def _record(self) -> None:
        """Records the step over the buffers of now."""
        inputs = self.inputs
        with self.model.device.capture(tokens=inputs.tokens, log_probabilities=self.log_probabilities) as graph:
            enc = graph.encoder
            logits = self.model.logits(enc, self.model(enc, inputs, self.cache.layers))
            self._sample(enc, logits)
            graph.keep(logits=logits)
        self.logits: MlxBuffer = logits
        self.plan = self._planned(graph)

    def _planned(self, graph: ComputeGraph) -> Any:
        """The recorded step, made ready to be replayed."""
        return graph.optimise().plan()

    def _sample(self, enc: Encoder, logits: MlxBuffer) -> None:
        how = self.sampling
        softmax_sample(
            *(enc, logits),
            temperature=how.temperature,
            top_k=how.top_k,
            top_p=how.top_p,
            min_p=how.min_p,
            repetition_penalty=how.repetition_penalty,
            history=self.history.tokens,
            history_length=self.history.lengths,
            seed=how.seed,
            step=self.inputs.lengths,
            out=self.inputs.tokens,
            log_probability=self.log_probabilities,
        )

    def prefill(self, prompts: Sequence[Sequence[int]], progress: Callable[[int, int], None] | None = None) -> None:
        """Takes in a prompt for each sequence, in chunks, behind what the cache has."""
        prompts = [_checked(prompt, self.model.config.vocab_size) for prompt in prompts]
        if len(prompts) != self.cache.batch:
            raise InvalidArgument(f"prefill: {len(prompts)} prompts, expected {self.cache.batch}, one per sequence")
        cache, total, done = self.cache, sum(map(len, prompts)), 0
        longest = max(length + len(prompt) for length, prompt in zip(cache.lengths, prompts, strict=True))
        if cache.reserve(longest):
            self._record()
        self.history.begin(prompts)
        for sequence, prompt in enumerate(prompts):
            for first in range(0, len(prompt) - 1, cache.chunk):
                chunk = prompt[first : min(first + cache.chunk, len(prompt) - 1)]
                self._take_in(sequence, chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            self.inputs.tokens.numpy()[sequence] = prompt[-1]

    def _take_in(self, sequence: int, chunk: Sequence[int]) -> None:
        inputs = StepInputs(self.model.device, 1, len(chunk))
        inputs.tokens.copy_from(np.asarray(chunk, np.uint32))
        inputs.set_positions([self.cache.lengths[sequence]])
        with self.model.device.command_encoder() as enc:
            self.model(enc, inputs, self.cache.row(sequence))
            self._note_memory()
            enc.commit_and_wait(label="prefill")
        self.cache.lengths[sequence] += len(chunk)

    def step(self) -> tuple[list[int], list[float]]:
        """One more token of each sequence, and the logarithms of their probabilities."""
        lengths = self.cache.lengths
        if self.cache.reserve(max(lengths) + 1):
            self._record()
        self.inputs.set_positions(lengths)
        self._replay()
        self.cache.lengths = [length + 1 for length in lengths]
        tokens: list[int] = self.inputs.tokens.numpy().tolist()
        self.history.add(tokens)
        return tokens, self.log_probabilities.numpy().tolist()

    def sequences(
        self, prompts: Sequence[Sequence[int]], most: Sequence[int], stops: Collection[int]
    ) -> list[list[int]]:
        """The tokens behind each prompt, up to as many as `most` says for it, or one of `stops`."""
        self.prefill(prompts)
        generated: list[list[int]] = [[] for _ in prompts]
        open_ones = {sequence for sequence, count in enumerate(most) if count > 0}
        longest = self.model.config.max_positions
        while open_ones:
            # One that has ended stays where it is while the others go on.
            self.cache.lengths = [min(length, longest - 1) for length in self.cache.lengths]
            tokens, _ = self.step()
            for sequence in sorted(open_ones):
                generated[sequence].append(tokens[sequence])
            open_ones = {
                sequence
                for sequence in open_ones
                if tokens[sequence] not in stops and len(generated[sequence]) < most[sequence]
            }
        return generated

    def _replay(self) -> None:
        with self.model.device.command_encoder() as enc:
            self.plan.encode(enc)
            self._note_memory()
            enc.commit_and_wait(label="decode")

    def _note_memory(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self.model.device.info()["currently_allocated"])


class _History:
    """The last tokens of each sequence, where the device sees them; nothing where there is no penalty."""

    def __init__(self, decoder: Decoder, prompts: Sequence[Sequence[int]]) -> None:
        how, device = decoder.sampling, decoder.model.device
        self._size = how.repetition_context_size
        self.tokens: MlxBuffer | None = None
        self.lengths: MlxBuffer | None = None
        if how.repetition_penalty != 1:
            if self._size < 1:
                raise InvalidArgument(f"Sampling: repetition_context_size is {self._size}, expected at least 1")
            self.tokens = device.empty((len(prompts), self._size), DType.U32)
            self.lengths = device.empty(len(prompts), DType.U32)
        self.begin(prompts)

    def begin(self, prompts: Sequence[Sequence[int]]) -> None:
        self._seen = [0] * len(prompts)
        if self.lengths is not None:
            self.lengths.fill(0)
        for sequence, prompt in enumerate(prompts):
            for token in prompt[-self._size :]:
                self._put(sequence, token)

    def add(self, tokens: Sequence[int]) -> None:
        for sequence, token in enumerate(tokens):
            self._put(sequence, token)

    def _put(self, sequence: int, token: int) -> None:
        if self.tokens is None or self.lengths is None:
            return
        self.tokens.numpy()[sequence, self._seen[sequence] % self._size] = token
        self._seen[sequence] += 1
        self.lengths.numpy()[sequence] = min(self._seen[sequence], self._size)


def _checked(prompt: Sequence[int], vocab_size: int) -> list[int]:
    tokens = [int(token) for token in prompt]
    if not tokens:
        raise InvalidArgument("prefill: a prompt has no tokens, expected at least one")
    if not all(0 <= token < vocab_size for token in tokens):
        wrong = next(token for token in tokens if not 0 <= token < vocab_size)
        raise InvalidArgument(f"prefill: a prompt has token {wrong}, expected 0 to {vocab_size - 1}")
    return tokens

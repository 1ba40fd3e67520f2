"""Autoregressive decoding: one step, recorded once and replayed for every token."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import Encoder
from ..errors import InvalidArgument
from ..graph import Template
from ..memory.buffer import MlxBuffer
from ..ops import softmax_sample
from .cache import KVCache, LayerCache, StepInputs, named_parts
from .config import Config
from .steps import step_graph

__all__ = ["Decoder", "Sampling", "TextModel"]

_WORTH_A_PLAN = 3
"""The number of prompt chunks of equal length from which recording one pays off."""


class TextModel(Protocol):
    """The interface of a model that a decoder needs: tokens to hidden states, hidden states to logits."""

    config: Config
    device: MlxDevice
    step_templates: dict[Hashable, Template]
    """Recorded steps, reused by later decoders."""

    def __call__(self, enc: Encoder, inputs: StepInputs, layers: Sequence[LayerCache]) -> MlxBuffer: ...

    def logits(self, enc: Encoder, x: MlxBuffer) -> MlxBuffer: ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen; with temperature 0, the most likely one."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_context_size: int = 20
    """How many of the last tokens are penalised."""
    seed: int = 0


class Decoder:
    """Generates one token per sequence and step.

    `prefill` processes all but the last token of a prompt, which the first step takes; `logits` are those of the last
    step.
    """

    plans_prompts: ClassVar[bool] = True
    """Whether prompt chunks of one length are recorded once; not if the CPU takes part in a step."""

    def __init__(self, model: TextModel, cache: KVCache, sampling: Sampling | None = None) -> None:
        self.model = model
        self.cache = cache
        self.sampling = sampling or Sampling()
        device, batch = model.device, cache.batch
        self.inputs = StepInputs(device, batch, 1)
        self.log_probabilities = device.empty(batch, DType.F32)
        self.history = _History(self, prompts=[()] * batch)
        self.peak_bytes = 0
        """The most device memory in use when a command buffer was committed."""
        self._chunk_plans: dict[tuple[int, int], _ChunkPlan] = {}
        """By sequence and number of tokens."""
        self._step: tuple[Any, MlxBuffer] | None = None
        self._noted: Any = None
        """The plan whose memory is included in `peak_bytes`."""

    @property
    def plan(self) -> Any:
        """The recorded step."""
        return self._recorded()[0]

    @property
    def logits(self) -> MlxBuffer:
        """The logits of the last step, [batch, vocab_size]."""
        return self._recorded()[1]

    def _recorded(self) -> tuple[Any, MlxBuffer]:
        if self._step is None:
            self._step = self._record()
        return self._step

    def _record(self) -> tuple[Any, MlxBuffer]:
        """Records the step over the current buffers; returns its plan and logits."""
        graph = step_graph(self.model, self.sampling, self._buffers(), self._encode)
        return graph.plan(), graph.names["logits"]

    def _reserve(self, length: int) -> None:
        """Makes room for sequences of `length` tokens; steps recorded over smaller buffers are dropped."""
        if self.cache.reserve(length):
            self._step = None
            self._chunk_plans.clear()

    def _encode(self, enc: Encoder) -> dict[str, MlxBuffer]:
        logits = self.model.logits(enc, self.model(enc, self.inputs, self.cache.layers))
        self._sample(enc, logits)
        return {"logits": logits}

    def _buffers(self) -> dict[str, MlxBuffer]:
        """The buffers that a step uses besides weights, by name."""
        past = {"history": self.history.tokens, "history_lengths": self.history.lengths}
        used = {name: buffer for name, buffer in past.items() if buffer is not None}
        results = {"log_probabilities": self.log_probabilities}
        return {**self.inputs.buffers, **named_parts(self.cache.layers), **used, **results}

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

    def prepare(self, chunk: int) -> None:
        """Compiles the kernels of a step, and of a prompt chunk of so many tokens, without running them."""
        self._recorded()
        if self.plans_prompts:
            _ChunkPlan(self.model, self.cache.row(0), chunk)

    def prefill(self, prompts: Sequence[Sequence[int]], progress: Callable[[int, int], None] | None = None) -> None:
        """Processes a prompt for each sequence, in chunks, after what the cache holds."""
        prompts = [_checked(prompt, self.model.config.vocab_size) for prompt in prompts]
        if len(prompts) != self.cache.batch:
            raise InvalidArgument(f"prefill: {len(prompts)} prompts, expected {self.cache.batch}, one per sequence")
        cache, total, done = self.cache, sum(map(len, prompts)), 0
        longest = max(length + len(prompt) for length, prompt in zip(cache.lengths, prompts, strict=True))
        self._reserve(longest)
        self.history.begin(prompts)
        for sequence, prompt in enumerate(prompts):
            chunks = [
                prompt[at : min(at + cache.chunk, len(prompt) - 1)] for at in range(0, len(prompt) - 1, cache.chunk)
            ]
            for number, chunk in enumerate(chunks):
                again = sum(len(other) == len(chunk) for other in chunks[number:])
                self._take_in(sequence, chunk, replays=again >= _WORTH_A_PLAN)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
            self.inputs.tokens.numpy()[sequence] = prompt[-1]

    def _take_in(self, sequence: int, chunk: Sequence[int], *, replays: bool) -> None:
        key = sequence, len(chunk)
        if replays and self.plans_prompts and key not in self._chunk_plans:
            self._chunk_plans[key] = _ChunkPlan(self.model, self.cache.row(sequence), len(chunk))
        plan = self._chunk_plans.get(key)
        inputs = plan.inputs if plan is not None else StepInputs(self.model.device, 1, len(chunk))
        inputs.tokens.copy_from(np.asarray(chunk, np.uint32))
        inputs.set_positions([self.cache.lengths[sequence]])
        with self.model.device.command_encoder() as enc:
            if plan is not None:
                plan.plan.encode(enc)
            else:
                self.model(enc, inputs, self.cache.row(sequence))
            self._note_memory()
            ticket = enc.commit(label="prefill")
            self._recorded()  # while the device is busy
            ticket.wait()
        self.cache.lengths[sequence] += len(chunk)

    def step(self) -> tuple[list[int], list[float]]:
        """Generates one token per sequence; returns the tokens and their log-probabilities."""
        lengths = self.cache.lengths
        self._reserve(max(lengths) + 1)
        self.inputs.set_positions(lengths)
        self._replay()
        self.cache.lengths = [length + 1 for length in lengths]
        tokens: list[int] = self.inputs.tokens.numpy().tolist()
        self.history.add(tokens)
        return tokens, self.log_probabilities.numpy().tolist()

    def sequences(
        self, prompts: Sequence[Sequence[int]], most: Sequence[int], stops: Collection[int]
    ) -> list[list[int]]:
        """Generated tokens for each prompt, up to its entry in `most` or a token of `stops`."""
        self.prefill(prompts)
        generated: list[list[int]] = [[] for _ in prompts]
        open_ones = {sequence for sequence, count in enumerate(most) if count > 0}
        longest = self.model.config.max_positions
        while open_ones:
            # A finished sequence stays at its position while the others continue.
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
        plan = self.plan
        with self.model.device.command_encoder() as enc:
            plan.encode(enc)
            if plan is not self._noted:  # to replay it once more takes no more memory
                self._note_memory()
                self._noted = plan
            enc.commit_and_wait(label="decode")

    def _note_memory(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self.model.device.allocated_bytes)


class _ChunkPlan:
    """A recorded step for prompt chunks of one length, with its own inputs."""

    def __init__(self, model: TextModel, layers: Sequence[LayerCache], length: int) -> None:
        self.inputs = inputs = StepInputs(model.device, 1, length)
        buffers = {**inputs.buffers, **named_parts(layers)}
        self.plan = step_graph(model, "prompt", buffers, lambda enc: {"x": model(enc, inputs, layers)}).plan()


class _History:
    """The last tokens of each sequence on the device, for the repetition penalty; empty without one."""

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

"""Other engines for `bench decode`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .decode_numpy import NumpyLlama
from .harness import library

__all__ = ["LlamaCpp", "NumpyEngine", "Peer", "peers"]

Step = Callable[[], int]


class Peer(Protocol):
    """An engine that takes a prompt and generates tokens."""

    name: str
    takes_prompts: bool
    """Whether it processes several tokens at a time."""

    def begin(self, prompt: Sequence[int]) -> Step:
        """Processes all but the last token of a new prompt; each step returns the next token."""


class NumpyEngine:
    """The numpy baseline."""

    name = "numpy float32"
    takes_prompts = False

    def __init__(self, model: Any) -> None:
        self._weights = NumpyLlama(model)

    def begin(self, prompt: Sequence[int]) -> Step:
        engine, last = self._weights, prompt[-1]
        engine.restart()
        for token in prompt[:-1]:
            engine.step(token)

        def step() -> int:
            nonlocal last
            last = engine.step(last)
            return last

        return step


class LlamaCpp:
    """llama.cpp on all cores, with the same file."""

    name = "llama-cpp-python"
    takes_prompts = True

    def __init__(self, path: str, context: int) -> None:
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        options = {"n_ctx": context, "n_batch": context, "n_threads": threads, "n_threads_batch": threads}
        self._llama = library("llama_cpp").Llama(path, verbose=False, **options)

    def begin(self, prompt: Sequence[int]) -> Step:
        llama, last = self._llama, prompt[-1]
        llama.reset()
        llama.eval(list(prompt[:-1]))

        def step() -> int:
            nonlocal last
            llama.eval([last])
            last = int(llama.sample(temp=0.0, repeat_penalty=1.0))
            return last

        return step


def peers(model: Any, context: int) -> list[Peer | str]:
    """The engines that can run the model here, or the names of those that cannot."""
    path = str(model.path)
    has_llama = path.endswith(".gguf") and library("llama_cpp") is not None
    return [
        NumpyEngine(model) if NumpyLlama.fits(model) else NumpyEngine.name,
        LlamaCpp(path, context) if has_llama else LlamaCpp.name,
    ]

"""Passes of whole programs, such as the steps of models, as checked devices see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from models.running import all_logits
from models.test_families import FAMILIES, PROMPT, made
from models.tiny import write_mlx

from mlx_native_py import MlxDevice
from mlx_native_py.hazards.ranges import Memory, Span
from mlx_native_py.models import Decoder, Sampling, load_model
from mlx_native_py.softmetal.checked import DispatchCheck, Footprint
from mlx_native_py.softmetal.execution.checking import Checker
from mlx_native_py.softmetal.execution.passes import EncodedDispatch, Epoch, Pass

from .checked_graphs import Step

__all__ = ["FAMILIES", "RecordedPass", "model_runs", "watched"]


class RecordedPass:
    """The dispatches of a pass, and the barriers that were in it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.places: set[int] = set()
        self._memories: dict[Any, Memory] = {}

    def add(self, dispatch: EncodedDispatch, touched: Footprint) -> None:
        reads, writes = ([self._span(dispatch, *each) for each in declared] for declared in _declared(dispatch))
        self.steps.append(Step(dispatch.kernel, reads, writes, touched))

    def barrier(self) -> None:
        if self.steps:
            self.places.add(len(self.steps))

    def _span(self, dispatch: EncodedDispatch, start: int, end: int) -> Span:
        bound = [each for each in dispatch.allocations if each is not None]
        home = next(each for each in bound if each.address <= start and end <= each.address + each.length)
        memory = self._memories.setdefault(home, Memory(home.address, home.length, known=False))
        return memory, start, end


def _declared(dispatch: EncodedDispatch) -> tuple[Any, Any]:
    return dispatch.declared.reads, dispatch.declared.writes


@contextmanager
def watched() -> Iterator[list[RecordedPass]]:
    """The passes that checked devices run in the block."""
    passes: list[RecordedPass] = []
    touched: list[Footprint] = []
    begin, barrier, collect, footprint = Checker.begin, Checker.barrier, Checker._collect, DispatchCheck.footprint

    def first(self: Checker, work: Pass) -> None:
        passes.append(RecordedPass())
        begin(self, work)

    def fence(self: Checker, epoch: Epoch) -> None:
        passes[-1].barrier()
        barrier(self, epoch)

    def print_of(self: DispatchCheck) -> Footprint:
        touched.append(footprint(self))
        return touched[-1]

    def end(self: Checker, dispatch: EncodedDispatch, check: Any) -> None:
        collect(self, dispatch, check)
        passes[-1].add(dispatch, touched[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checker, "begin", first)
        patch.setattr(Checker, "barrier", fence)
        patch.setattr(Checker, "_collect", end)
        patch.setattr(DispatchCheck, "footprint", print_of)
        yield passes


def model_runs(device: MlxDevice, folder: Path, family: str) -> dict[str, Callable[[], Any]]:
    """A prompt, a greedy step, a step that samples, and a step of two sequences of a tiny model."""
    write_mlx(folder, *made(family))
    model = load_model(folder, device)
    chosen = Sampling(temperature=0.8, top_k=8, top_p=0.9, repetition_penalty=1.1)
    greedy, sampled = Decoder(model, model.make_cache()), Decoder(model, model.make_cache(), chosen)
    two = Decoder(model, model.make_cache(batch=2))

    def after(decoder: Decoder, prompts: list[list[int]]) -> Callable[[], Any]:
        def step() -> Any:
            decoder.step()
            return decoder.logits.numpy().copy()

        decoder.prefill(prompts)
        return step

    return {
        f"{family} prompt": lambda: all_logits(model, PROMPT),
        f"{family} step": after(greedy, [PROMPT]),
        f"{family} sampled": after(sampled, [PROMPT]),
        f"{family} pair": after(two, [PROMPT, PROMPT[:3]]),
    }

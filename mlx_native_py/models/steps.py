"""Steps of models as graphs: recorded and optimised once, then put over the buffers of each decoder."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

from ..device import MlxDevice
from ..encoder import Encoder
from ..graph import ComputeGraph, Template
from ..memory.buffer import MlxBuffer

__all__ = ["HasSteps", "step_graph", "structure_key"]

_MOST = 8
"""Templates that a model keeps."""


class HasSteps(Protocol):
    """A model, as far as its steps go."""

    device: MlxDevice
    step_templates: dict[Hashable, Template]
    """Steps of earlier decoders, for those to come."""


def step_graph(
    model: HasSteps,
    kind: Hashable,
    buffers: Mapping[str, MlxBuffer],
    record: Callable[[Encoder], Mapping[str, MlxBuffer]],
) -> ComputeGraph:
    """The optimised graph of a step over `buffers`, which are all that changes besides weights.

    `record` encodes the step and gives its results by name; it is not called where the model has done a step of this
    kind before, over buffers of these shapes, and nothing of it was replaced since.
    """
    key = (kind, structure_key(model), *((name, each.dtype, each.shape) for name, each in buffers.items()))
    templates = model.step_templates
    if key in templates:
        return templates[key].over(**buffers)
    capture: AbstractContextManager[ComputeGraph] = model.device.capture(**buffers)
    with capture as graph:
        graph.keep(**record(graph.encoder))
    better = graph.optimise()
    while len(templates) >= _MOST:
        del templates[next(iter(templates))]
    templates[key] = Template(better)
    return better


_PLAIN = (bool, int, float, str, type(None))
_WHOLE = (MlxDevice, Enum, type)
"""What counts by itself, whatever is in it."""


def structure_key(model: Any) -> tuple[Hashable, ...]:
    """Its layers' types, numbers and buffers, by identity where they are no plain values; so are dicts."""
    return tuple(_parts(model, set()))


def _parts(value: Any, seen: set[int]) -> Iterator[Hashable]:
    if isinstance(value, _PLAIN):
        yield value
    elif isinstance(value, list | tuple):
        yield len(value)
        for each in value:
            yield from _parts(each, seen)
    else:
        yield id(value)
        if id(value) not in seen and hasattr(value, "__dict__") and not isinstance(value, _WHOLE):
            seen.add(id(value))
            for name, part in vars(value).items():
                yield name
                yield from _parts(part, seen)

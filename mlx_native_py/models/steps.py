"""Model steps as graph templates: recorded and optimised once, then bound to the buffers of each decoder."""

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

_MAX_TEMPLATES = 8
"""The maximum number of templates per model."""


class HasSteps(Protocol):
    """A model with cached step templates."""

    device: MlxDevice
    step_templates: dict[Hashable, Template]
    """Recorded steps, reused by later decoders."""


def step_graph(
    model: HasSteps,
    kind: Hashable,
    buffers: Mapping[str, MlxBuffer],
    record: Callable[[Encoder], Mapping[str, MlxBuffer]],
) -> ComputeGraph:
    """The optimised graph of a step over `buffers`, which are all that changes besides weights.

    `record` encodes the step and returns its results by name; it is called only if the model has no template of this
    kind and these buffer shapes, or if parts of the model were replaced.
    """
    key = (kind, structure_key(model), *((name, each.dtype, each.shape) for name, each in buffers.items()))
    templates = model.step_templates
    if key in templates:
        return templates[key].over(**buffers)
    capture: AbstractContextManager[ComputeGraph] = model.device.capture(**buffers)
    with capture as graph:
        graph.keep(**record(graph.encoder))
    better = graph.optimise()
    while len(templates) >= _MAX_TEMPLATES:
        del templates[next(iter(templates))]
    templates[key] = Template(better)
    return better


_PLAIN = (bool, int, float, str, type(None))
_WHOLE = (MlxDevice, Enum, type)
"""Types that are compared by identity, whatever they contain."""


def structure_key(model: Any) -> tuple[Hashable, ...]:
    """A key of the model's structure: types, numbers and buffers of its layers, by identity unless plain values."""
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

"""Graph templates: optimised graphs without memory, which can be applied to buffers repeatedly."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ..errors import InvalidArgument
from ..memory.buffer import MlxBuffer
from ..memory.placeholder import placeholder
from .compute_graph import ComputeGraph
from .recording import check_binding
from .remap import BufferRemap, whole_allocation

__all__ = ["Template"]


class Template:
    """A graph whose named buffers and temporaries are placeholders.

    >>> with device.capture(x=x, y=y) as g:
    ...     g.encoder.dispatch(axpy, x, y, 1.0, threads=4)
    >>> other = device.buffer(np.zeros(4, np.float32))
    >>> Template(g).over(x=x, y=other).run()
    >>> other.numpy()
    array([0., 1., 2., 3.], dtype=float32)
    """

    def __init__(self, graph: ComputeGraph) -> None:
        self.device = graph.device
        self.changes = dict(graph.changes)
        residency = graph.device.residency
        self._names = {name: placeholder(residency, each.dtype, each.shape) for name, each in graph.names.items()}
        used = {each.allocation for node in graph.dispatches for each in (*node.reads, *node.writes)}
        temporaries = [whole_allocation(each) for each in graph.temporaries if each.memory in used]
        self._temporaries = [placeholder(residency, each.dtype, each.shape) for each in temporaries]
        moves = ((graph.names[name], new) for name, new in self._names.items())
        remap = BufferRemap([*moves, *zip(temporaries, self._temporaries, strict=True)])
        self._nodes = [remap.node(node) for node in graph.nodes]

    def over(self, **names: MlxBuffer) -> ComputeGraph:
        """The graph over the given buffers; new memory is allocated for temporaries and for names left out."""
        for name, given in names.items():
            check_binding(self._names, name, given)
        _check_apart(names.values())
        bound = {name: names[name] if name in names else self._fresh(each) for name, each in self._names.items()}
        temporaries = [self._fresh(each) for each in self._temporaries]
        moves = ((self._names[name], new) for name, new in bound.items())
        remap = BufferRemap([*moves, *zip(self._temporaries, temporaries, strict=True)])
        nodes = [remap.node(node) for node in self._nodes]
        fresh = [each.allocation for each in temporaries]
        return ComputeGraph(self.device, nodes, names=bound, temporaries=fresh, changes=self.changes)

    def _fresh(self, stand_in: MlxBuffer) -> MlxBuffer:
        return self.device.empty(stand_in.shape, stand_in.dtype)


def _check_apart(buffers: Iterable[MlxBuffer]) -> None:
    """Raises if two buffers share bytes: the order of the graph assumes that they do not."""
    ordered = sorted(buffers, key=lambda each: each.start)
    for one, next_one in pairwise(ordered):
        if next_one.start < one.end:
            raise InvalidArgument(f"{one!r} and {next_one!r} share bytes; a template needs buffers that do not")

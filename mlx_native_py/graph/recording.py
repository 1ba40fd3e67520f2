"""The contents of a recording: nodes, named buffers and temporaries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..encoder import CapturedNode, DeviceContext, Dispatch
from ..errors import InvalidArgument
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from .order import Step, placed

__all__ = ["Recording", "check_binding", "counted"]


class Recording:
    """Dispatches and barriers in order, over buffers of one device."""

    def __init__(
        self,
        device: DeviceContext,
        nodes: Iterable[CapturedNode] = (),
        *,
        names: Mapping[str, MlxBuffer] | None = None,
        temporaries: Iterable[Allocation] = (),
        changes: Mapping[str, int] | None = None,
    ) -> None:
        self.device = device
        self._nodes = tuple(nodes)
        self.names = dict(names or {})
        """Named buffers: outputs, and inputs that can be rebound."""
        self._temporaries = tuple(temporaries)
        self.changes = dict(changes or {})
        """What passes did, by name."""
        self._steps: list[Step] | None = None

    @property
    def nodes(self) -> tuple[CapturedNode, ...]:
        return self._nodes

    @property
    def dispatches(self) -> list[Dispatch]:
        return [node for node in self._nodes if isinstance(node, Dispatch)]

    @property
    def steps(self) -> list[Step]:
        """The dispatches with the barriers they need."""
        if self._steps is None:
            self._steps = list(placed(self._nodes))
        return self._steps

    def __len__(self) -> int:
        return len(self._nodes)

    def dispatch_count(self) -> int:
        return len(self.dispatches)

    def barrier_count(self) -> int:
        """How many barriers its dispatches need in this order, including those placed by the caller."""
        return sum(step.barrier for step in self.steps[1:])

    @property
    def temporaries(self) -> tuple[Allocation, ...]:
        """Unnamed memory created while recording; its contents do not matter after a run."""
        named = {buffer.allocation for buffer in self.names.values()}
        return tuple(each for each in self._temporaries if each not in named)

    @property
    def all_temporaries(self) -> tuple[Allocation, ...]:
        """Memory created while recording, including what has been named since."""
        return self._temporaries

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {counted(self.dispatch_count(), self.barrier_count())}>"


def counted(dispatches: int, barriers: int) -> str:
    """Numbers of dispatches and barriers as text."""
    return f"{dispatches} dispatch{'es' * (dispatches != 1)}, {barriers} barrier{'s' * (barriers != 1)}"


def check_binding(names: Mapping[str, MlxBuffer], name: str, new: MlxBuffer) -> None:
    """Raises unless `new` can replace the buffer called `name`."""
    if name not in names:
        raise InvalidArgument(f"no buffer is called {name!r}; there are: {', '.join(sorted(names)) or 'none'}")
    old = names[name]
    if not isinstance(new, MlxBuffer) or (new.dtype, new.shape) != (old.dtype, old.shape):
        raise InvalidArgument(f"{name} is {new!r}, expected {old.dtype}{list(old.shape)}")

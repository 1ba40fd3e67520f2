"""What random call sequences ought to do: buffers as numpy arrays, encoders as states with pending work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxError
from mlx_native_py.encoder import CommandEncoder
from mlx_native_py.encoder.session import EncoderSession

Work = Callable[[], object]
WORDS = 32
"""Elements of each buffer."""


@dataclass(eq=False)
class Block:
    """A buffer and what ought to be in it."""

    buffer: MlxBuffer
    expected: np.ndarray[Any, np.dtype[np.uint32]]
    pooled: bool = False
    released: bool = False


@dataclass(frozen=True)
class View:
    """Some elements of a block."""

    block: Block
    start: int
    count: int

    @property
    def buffer(self) -> MlxBuffer:
        return self.block.buffer[self.start : self.start + self.count]

    @property
    def array(self) -> Any:
        return self.block.expected[self.start : self.start + self.count]

    def clashes(self, other: View) -> bool:
        """Whether they overlap without being the same, so that threads of one dispatch would race."""
        same = (self.start, self.count) == (other.start, other.count)
        apart = self.start + self.count <= other.start or other.start + other.count <= self.start
        return self.block is other.block and not same and not apart


@dataclass(frozen=True)
class Step:
    """A dispatch: arguments for the encoder, and its effect on the model."""

    kernel: str
    arguments: tuple[Any, ...]
    shape: dict[str, Any]
    effect: Work
    views: tuple[View, ...]

    @property
    def is_live(self) -> bool:
        return not any(view.block.released for view in self.views)


def step(kernel: str, views: list[View], value: int) -> Step | None:
    """A dispatch of `kernel` over views; None where its own threads would race."""
    a, b, c = views
    count = min(view.count for view in views)
    a, b, c = (View(view.block, view.start, count) for view in (a, b, c))
    whole = {"threads": count}
    number = np.uint32(value)
    if kernel == "fill":
        call = Step(kernel, (c.buffer, value), whole, lambda: fill(c, value), (c,))
    elif kernel == "twist":
        call = Step(kernel, (c.buffer,), whole, lambda: assign(c, c.array * np.uint32(5) + np.uint32(1)), (c,))
    elif kernel == "add":
        call = Step(kernel, (a.buffer, b.buffer, c.buffer), whole, lambda: assign(c, a.array + b.array), (a, b, c))
    elif kernel == "axpy":
        call = Step(kernel, (a.buffer, c.buffer, value), whole, lambda: assign(c, c.array + number * a.array), (a, c))
    elif kernel == "table":
        table = np.arange(value % 7, value % 7 + 1100, dtype=np.uint32)
        inline = table[: 1024 if value % 2 else 1100].tobytes()
        call = Step(kernel, (inline, c.buffer), whole, lambda: assign(c, table[:count]), (c,))
    else:
        out = View(c.block, c.start, 1)
        shape = {"threads": count, "group": count, "shared": 4 * count}
        call = Step("total", (a.buffer, out.buffer), shape, lambda: assign(out, a.array.sum(dtype=np.uint32)), (a, out))
    raced = any(call.views[-1].clashes(view) for view in call.views[:-1])
    return None if raced else call


def fill(view: View, value: int) -> None:
    assign(view, np.arange(value, value + view.count, dtype=np.uint32))


def assign(view: View, values: Any) -> None:
    view.array[:] = values


@dataclass(eq=False)
class Encoder:
    """An encoder, and what it will have done once it is committed."""

    real: CommandEncoder
    by_hand: bool
    state: str = "recording"
    pending: list[Work] = field(default_factory=list)
    captured: list[Step] | None = None
    last: tuple[bool, Step] | None = None  # whether it was captured, and what
    session: Session | None = None

    @property
    def recording(self) -> bool:
        return self.state == "recording"

    def commit(self) -> None:
        for work in self.pending:
            work()
        self.pending.clear()
        self.state = "committed"


@dataclass(eq=False)
class Session:
    """A session's fences."""

    real: EncoderSession
    encoder: Encoder
    fenced: bool = False
    fences: int = 0
    waits: int = 0


def refused(call: Callable[[], object], *kinds: type[MlxError], naming: str = "") -> None:
    """The call raises one of our exceptions, and the message says what it is about."""
    with pytest.raises(kinds or MlxError, match=naming or None) as caught:
        call()
    assert isinstance(caught.value, MlxError)
    assert len(str(caught.value)) > 10


def elsewhere(call: Callable[[], object]) -> None:
    """Runs in another thread; what it raises is raised here."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]

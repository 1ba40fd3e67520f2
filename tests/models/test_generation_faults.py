"""A model is loaded and generates 32 tokens while something fails: an exception or the right tokens, nothing else."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, get_args

import pytest

import mlx_native_py
from mlx_native_py import MlxDevice, MlxError, counters, settings
from mlx_native_py.errors import COMMAND_BUFFER_CODES
from mlx_native_py.models import generate_ids, load_model
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.testing import FaultKind, fail

pytestmark = pytest.mark.soft
PACKAGE = str(Path(mlx_native_py.__file__).parent)
MOST = 3  # points of a kind that the normal run tries
INTERRUPTS = 1_200  # places, evenly spread, at which the long run is interrupted


class Work:
    """A device that outlives all faults, and a model for it."""

    def __init__(self, device: MlxDevice, folder: Path) -> None:
        self.device = device
        self.path = write_tiny(folder)
        self.tokens()  # what happens once is done
        self.right = self.counted()

    def tokens(self) -> list[int]:
        model = load_model(self.path, self.device)
        return [each.token for each in generate_ids(model, [1, 2, 3, 4, 5], max_tokens=32, stop_ids=())]

    def counted(self) -> tuple[list[int], tuple[int, ...]]:
        with counters.scope() as scope:
            tokens = self.tokens()
        return tokens, (scope.dispatches, scope.barriers, scope.cmd_bufs)

    def left(self) -> tuple[str, int, int]:
        with suppress(MlxError):  # of work that was committed, and whose wait was cut off
            self.device.submissions.wait_all()
        gc.collect()
        self.device.recycler.clear()
        self.device.residency.flush()
        allocated = int(self.device.mtl.currentAllocatedSize())
        return repr(self.device.submissions), self.device.residency.count, allocated

    def is_whole(self) -> None:
        """Nothing is open, resident or allocated, maybe a moment later, and the next run is right."""
        self._settle(30)
        assert self.left() == NOTHING_LEFT
        assert self.counted() == self.right

    def is_whole_soon(self) -> None:
        """The same where an encoder could not be ended: its buffers go when 64 others have come, which are two runs."""
        for _ in range(2):
            assert self.counted() == self.right
        self.is_whole()

    def _settle(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while self.left() != NOTHING_LEFT and time.monotonic() < end:
            time.sleep(0.01)


NOTHING_LEFT = "<Submissions: 0 open, 0 in flight>", 0, 0


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    # Settings of its own give it a device of its own, on whose account nothing of other tests is.
    with settings.override(soft_timeout=9.25), MlxDevice("soft") as device:
        yield Work(device, tmp_path_factory.mktemp("faults"))


def _places(count: int, request: pytest.FixtureRequest) -> range:
    step = 1 if request.config.getoption("--full") else -(-count // MOST)
    return range(1, count + 1, step)


def _attempt(work: Work, what: FaultKind, **fault: Any) -> bool:
    """Whether there was an exception, of ours; without one the tokens are right."""
    with fail(what, **fault):
        try:
            assert work.tokens() == work.right[0]
        except MlxError as error:
            assert str(error)
            return True
    return False


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize(
    "what", [each for each in get_args(FaultKind) if each not in ("compile", "pipeline", "thread")]
)
def test_the_nth_of_each_kind_fails(work: Work, what: FaultKind, lasting: bool, request: Any) -> None:
    with fail(what, 0) as fault:
        assert work.tokens() == work.right[0]
    assert fault.asked
    raised = 0
    for nth in _places(fault.asked, request):
        raised += _attempt(work, what, nth=nth, lasting=lasting)
        work.is_whole()
    # Where one allocation fails, memory that waits to be used again is given back, and the next one works.
    assert raised or not lasting or what in ("wait", "mapping")


@pytest.mark.parametrize("code", COMMAND_BUFFER_CODES)
def test_the_nth_command_buffer_fails_with_each_code(work: Work, code: int, request: Any) -> None:
    with fail("commit", 0) as fault:
        work.tokens()
    for nth in _places(fault.asked, request):
        assert _attempt(work, "commit", nth=nth, code=code)
        work.is_whole()


class Interrupt(KeyboardInterrupt):
    """Raised where a function of the package begins, which is where CPython looks for Ctrl-C."""


def _in_finaliser(frame: FrameType | None) -> bool:
    """Where Python drops an exception, and what was to be done there stays undone."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class _Calls:
    """Counts them; raises at the one with number `at`."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            self.count += 1
            if self.at and self.count >= self.at and not _in_finaliser(frame):
                self.at = 0
                raise Interrupt

    def run(self, work: Work) -> bool:
        """Whether it came out."""
        sys.setprofile(self)
        try:
            work.tokens()
        except Interrupt:
            return True
        finally:
            sys.setprofile(None)
        return False


def test_interrupted_anywhere(work: Work, request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[Any] = []  # by finalisers, which nobody can interrupt
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: dropped.append(raised.exc_type))
    counted = _Calls()
    assert not counted.run(work)
    wanted = INTERRUPTS if request.config.getoption("--full") else 3 * MOST
    came_out = 0
    for at in range(1, counted.count + 1, max(1, counted.count // wanted)):
        came_out += _Calls(at).run(work)
        work.is_whole() if work.left() == NOTHING_LEFT else work.is_whole_soon()
    assert came_out > 0.8 * wanted and set(dropped) <= {Interrupt}

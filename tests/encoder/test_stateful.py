"""Random call sequences: nothing that Metal answers with an abort gets through, and legal calls do what they say."""

from __future__ import annotations

from typing import Any

import pytest

from encoder.stateful_calls import PICK, SPAN, Calls, World, worlds
from encoder.stateful_chaos import ODD_SHAPE, ODD_VALUES, WRONG_CALLS, WRONG_DISPATCHES, chosen, volume
from encoder.stateful_draws import check_sequences, cut_down, either_of, rule, several, some_of
from encoder.stateful_model import elsewhere, refused, step
from mlx_native_py import EncoderStateError, MlxError

pytestmark = pytest.mark.soft


class AnyCalls(Calls):
    """Legal calls and wrong ones."""

    @rule(which=PICK, name=either_of(sorted(WRONG_DISPATCHES)))
    def wrong_dispatch(self, which: int, name: str) -> None:
        encoder, (naming, call) = self._encoder(which), WRONG_DISPATCHES[name]
        if encoder.recording:
            refused(lambda: call(encoder.real, self.world.bench), naming=naming)
        else:
            refused(lambda: call(encoder.real, self.world.bench), EncoderStateError)
        self.world.refusals += 1

    @rule(name=either_of(sorted(WRONG_CALLS)))
    def wrong_call(self, name: str) -> None:
        naming, call = WRONG_CALLS[name]
        refused(lambda: call(self.world.bench), naming=naming)
        self.world.refusals += 1

    @rule(
        which=PICK,
        kernel=either_of(["axpy", "gap", "wide", "total", "table"]),
        values=several(ODD_VALUES, 0, 4),
        sizes=some_of(ODD_SHAPE),
    )
    def odd_dispatch(self, which: int, kernel: str, values: list[Any], sizes: dict[str, Any]) -> None:
        threads, groups, group = (sizes.get(name) for name in ("threads", "threadgroups", "group"))
        if volume(threads) > 512 or volume(groups) * volume(group, 256) > 2048 or volume(group) > 2048:
            return  # takes long, or goes beyond the scratch buffer
        if kernel == "total" and volume(sizes.get("shared"), 4096) < 4 * volume(group, 1024):
            return  # goes beyond its threadgroup memory
        encoder, bench = self._encoder(which), self.world.bench
        arguments = [chosen(value, bench) for value in values]
        if encoder.captured is not None:
            return
        try:
            encoder.real.dispatch(bench.kernels[kernel], *arguments, **sizes)
            assert encoder.recording
            if encoder.by_hand:
                encoder.real.memory_barrier()
        except MlxError as refusal:
            assert kernel in str(refusal) or not encoder.recording
        encoder.last = None

    @rule(
        which=PICK,
        name=either_of(["dispatch", "commit", "commit_and_wait", "memory_barrier", "start_capture", "discard"]),
    )
    def use_from_another_thread(self, which: int, name: str) -> None:
        encoder = self._encoder(which)
        if name == "discard" and not encoder.recording:
            return
        arguments = (self.world.kernels["twist"], self.blocks[0].buffer) if name == "dispatch" else ()
        more = {"threads": 1} if name == "dispatch" else {}
        call = getattr(encoder.real, name)
        refused(lambda: elsewhere(lambda: call(*arguments, **more)), EncoderStateError, naming=name)

    @rule(span=SPAN)
    def work_in_another_thread(self, span: tuple[int, int, int]) -> None:
        call = step("twist", [self._view(span)] * 3, 0)
        assert call is not None

        def work() -> None:
            with self.device.command_encoder() as enc:
                enc.dispatch(self.world.kernels["twist"], *call.arguments, **call.shape)

        if call.is_live:
            elsewhere(work)
            call.effect()


@pytest.mark.parametrize("residency", [True, False], ids=["resident", "plain"])
def test_no_sequence_of_calls_reaches_an_abort(residency: bool, request: pytest.FixtureRequest) -> None:
    world, count = World(residency), 50_000 if request.config.getoption("--full") else 1_000
    worlds[:] = [world]
    try:
        check_sequences(AnyCalls, "resident" if residency else "plain", count, steps=40)
    finally:
        worlds.clear()
    assert (world.sequences, world.steps) == (count, 40 * count)
    assert world.refusals > world.sequences and world.layer.messages > 50 * world.sequences
    world.device.close()
    assert world.layer.violations == []


class Broken:
    """Fails at the second `b` behind an `a`."""

    def __init__(self) -> None:
        self.seen = ""

    @rule()
    def a(self) -> None:
        self.seen += "a"

    @rule(times=either_of([1]))
    def b(self, times: int) -> None:
        self.seen += "b" * times if self.seen else ""

    def holds(self) -> None:
        assert self.seen.count("b") < 2

    def teardown(self) -> None:
        pass


def test_a_failing_sequence_is_cut_down() -> None:
    needed = [("a", {}), ("b", {"times": 1}), ("b", {"times": 1})]
    assert cut_down(Broken, [("b", {"times": 1}), *needed[:1], *needed * 5]) == needed
    with pytest.raises(AssertionError, match=r"(?s)'x' 0 fails by:\n    a\(\{\}\)\n    b\(.*\n    b\([^\n]*\Z"):
        check_sequences(Broken, "x", 1, steps=40)

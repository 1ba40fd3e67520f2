"""The tracker: exact against a naive one, symmetric, flat in the number of live ranges, and able to explain."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import BufferRange, HazardKind, MemRangeRole, MemRanges, MlxDevice
from mlx_native_py.hazards.intervals import IntervalSet
from mlx_native_py.hazards.ranges import Memory

SRC, DST = MemRangeRole.Src, MemRangeRole.Dst
BASE = 1 << 40
Plain = tuple[int, int, int]


def memory(size: int = 1 << 20, label: str = "") -> Memory:
    return Memory(BASE, size, label, known=False)


def part(of: Memory, start: int, end: int, role: MemRangeRole = SRC) -> BufferRange:
    return BufferRange(of, BASE + start, BASE + end, role)


# One rule at a time


def test_read_after_read_is_free() -> None:
    x, ranges = part(memory(), 0, 64), MemRanges()
    assert ranges.is_empty() and ranges.len() == 0
    assert ranges.check_and_record([x], []) and ranges.check_and_record([x], [])
    assert (ranges.len(), len(ranges), ranges.checks(), ranges.barriers_forced()) == (2, 2, 2, 0)
    assert ranges.explain() is None


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [(DST, SRC, HazardKind.RAW), (SRC, DST, HazardKind.WAR), (DST, DST, HazardKind.WAW)],
)
def test_hazards(first: MemRangeRole, second: MemRangeRole, kind: HazardKind) -> None:
    x, ranges = part(memory(), 0, 64), MemRanges()
    ranges.push(part(x.allocation, 32, 96, first), by="one")
    reads, writes = ([x], []) if second is SRC else ([], [x])
    assert not ranges.check_dispatch(reads, writes, by="two")
    assert (ranges.barriers_forced(), ranges.len()) == (1, 1)
    hazard = ranges.explain()
    assert hazard is not None
    assert (hazard.kind, hazard.earlier, hazard.later, hazard.offset, hazard.nbytes) == (kind, "one", "two", 32, 32)
    ranges.reset()
    assert ranges.is_empty() and ranges.check_dispatch(reads, writes)
    assert (ranges.barriers_forced(), ranges.checks()) == (1, 2)


def test_different_memory_never_conflicts() -> None:
    ranges = MemRanges()
    ranges.add_dispatch([], [part(memory(), 0, 64)])
    assert ranges.check_dispatch([part(memory(), 0, 64)], [part(memory(), 0, 64)])


def test_check_and_record_records_only_what_passed() -> None:
    x, ranges = part(memory(), 0, 8), MemRanges()
    assert ranges.check_and_record([], [x]) and not ranges.check_and_record([x], [])
    assert ranges.len() == 1


def test_a_dispatch_is_not_held_against_itself() -> None:
    x, ranges = part(memory(), 0, 8), MemRanges()
    assert ranges.check_and_record([x], [x])


def test_a_chain_of_two_forces_two() -> None:
    x, y, ranges = part(memory(), 0, 8), part(memory(), 0, 8), MemRanges()
    for reads, writes in (([], [x]), ([x], []), ([], [y]), ([y], [])):
        if not ranges.check_and_record(reads, writes):
            ranges.reset()
            ranges.add_dispatch(reads, writes)
    assert ranges.barriers_forced() == 2


# Where ours is exact


def test_halves_of_a_parent_and_neighbours_do_not_conflict() -> None:
    whole = memory(128)
    low, high = part(whole, 0, 64, DST), part(whole, 64, 128, DST)
    for one, two in itertools.permutations((low, high)):
        ranges = MemRanges()
        assert ranges.check_and_record([], [one]) and ranges.check_and_record([], [two])
        assert not one.conflicts_with(two)


def test_a_thousand_adjacent_writes_need_no_barrier() -> None:
    whole, ranges = memory(), MemRanges()
    for i in range(1070):
        assert ranges.check_and_record([], [part(whole, 64 * i, 64 * i + 64)])
    assert not ranges.check_dispatch([part(whole, 68479, 70000)], [])
    assert ranges.check_dispatch([part(whole, 68480, 70000)], [])


def test_empty_ranges_touch_nothing() -> None:
    whole, ranges = memory(), MemRanges()
    ranges.add_dispatch([], [part(whole, 0, 64), part(whole, 70, 70)])
    assert ranges.len() == 1
    assert ranges.check_dispatch([part(whole, 32, 32)], [part(whole, 40, 40)])


def test_buffers_over_the_same_memory_are_seen(device: MlxDevice) -> None:
    parent = device.alloc_buffer(4 * 4096, "f32", 4096)
    twin = device.wrap(parent.mtl, "f32", 4096)
    low, high = parent[:2048], parent[2048:]
    ranges = MemRanges()
    assert ranges.check_and_record([], [low], by="fill")
    assert ranges.check_dispatch([twin[2048:]], [high])
    assert not ranges.check_dispatch([twin[2047:]], [], by="sum")
    hazard = ranges.explain()
    assert hazard is not None and (hazard.kind, hazard.offset, hazard.nbytes) == (HazardKind.RAW, 2047 * 4, 4)
    assert BufferRange.from_buffer(low, DST).conflicts_with(BufferRange.from_buffer(twin, SRC))
    assert not BufferRange.from_buffer(high, DST).conflicts_with(BufferRange.from_buffer(low, DST))
    ranges.reset()
    ranges.add_dispatch([twin], [])
    assert not ranges.check_dispatch([], [low]) and ranges.check_dispatch([low], [])


def test_explanations_read_well_and_survive_the_reset() -> None:
    x, ranges = memory(256, "kv cache"), MemRanges()
    for index in range(4):
        ranges.add_dispatch([], [part(x, 64 * index, 64 * index + 64)], by=f"copy {index}")
    conflict = ranges.track([part(x, 100, 140).span], [], by="attention")
    assert conflict is not None and ranges.len() == 1
    assert str(conflict.hazard) == (
        f"RAW: attention reads bytes 128..140 of kv cache (256 bytes at {BASE:#x}), which copy 2 writes"
    )
    assert "copy 2" in repr(conflict)


# Against a naive tracker

ranges_in_three = st.builds(
    lambda where, start, length: (where, start, start + length),
    st.integers(0, 2),
    st.integers(0, 40),
    st.integers(0, 12),
)
steps = st.lists(
    st.tuples(st.lists(ranges_in_three, max_size=3), st.lists(ranges_in_three, max_size=3), st.booleans()), max_size=60
)


class Naive:
    """Every pair of ranges, byte by byte."""

    def __init__(self) -> None:
        self.live: list[tuple[int, set[tuple[int, int]], bool]] = []

    @staticmethod
    def bytes_of(given: Plain) -> set[tuple[int, int]]:
        where, start, end = given
        return {(where, at) for at in range(start, end)}

    def hazards(self, reads: list[Plain], writes: list[Plain]) -> list[tuple[str, int]]:
        seen = []
        for span, is_write in [*((r, False) for r in reads), *((w, True) for w in writes)]:
            for by, touched, was_write in self.live:
                if (is_write or was_write) and touched & self.bytes_of(span):
                    kind = ("WAW" if was_write else "WAR") if is_write else "RAW"
                    seen.append((kind, by))
        return seen

    def add(self, by: int, reads: list[Plain], writes: list[Plain]) -> None:
        self.live += [(by, self.bytes_of(r), False) for r in reads] + [(by, self.bytes_of(w), True) for w in writes]


@given(steps)
def test_agrees_with_a_naive_tracker(steps: list[tuple[list[Plain], list[Plain], bool]]) -> None:
    memories = [memory(64, name) for name in "xyz"]
    ours, naive = MemRanges(), Naive()

    def real(given: list[Plain]) -> list[BufferRange]:
        return [part(memories[where], start, end) for where, start, end in given]

    for by, (reads, writes, resets) in enumerate(steps):
        expected = naive.hazards(reads, writes)
        assert ours.check_dispatch(real(reads), real(writes), by=by) == (not expected)
        if expected:
            hazard = ours.explain()
            assert hazard is not None and (hazard.kind.name, hazard.earlier) in expected
            assert hazard.nbytes > 0 and hazard.later == by
        if expected and resets:
            ours.reset()
            naive.live.clear()
        ours.add_dispatch(real(reads), real(writes), by=by)
        naive.add(by, reads, writes)
        assert ours.len() == sum(1 for _, touched, _ in naive.live if touched)


@given(steps)
def test_agrees_where_memories_share_bytes(steps: list[tuple[list[Plain], list[Plain], bool]]) -> None:
    starts = (0, 20, 40)
    memories = [Memory(BASE + start, 64, name) for start, name in zip(starts, "xyz", strict=True)]
    ours, naive = MemRanges(), Naive()

    def absolute(spans: list[Plain]) -> list[Plain]:
        return [(0, starts[where] + start, starts[where] + end) for where, start, end in spans]

    def real(spans: list[Plain]) -> list[BufferRange]:
        return [
            part(memories[where], *span[1:])
            for where, span in zip((w for w, _, _ in spans), absolute(spans), strict=True)
        ]

    for by, (reads, writes, resets) in enumerate(steps):
        expected = naive.hazards(absolute(reads), absolute(writes))
        assert ours.check_dispatch(real(reads), real(writes), by=by) == (not expected)
        if expected:
            hazard = ours.explain()
            assert hazard is not None and (hazard.kind.name, hazard.earlier) in expected
        if expected and resets:
            ours.reset()
            naive.live.clear()
        ours.add_dispatch(real(reads), real(writes), by=by)
        naive.add(by, absolute(reads), absolute(writes))


@given(ranges_in_three, ranges_in_three, st.sampled_from((SRC, DST)), st.sampled_from((SRC, DST)))
def test_conflicts_are_symmetric(one: Plain, two: Plain, role: MemRangeRole, other: MemRangeRole) -> None:
    memories = [memory() for _ in range(3)]
    a, b = part(memories[one[0]], *one[1:], role), part(memories[two[0]], *two[1:], other)
    expected = DST in (role, other) and bool(Naive.bytes_of(one) & Naive.bytes_of(two))
    assert a.conflicts_with(b) == b.conflicts_with(a) == expected


@pytest.mark.parametrize("longest", [4, 8, 512])
@given(data=st.data())
def test_spans_are_a_set_of_bytes(longest: int, data: st.DataObject) -> None:
    class Short(IntervalSet):
        __slots__ = ()
        LONGEST = longest

    spans, touched = Short(), set[int]()
    for start, length in data.draw(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 12)), max_size=80)):
        wanted = set(range(start, start + length))
        assert spans.meets(start, start + length) == bool(wanted & touched)
        spans.add(start, start + length)
        touched |= wanted
        result = list(spans)
        assert {at for low, high in result for at in range(low, high)} == touched
        assert all(high < low for (_, high), (low, _) in itertools.pairwise(result))


# Cost


def step_cost(live: int) -> float:
    """Seconds of CPU for one dispatch of two reads and one write, the write between `live` others with gaps."""
    whole, ranges = memory(1 << 40), MemRanges()
    others = [(m, BASE, BASE + 64) for m in (memory(), memory())]
    place = [(7919 * i) % (live + 512) for i in range(live + 512)]  # scattered, each once
    spans: list[Any] = [((whole, BASE + 64 * at, BASE + 64 * at + 32),) for at in place]
    for span in spans[:live]:
        ranges.record((), span)
    start = time.thread_time()
    for span in spans[live:]:
        ranges.track(others, span)
    cost = (time.thread_time() - start) / 512
    assert ranges.barriers_forced() == 0
    return cost


def test_the_cost_is_flat_in_the_number_of_live_ranges() -> None:
    few, many = (min(step_cost(live) for _ in range(5)) for live in (10, 10_000))
    assert many < 4 * few, f"{few * 1e6:.2f} us with 10 live ranges, {many * 1e6:.2f} us with 10000"


def test_ranges_of_buffers(device: MlxDevice) -> None:
    a, b, ranges = device.empty(4), device.empty(4), MemRanges()
    assert ranges.is_empty() and ranges.check_dispatch([b], [a])
    ranges.add_dispatch([b], [a])
    assert ranges.len() == 2
    assert not ranges.check_dispatch([a], [])
    assert (ranges.barriers_forced(), ranges.checks()) == (1, 2)
    ranges.reset()
    assert ranges.is_empty() and ranges.check_dispatch([a], []) and ranges.barriers_forced() == 1


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        ("Src", "Src", True),
        ("Dst", "Src", False),
        ("Src", "Dst", False),
        ("Dst", "Dst", False),
    ],
)
def test_roles_of_buffers_and_their_parts(device: MlxDevice, first: str, second: str, free: bool) -> None:
    whole, other = device.empty(16, "u32"), device.empty(16, "u32")
    one, two = MemRangeRole[first], MemRangeRole[second]

    def apart(left: Any, right: Any) -> bool:
        a, b = BufferRange.from_buffer(left, one), BufferRange.from_buffer(right, two)
        assert a.conflicts_with(b) == b.conflicts_with(a)
        return not a.conflicts_with(b)

    assert apart(whole, whole) is free and apart(whole[0:9], whole[8:16]) is free
    assert apart(whole, other) and apart(whole[0:8], whole[8:16]), "neighbours share nothing"

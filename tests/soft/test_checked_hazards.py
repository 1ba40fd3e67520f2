"""Interval sets and the hazard check between dispatches, on plain values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py.softmetal.checked import DispatchName, Footprint, HazardCheck, Window, intervals, shadow
from mlx_native_py.softmetal.checked.dispatch import _cut
from mlx_native_py.softmetal.checked.intervals import Intervals

_BASE = 1 << 40
_SPANS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted).map(tuple), max_size=6)


def _bytes(found: Intervals) -> set[int]:
    return {address for start, end in found.spans() for address in range(start, end)}


def _model(spans: list[tuple[int, int]]) -> set[int]:
    return {address for start, end in spans for address in range(start, end)}


@given(_SPANS, _SPANS, st.tuples(st.integers(0, 200), st.integers(0, 200)).map(sorted))
def test_intervals_are_sets_of_bytes(one: list[tuple[int, int]], two: list[tuple[int, int]], cut: list[int]) -> None:
    a, b = intervals.of(*one), intervals.of(*two)
    assert _bytes(a) == _model(one)
    assert _bytes(a | b) == _model(one) | _model(two)
    assert _bytes(a.without((cut[0], cut[1]))) == _model(one) - set(range(*cut))
    both = _model(one) & _model(two)
    overlap = a.overlap(b)
    assert (overlap is None) == (not both)
    if overlap:
        assert overlap[0] == min(both)
        assert set(range(*overlap)) <= both
    for result in (a, a | b):
        assert all(end < start for (_, end), (start, _) in zip(result.spans(), result.spans()[1:], strict=False))


@given(st.sets(st.integers(0, 639)), st.booleans())
def test_bitmaps_become_the_same_bytes(chosen: set[int], fill: bool) -> None:
    chosen = chosen | set(range(128, 320)) if fill else chosen
    bits = np.zeros(640, np.uint8)
    bits[sorted(chosen)] = 1
    words = np.packbits(bits, bitorder="little").view(np.uint64)
    assert _bytes(intervals.of_bits(words, _BASE)) == {_BASE + bit for bit in chosen}


@given(st.sets(st.integers(0, 639)), st.booleans())
def test_marked_bytes_become_the_same_bytes(chosen: set[int], fill: bool) -> None:
    chosen = chosen | set(range(125, 320)) if fill else chosen
    marks = np.zeros(640, np.uint8)
    marks[sorted(chosen)] = 1
    assert _bytes(intervals.of_bytes(marks.view(np.uint64), _BASE)) == {_BASE + byte for byte in chosen}


@given(st.sets(st.integers(0, (1 << 18) - 1), max_size=20), st.integers(0, 700), st.booleans())
def test_words_are_found_wherever_they_lie(chosen: set[int], skipped: int, dense: bool) -> None:
    words = shadow.zeros(1 << 18)
    words[sorted(chosen)] = 7
    words[1000:3000] = dense
    some = shadow.touched(words[skipped:])
    assert some.places(np.flatnonzero(some.words)).tolist() == np.flatnonzero(words[skipped:]).tolist()


def test_words_that_were_given_back_are_zero_again() -> None:
    words = shadow.zeros(1 << 18)
    words[::5000] = 7
    address = words.ctypes.data
    shadow.give_back(words)
    again = shadow.zeros((1 << 18) - 3)
    assert again.ctypes.data == address and not again.any()
    assert shadow.zeros(1 << 18).ctypes.data != address


def test_leftovers_are_used_again_as_they_are() -> None:
    words = shadow.leftovers(1 << 18)
    words[7] = 9
    address = words.ctypes.data
    shadow.give_leftovers_back(words, [(0, 8)])
    again = shadow.leftovers(1 << 18)
    assert again.ctypes.data == address and again[7] == 9
    shadow.give_leftovers_back(again, [(0, 8)])
    assert shadow.zeros(1 << 18).ctypes.data != address


def test_only_what_was_used_is_cleared_and_looked_at() -> None:
    words = shadow.zeros(1 << 18)
    words[5] = words[1 << 17] = 1
    assert intervals.of_bits(words, _BASE, [(0, 8)]).spans() == [(_BASE + 320, _BASE + 321)]
    shadow.give_back(words, [(0, 8), (1 << 17, (1 << 17) + 1)])
    assert not shadow.zeros(1 << 18).any()


def _print(**spans: tuple[int, int]) -> Footprint:
    return Footprint(**{kind: intervals.of((_BASE + start, _BASE + end)) for kind, (start, end) in spans.items()})


def _locate(address: int) -> tuple[str, int]:
    return "buffer 'x'", _BASE


def _found(*steps: Footprint | None | tuple[tuple[int, int], ...]) -> list[tuple[str, int, int, tuple[int, int]]]:
    """Runs dispatches; None is a full barrier, a tuple of spans one for these resources."""
    check, found, index = HazardCheck(_locate), [], 0
    for step in steps:
        if isinstance(step, Footprint):
            found += check.dispatch(DispatchName(index, f"k{index}"), step)
            index += 1
        else:
            check.barrier(None if step is None else [(_BASE + a, _BASE + b) for a, b in step])
    return [(hazard.kind, hazard.first.index, hazard.second.index, hazard.span) for hazard in found]


@pytest.mark.parametrize(
    ("one", "two", "kind", "span"),
    [
        (_print(writes=(0, 64)), _print(reads=(32, 96)), "RAW", (32, 64)),
        (_print(reads=(0, 64)), _print(writes=(60, 61)), "WAR", (60, 61)),
        (_print(writes=(0, 64)), _print(writes=(63, 100)), "WAW", (63, 64)),
        (_print(atomic_writes=(0, 4)), _print(reads=(0, 4)), "RAW", (0, 4)),
        (_print(atomic_writes=(0, 4)), _print(writes=(0, 4)), "WAW", (0, 4)),
        (_print(writes=(0, 4)), _print(atomic_writes=(0, 4)), "WAW", (0, 4)),
        (_print(writes=(0, 4)), _print(atomic_reads=(0, 4)), "RAW", (0, 4)),
        (_print(reads=(0, 4)), _print(atomic_writes=(0, 4)), "WAR", (0, 4)),
    ],
)
def test_conflicts_are_named(one: Footprint, two: Footprint, kind: str, span: tuple[int, int]) -> None:
    assert _found(one, two) == [(kind, 0, 1, span)]
    assert _found(one, None, two) == []
    assert _found(one, (span,), two) == []
    assert _found(one, ((500, 600),), two) == [(kind, 0, 1, span)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (_print(writes=(0, 64)), _print(writes=(64, 128))),
        (_print(reads=(0, 64)), _print(reads=(0, 64))),
        (_print(atomic_writes=(0, 64)), _print(atomic_writes=(0, 64))),
        (_print(atomic_reads=(0, 64)), _print(atomic_writes=(0, 64))),
        (_print(atomic_reads=(0, 64)), _print(reads=(0, 64))),
    ],
)
def test_what_needs_no_barrier(one: Footprint, two: Footprint) -> None:
    assert _found(one, two) == []


def test_every_pair_since_the_barrier_is_named() -> None:
    write = _print(writes=(0, 8))
    assert [(a, b) for _, a, b, _ in _found(write, write, write)] == [(0, 1), (0, 2), (1, 2)]
    assert [(a, b) for _, a, b, _ in _found(write, None, write, write)] == [(1, 2)]


def test_a_barrier_for_one_resource_leaves_the_others() -> None:
    both = _print(writes=(0, 128))
    assert _found(both, ((0, 64),), _print(reads=(0, 128))) == [("RAW", 0, 1, (64, 128))]


def test_the_order_of_encoding_counts_not_that_of_running() -> None:
    check = HazardCheck(_locate)
    check.dispatch(DispatchName(1, "second"), _print(reads=(0, 4)))
    (hazard,) = check.dispatch(DispatchName(0, "first"), _print(writes=(0, 4)))
    assert (hazard.kind, hazard.first.kernel, hazard.second.kernel) == ("RAW", "first", "second")
    assert "dispatch 0 ('first') writes bytes [0, 4) of buffer 'x'" in str(hazard)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.sampled_from([1, 2, 3])), max_size=8))
def test_windows_become_disjoint_segments(rows: list[tuple[int, int, int]]) -> None:
    allowed: dict[int, int] = {}
    for start, length, access in rows:
        for address in range(start, start + length):
            allowed[address] = allowed.get(address, 0) | access
    result = _cut([Window(start, length, access) for start, length, access in rows])
    assert {address: access for start, end, access in result for address in range(start, end)} == allowed
    assert all(a[1] <= b[0] and a[1:] != (b[0], b[2]) for a, b in zip(result, result[1:], strict=False))

"""Division of heads, layers and values among ranks: nothing is lost, nothing is there twice, borders are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py.errors import InvalidArgument
from mlx_native_py.parallel.ranges import even_ranges, head_parts, weighted_ranges


@given(st.integers(1, 200), st.integers(1, 16), st.sampled_from([1, 32, 64, 256]))
def test_even_ranges(units: int, parts: int, unit: int) -> None:
    if units < parts:
        with pytest.raises(InvalidArgument, match=f"use at most {units}"):
            even_ranges(units * unit, parts, unit)
        return
    ranges = even_ranges(units * unit, parts, unit)
    assert [value for each in ranges for value in each] == list(range(units * unit))
    sizes = [len(each) for each in ranges]
    assert len(ranges) == parts and max(sizes) - min(sizes) <= unit
    assert all(each.start % unit == 0 for each in ranges)


def test_even_ranges_refuses_what_is_no_unit() -> None:
    with pytest.raises(InvalidArgument, match="100 values are not whole units of 32"):
        even_ranges(100, 2, 32, "values")


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 12), st.sampled_from([1, 2, 4]))
def test_every_query_head_meets_its_own_key(n_kv_heads: int, group: int, parts: int, unit: int) -> None:
    n_heads = n_kv_heads * group * unit
    group *= unit
    if n_heads // unit < parts:
        with pytest.raises(InvalidArgument, match="heads of attention"):
            head_parts(n_heads, n_kv_heads, parts, unit)
        return
    shares = head_parts(n_heads, n_kv_heads, parts, unit)
    assert [head for each in shares for head in each.queries] == list(range(n_heads))
    for each in shares:
        assert each.queries.start % unit == 0
        share, left = divmod(len(each.queries), len(each.keys))
        assert left == 0
        assert [each.keys[place // share] for place in range(len(each.queries))] == [
            head // group for head in each.queries
        ]


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 8))
def test_keys_are_not_repeated_where_there_are_enough(n_kv_heads: int, group: int, parts: int) -> None:
    if n_kv_heads >= parts:
        shares = head_parts(n_kv_heads * group, n_kv_heads, parts)
        assert [key for each in shares for key in each.keys] == list(range(n_kv_heads))


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 10), st.integers(0, 300))
def test_layers_by_weight(weights: list[int], parts: int, head: int) -> None:
    if len(weights) < parts:
        with pytest.raises(InvalidArgument, match="layers cannot be divided"):
            weighted_ranges(weights, parts)
        return
    ranges = weighted_ranges(weights, parts, last=head)
    assert [layer for each in ranges for layer in each] == list(range(len(weights)))
    assert all(ranges) and len(ranges) == parts


def test_equal_layers_are_divided_evenly() -> None:
    assert [len(each) for each in weighted_ranges([7] * 30, 4)] == [7, 8, 7, 8]

"""Pairs that become one dispatch, bit for bit, and pairs that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import ComputeGraph, Encoder, MlxBuffer, MlxDevice, Out, counters, ops

from .random_graphs import SIZE

ROWS, WIDTH = 3, 37


@pytest.fixture
def data(device: MlxDevice) -> dict[str, MlxBuffer]:
    rng = np.random.default_rng(3)
    shapes = {"x": (ROWS, WIDTH), "y": (ROWS, WIDTH), "z": (ROWS, WIDTH), "w": (WIDTH,)}
    return {name: device.buffer(rng.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()}


Record = Callable[[Encoder, Any], MlxBuffer]
PAIRS: dict[str, Record] = {
    "norm times": lambda enc, d: ops.mul(enc, ops.rms_norm(enc, d["x"], d["w"]), d["y"]),
    "times norm, without weight": lambda enc, d: ops.mul(enc, d["y"], ops.rms_norm(enc, d["x"])),
    "norm plus": lambda enc, d: ops.add(enc, ops.rms_norm(enc, d["x"], d["w"], eps=0.1), d["y"]),
    "sum, then norm": lambda enc, d: ops.rms_norm(enc, ops.add(enc, d["x"], d["y"]), d["w"]),
    "silu times up": lambda enc, d: ops.mul(enc, ops.silu(enc, d["x"]), d["y"]),
    "up times gelu": lambda enc, d: ops.mul(enc, d["y"], ops.gelu_approx(enc, d["x"])),
    "sigmoid gate": lambda enc, d: ops.mul(enc, ops.sigmoid(enc, d["x"]), d["y"]),
    "mask, then softmax": lambda enc, d: ops.softmax(enc, ops.add(enc, d["x"], d["y"])),
}


def recorded(device: MlxDevice, record: Record, data: dict[str, MlxBuffer]) -> ComputeGraph:
    with device.capture(**data) as graph:
        graph.keep(out=record(graph.encoder, data))
    return graph


def bits(graph: ComputeGraph) -> bytes:
    graph.names["out"].fill(0)
    graph.run()
    return graph.names["out"].to_bytes()


@pytest.mark.parametrize("name", PAIRS)
def test_a_pair_becomes_one(device: MlxDevice, data: dict[str, MlxBuffer], name: str) -> None:
    graph = recorded(device, PAIRS[name], data)
    fused = graph.fuse()
    assert (graph.dispatch_count(), fused.dispatch_count(), fused.changes["fused"]) == (2, 1, 1)
    assert bits(fused) == bits(graph)


def test_three_become_one(device: MlxDevice, data: dict[str, MlxBuffer]) -> None:
    graph = recorded(
        device,
        lambda enc, d: ops.softmax(enc, ops.add(enc, ops.scalar_mul(enc, d["x"], 0.3), d["y"])),
        data,
    )
    fused = graph.fuse()
    assert (graph.dispatch_count(), fused.dispatch_count()) == (3, 1)
    assert bits(fused) == bits(graph)


def test_a_sum_that_others_read_is_still_written(device: MlxDevice, data: dict[str, MlxBuffer]) -> None:
    def record(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
        total = ops.add(enc, d["x"], d["y"])
        return ops.add(enc, ops.scalar_mul(enc, ops.rms_norm(enc, total, d["w"]), 2.0), total)

    graph = recorded(device, record, data)
    assert graph.fuse().changes["fused"] == 1
    assert bits(graph.fuse()) == bits(graph)


def two_readers(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
    norm = ops.rms_norm(enc, d["x"], d["w"])
    return ops.mul(enc, ops.mul(enc, norm, d["y"]), norm)


def overwritten_between(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
    norm = ops.rms_norm(enc, d["x"], d["w"])
    ops.scalar_mul(enc, d["y"], 2.0, out=d["x"])
    return ops.mul(enc, norm, d["y"])


def behind_a_barrier(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
    norm = ops.rms_norm(enc, d["x"], d["w"])
    enc.memory_barrier()
    return ops.mul(enc, norm, d["y"])


def half_of_it(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
    norm = ops.rms_norm(enc, d["x"], d["w"])
    return ops.mul(enc, norm[1:], d["y"][1:])


def sum_as_both(enc: Encoder, d: dict[str, MlxBuffer]) -> MlxBuffer:
    total = ops.add(enc, d["y"][0], d["w"])
    return ops.rms_norm(enc, total, total)


SEPARATE: dict[str, Record] = {
    "two readers": two_readers,
    "input overwritten": overwritten_between,
    "a barrier by hand": behind_a_barrier,
    "a part of it": half_of_it,
    "a sum as the weight": lambda enc, d: ops.rms_norm(enc, d["x"][0], ops.add(enc, d["y"][0], d["w"])),
    "a sum as both": sum_as_both,
    "x times x": lambda enc, d: ops.mul(enc, *[ops.rms_norm(enc, d["x"], d["w"])] * 2),
    "another norm": lambda enc, d: ops.mul(enc, ops.l2_norm(enc, d["x"]), d["y"]),
    "result over the input": lambda enc, d: ops.mul(enc, ops.rms_norm(enc, d["x"], d["w"]), d["y"], out=d["x"]),
}


@pytest.mark.parametrize("name", SEPARATE)
def test_these_stay_apart(device: MlxDevice, data: dict[str, MlxBuffer], name: str) -> None:
    graph = recorded(device, SEPARATE[name], data)
    assert graph.fuse().changes["fused"] == 0


def test_a_named_value_between_them_stays(device: MlxDevice, data: dict[str, MlxBuffer]) -> None:
    with device.capture(**data) as graph:
        norm = ops.rms_norm(graph.encoder, data["x"], data["w"])
        graph.keep(norm=norm, out=ops.mul(graph.encoder, norm, data["y"]))
    assert graph.fuse().changes["fused"] == 0


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_small_types_would_be_rounded_between(device: MlxDevice, data: dict[str, MlxBuffer], dtype: str) -> None:
    small = {name: device.buffer(buffer.numpy(), dtype) for name, buffer in data.items()}
    assert recorded(device, PAIRS["norm times"], small).fuse().changes["fused"] == 0


STEPS = ("rms_norm", "add", "mul", "silu", "gelu_approx", "sigmoid", "softmax", "scalar_mul")


@given(
    chain=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=14),
    kept=st.integers(0, 9),
)
def test_random_chains_keep_their_bits(device: MlxDevice, chain: list[tuple[str, int, int]], kept: int) -> None:
    rng = np.random.default_rng(5)
    values = [device.buffer(rng.normal(size=(2, 40)).astype(np.float32)) for _ in range(2)]
    weight = device.buffer(rng.normal(size=40).astype(np.float32))
    with device.capture(a=values[0], b=values[1]) as graph:
        for name, first, second in chain:
            # Mostly the newest value, as in models, now and then an older one.
            one, other = (values[-1 - place % min(3, len(values)) if place < 8 else 0] for place in (first, second))
            more = {"rms_norm": (weight,), "add": (other,), "mul": (other,), "scalar_mul": (0.5,)}.get(name, ())
            values.append(getattr(ops, name)(graph.encoder, one, *more))
        graph.keep(out=values[-1], other=values[kept % len(values)])
    expected = bits(graph), graph.names["other"].to_bytes()
    for better in (graph.fuse(), graph.optimise()):
        assert (bits(better), better.names["other"].to_bytes()) == expected


def random_floats(device: MlxDevice, *shape: int) -> MlxBuffer:
    return device.buffer(np.random.default_rng(1).normal(size=shape).astype(np.float32))


def test_fusing_counts_nothing(device: MlxDevice) -> None:
    x, y = random_floats(device, 3, 37), random_floats(device, 3, 37)
    with device.capture(x=x, y=y) as g:
        g.keep(out=ops.mul(g.encoder, ops.rms_norm(g.encoder, x), y))
    with counters.scope() as counted:
        assert g.fuse().changes["fused"] == 1
    assert (counted.dispatches, counted.cmd_bufs) == (0, 0)


@pytest.mark.parametrize("op", [ops.mul, ops.add])
def test_an_op_that_refuses_leaves_the_pair(
    device: MlxDevice, op: Callable[[Encoder, MlxBuffer, MlxBuffer], MlxBuffer]
) -> None:
    x, y = random_floats(device, 3, 37), random_floats(device, 111)
    with device.capture(x=x, y=y) as g:
        g.keep(out=op(g.encoder, ops.rms_norm(g.encoder, x).reshape(111), y))
    assert g.fuse().changes["fused"] == 0


def test_a_kernel_that_only_has_the_name_stays(device: MlxDevice) -> None:
    source = (
        "kernel void silu_f32(device const float *x [[buffer(0)]], device float *out [[buffer(1)]], "
        "uint i [[thread_position_in_grid]]) { out[i] = x[i] + 100.0f; }"
    )
    pipeline = device.kernels.get_pipeline("silu_f32", library=device.kernels.library(source))
    x = device.buffer(np.ones(SIZE, np.float32))
    with device.capture(x=x) as g:
        g.encoder.dispatch(pipeline, x, Out(t := g.encoder.empty(SIZE, "f32")), threads=SIZE)
        g.keep(out=ops.mul(g.encoder, t, x))
    fused = g.fuse()
    fused.run()
    assert (fused.names["out"].numpy() == 101).all()

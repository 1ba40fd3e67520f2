"""What a decode step is fused from: products with gates, RoPE with cache writes; bit for bit, or left alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from kit.encoding import soft_device

from mlx_native_py import ComputeGraph, Encoder, MlxBuffer, MlxDevice, ops
from mlx_native_py.softmetal import DeviceProfile
from mlx_native_py.weights.ggml_types import GGML_TYPES

RNG = np.random.default_rng(7)
DEPTH, WIDTH = 256, 40
Product = Callable[[Encoder, MlxBuffer], MlxBuffer]


def floats(device: MlxDevice, *shape: int, dtype: str = "f32") -> MlxBuffer:
    return device.buffer(RNG.normal(size=shape).astype(np.float32), dtype)


def packed(device: MlxDevice, rows: int, bits: int) -> tuple[MlxBuffer, MlxBuffer, MlxBuffer]:
    words = device.buffer(RNG.integers(0, 1 << 32, (rows, DEPTH * bits // 32), np.uint32))
    return words, floats(device, rows, DEPTH // 64), floats(device, rows, DEPTH // 64)


def product(device: MlxDevice, weights: str, rows: int) -> Product:
    """Rows of x by a matrix [rows, DEPTH] in a format."""
    if weights in GGML_TYPES:
        kind = GGML_TYPES[weights]
        codes = RNG.integers(0, 256, (rows, DEPTH // kind.values * kind.bytes), np.uint8) & np.uint8(0xBB)
        blocks = device.buffer(codes)
        return lambda enc, x: ops.ggml_matmul(enc, x, blocks, weights)
    if weights.startswith("affine"):
        bits = int(weights.split()[1])
        parts = packed(device, rows, bits)
        return lambda enc, x: ops.quantized_matmul(enc, x, *parts, bits=bits, group_size=64)
    plain = floats(device, rows, DEPTH, dtype=weights)
    bias = floats(device, rows)
    return lambda enc, x: ops.matmul(enc, x, plain, transpose_b=True, bias=bias)


def halves(y: MlxBuffer) -> tuple[MlxBuffer, MlxBuffer]:
    flat = y.reshape(-1)
    return flat[: flat.size // 2], flat[flat.size // 2 :]


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def either(request: pytest.FixtureRequest) -> Iterator[MlxDevice]:
    """A device whose products have the forms of CPUs, and one whose products have those of GPUs."""
    profile = DeviceProfile() if request.param == "cpu" else DeviceProfile(architecture="applegpu_g15s")
    with soft_device(profile, engine="auto" if request.param == "cpu" else "fibers") as opened:
        yield opened


def same_bits(graph: ComputeGraph, dispatches: int) -> None:
    """The fused graph has so many dispatches and leaves what the recorded one leaves in everything that is named."""
    fused = graph.fuse()
    assert fused.dispatch_count() == dispatches
    before = [_run(graph, name) for name in graph.names]
    assert [_run(fused, name) for name in graph.names] == before


def _run(graph: ComputeGraph, name: str) -> bytes:
    graph.run()
    return graph.names[name].to_bytes()


WEIGHTS = [
    *(pytest.param(name, marks=() if name in ("Q4_1", "Q6_K") else pytest.mark.full) for name in GGML_TYPES),
    *("affine 4", "f32", "f16"),
]


@pytest.mark.soft
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_product_and_its_gate(either: MlxDevice, weights: str) -> None:
    x = floats(either, 1, DEPTH)
    make = product(either, weights, 2 * WIDTH)
    with either.capture(x=x) as graph:
        graph.keep(out=ops.silu_mul(graph.encoder, *halves(make(graph.encoder, x))))
    same_bits(graph, 1)


GATES: dict[str, Callable[[Encoder, MlxBuffer, MlxBuffer], MlxBuffer]] = {
    "gelu": lambda enc, gate, up: ops.gelu_mul(enc, gate, up, approximate=False),
    "gelu_approx": lambda enc, gate, up: ops.gelu_mul(enc, gate, up),
    "sigmoid": lambda enc, gate, up: ops.sigmoid_mul(enc, up, gate),
}


@pytest.mark.parametrize("gate", [pytest.param("gelu", marks=pytest.mark.full), "gelu_approx", "sigmoid"])
def test_other_gates(device: MlxDevice, gate: str) -> None:
    x, make = floats(device, 1, DEPTH, dtype="f16"), product(device, "Q8_0", 2 * WIDTH)
    with device.capture(x=x) as graph:
        graph.keep(out=GATES[gate](graph.encoder, *halves(make(graph.encoder, x))))
    same_bits(graph, 1)


def test_x_that_does_not_fit_at_once_is_brought_in_twice(device: MlxDevice) -> None:
    x, w = floats(device, 1, 2048 + 64), device.buffer(RNG.integers(0, 60, (64, 66 * 18), np.uint8))
    with device.capture(x=x) as graph:
        y = ops.ggml_matmul(graph.encoder, x, w, "Q4_0")
        graph.keep(out=ops.silu_mul(graph.encoder, *halves(y)))
    same_bits(graph, 1)


def up_before_gate(enc: Encoder, y: MlxBuffer) -> MlxBuffer:
    up, gate = halves(y)
    return ops.silu_mul(enc, gate, up)


def read_again(enc: Encoder, y: MlxBuffer) -> MlxBuffer:
    gate, up = halves(y)
    return ops.add(enc, ops.silu_mul(enc, gate, up), gate)


def bits_as_halves(enc: Encoder, y: MlxBuffer) -> MlxBuffer:
    return ops.silu_mul(enc, *halves(y.view("f16")))


@pytest.mark.parametrize("read", [up_before_gate, read_again, bits_as_halves])
def test_products_that_stay(device: MlxDevice, read: Callable[[Encoder, MlxBuffer], MlxBuffer]) -> None:
    x, make = floats(device, 1, DEPTH), product(device, "Q4_0", 2 * WIDTH)
    with device.capture(x=x) as graph:
        graph.keep(out=read(graph.encoder, make(graph.encoder, x)))
    assert graph.fuse().changes["fused"] == 0


def test_several_rows_stay(device: MlxDevice) -> None:
    x, make = floats(device, 2, DEPTH), product(device, "Q4_0", 2 * WIDTH)
    with device.capture(x=x) as graph:
        graph.keep(out=ops.silu_mul(graph.encoder, *halves(make(graph.encoder, x))))
    assert graph.fuse().changes["fused"] == 0


HEADS, KV, DIM, ROOM = 6, 2, 16, 8


def step(
    device: MlxDevice,
    *,
    batch: int = 1,
    tokens: int = 1,
    dtype: str = "f32",
    cached: str = "f32",
    joined: bool = True,
    ring: bool = False,
    dims: int = DIM,
) -> ComputeGraph:
    """Heads that turn, and keys and values that go to caches behind it."""
    rows = batch * tokens
    heads = floats(device, rows, HEADS + KV if joined else KV, DIM, dtype=dtype)
    values = floats(device, batch, tokens, KV, DIM, dtype=dtype)
    key_cache, value_cache = (device.full((batch, KV, ROOM, DIM), 0.0, cached) for _ in range(2))
    at = device.buffer(np.arange(batch, dtype=np.uint32) + ROOM - tokens)
    positions = device.buffer(np.arange(rows, dtype=np.uint32))
    with device.capture(keys=key_cache, values=value_cache) as graph:
        turned = ops.rope_at(graph.encoder, heads, positions, dims=dims, traditional=joined)
        keys = (turned.reshape(-1, DIM)[HEADS:] if joined else turned).reshape(batch, tokens, KV, DIM)
        ops.kv_cache_copy(
            *(graph.encoder, keys, values, key_cache, value_cache), position=at, ring=ring, tokens_first=True
        )
        graph.keep(turned=turned)
    return graph


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "f16", "cached": "f16"},
        {"dtype": "f32", "cached": "bf16", "joined": False},
        {"batch": 3, "joined": False, "dims": 12},
        {"batch": 2, "tokens": 3, "joined": False, "ring": True},
        {"batch": 2, "tokens": 3, "joined": False},
    ],
    ids=str,
)
def test_rope_and_the_write_to_the_cache(device: MlxDevice, options: dict[str, object]) -> None:
    same_bits(step(device, **options), 1)  # type: ignore[arg-type]


def test_many_tokens_share_their_angles(device: MlxDevice) -> None:
    assert step(device, tokens=64, joined=False, ring=True).fuse().changes["fused"] == 0


def test_values_that_turn_stay(device: MlxDevice) -> None:
    heads, keys = floats(device, 1, KV, DIM), floats(device, 1, 1, KV, DIM)
    key_cache, value_cache = (device.full((1, KV, ROOM, DIM), 0.0) for _ in range(2))
    with device.capture(keys=key_cache, values=value_cache) as graph:
        turned = ops.rope_at(graph.encoder, heads, 3).reshape(1, 1, KV, DIM)
        ops.kv_cache_copy(graph.encoder, keys, turned, key_cache, value_cache, position=0, tokens_first=True)
    assert graph.fuse().changes["fused"] == 0

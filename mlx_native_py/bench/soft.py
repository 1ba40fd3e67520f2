"""`mlx-native bench soft`: what the software device costs, beside numpy and MLX's CPU in the same run."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import settings
from ..metal import open_metal
from .rig import Rig, median_seconds

__all__ = ["Row", "main", "measure"]

_F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Row:
    """One measured work: our figure, the bar it should pass, and peers in the same unit."""

    work: str
    unit: str
    soft: float
    numpy: float | None = None
    mlx: float | None = None
    bar: str = ""
    passed: bool | None = None


def _random(*shape: int) -> _F32:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _close(name: str, found: _F32, expected: _F32, tolerance: float = 1e-4) -> None:
    error = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    if not error <= tolerance:
        raise SystemExit(f"{name}: wrong result, relative error {error:.2e}; a wrong kernel has no speed")


def _mlx() -> Any:
    try:
        import mlx.core as mx
    except ImportError:
        return None
    mx.set_default_device(mx.cpu)
    return mx


def _peer(mx: Any, work: Callable[[Any], Any], rounds: int) -> float | None:
    return None if mx is None else median_seconds(lambda: mx.eval(work(mx)), rounds) * 1e3


def _twice(soft: float, peer: float | None) -> bool | None:
    return None if peer is None else soft * 2 <= peer


def _bench_add(rig: Rig, mx: Any, rounds: int, n: int = 1 << 24) -> Row:
    a, b = _random(n), _random(n)
    out = np.empty_like(a)
    buffers = [rig.buffer(a), rig.buffer(b), rig.buffer(out)]
    soft = rig.median("add", buffers, (a.size, 1, 1), (256, 1, 1), rounds) * 1e3
    _close("add", rig.read(buffers[2], np.float32), a + b)
    peer = median_seconds(lambda: np.add(a, b, out=out), rounds) * 1e3
    mx_a, mx_b = (mx.array(a), mx.array(b)) if mx is not None else (None, None)
    other = _peer(mx, lambda m: m.add(mx_a, mx_b), rounds)
    return Row(f"add f32, {n >> 20} M", "ms", soft, peer, other, "at least numpy's speed", soft <= peer)


def _bench_waits(rig: Rig, rounds: int) -> list[Row]:
    """The price of one wait for each thread, all threads of a core's threadgroups counted."""
    out = rig.buffer(np.zeros(4096, np.float32))
    rows = []
    for name, work, limit in (("rendezvous", "simd rendezvous", 12.0), ("barrier", "threadgroup barrier", 20.0)):
        ns = rig.per_thread_ns(name, out, 4096, 256, rounds)
        rows.append(Row(work, "ns/lane", ns, bar=f"<= {limit:g} ns", passed=ns <= limit))
    return rows


def _bench_rms_norm(rig: Rig, mx: Any, rounds: int, rows: int = 4096) -> Row:
    x, w = _random(rows, 2048), _random(2048)
    buffers = [rig.buffer(x), rig.buffer(w), rig.buffer(x), np.uint32(2048)]
    soft = rig.median("rms_norm", buffers, (rows * 256, 1, 1), (256, 1, 1), rounds) * 1e3

    def reference() -> _F32:
        return np.asarray(x / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(1e-5)) * w)

    _close("rms_norm", rig.read(buffers[2], np.float32).reshape(x.shape), reference())
    mx_x, mx_w = (mx.array(x), mx.array(w)) if mx is not None else (None, None)
    peer = _peer(mx, lambda m: m.fast.rms_norm(mx_x, mx_w, 1e-5), rounds)
    return Row(f"rms_norm {rows} x 2048", "ms", soft, median_seconds(reference, rounds) * 1e3, peer)


def _bench_matmul(rig: Rig, mx: Any, rounds: int, n: int = 512) -> Row:
    a, b = _random(n, n), _random(n, n)
    buffers = [rig.buffer(a), rig.buffer(b), rig.buffer(a), np.uint32(n)]
    soft = rig.median("matmul", buffers, (n // 64 * 128, n // 64, 1), (128, 1, 1), rounds) * 1e3
    _close("matmul", rig.read(buffers[2], np.float32).reshape(n, n), a @ b)
    mx_a, mx_b = (mx.array(a), mx.array(b)) if mx is not None else (None, None)
    peer = _peer(mx, lambda m: m.matmul(mx_a, mx_b), rounds)
    numpy = median_seconds(lambda: a @ b, rounds) * 1e3
    return Row(f"simdgroup matmul {n}^3", "ms", soft, numpy, peer, ">= 2 x MLX CPU", _twice(soft, peer))


def _bench_q4(rig: Rig, mx: Any, rounds: int, n: int = 4096) -> Row:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 1 << 32, (n, n // 8), dtype=np.uint32)
    scales, biases, x = _random(n, n // 64), _random(n, n // 64), _random(n)
    y = np.zeros(n, np.float32)
    buffers = [rig.buffer(v) for v in (words, scales, biases, x, y)]
    soft = rig.median("q4_matvec", [*buffers, np.uint32(n)], (n // 4 * 128, 1, 1), (128, 1, 1), rounds) * 1e3
    quants = (words[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).reshape(n, n).astype(np.float32)
    dense = (quants * scales.repeat(64, axis=1) + biases.repeat(64, axis=1)).astype(np.float32)
    _close("q4_matvec", rig.read(buffers[4], np.float32), dense @ x)
    peer = None
    if mx is not None:
        packed = [mx.array(v) for v in (words, scales, biases)]
        vector = mx.array(x[None])
        peer = _peer(mx, lambda m: m.quantized_matmul(vector, *packed, group_size=64, bits=4), rounds)
    numpy = median_seconds(lambda: dense @ x, rounds) * 1e3
    return Row(f"q4 matvec {n}^2", "ms", soft, numpy, peer, ">= 2 x MLX CPU", _twice(soft, peer))


def _bench_scaling(source: str, rounds: int) -> Row:
    """Time on one core over time on two, for arithmetic that memory does not limit."""
    times = []
    for threads in (1, 2):
        with settings.override(soft_threads=threads):
            rig = Rig(open_metal("soft"), source)
        x = rig.buffer(_random(1 << 18))
        times.append(rig.median("polynomial", [x, x, np.uint32(400)], (1 << 18, 1, 1), (256, 1, 1), rounds))
    gain = times[0] / times[1]
    return Row("1 to 2 cores", "x", gain, bar=">= 1.6", passed=gain >= 1.6)


def measure(rounds: int) -> list[Row]:
    """All rows, in one run."""
    source = resources.files(__package__).joinpath("soft.metal").read_text()
    mx = _mlx()
    with settings.override(soft_threads=1):
        waits = _bench_waits(Rig(open_metal("soft"), source), rounds)
    scaling = _bench_scaling(source, rounds)
    rig = Rig(open_metal("soft"), source)
    works = [bench(rig, mx, rounds) for bench in (_bench_add, _bench_rms_norm, _bench_matmul, _bench_q4)]
    return [*works, *waits, scaling]


def _print(rows: Sequence[Row]) -> None:
    def cell(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    print(f"measured on this CPU ({platform.machine()}), medians of one run; says nothing about Apple hardware")
    print(f"{'work':24}{'unit':>9}{'soft':>10}{'numpy':>10}{'MLX CPU':>10}  bar")
    for row in rows:
        verdict = "" if row.passed is None else ("  met" if row.passed else "  NOT MET")
        cells = "".join(f"{cell(v):>10}" for v in (row.soft, row.numpy, row.mlx))
        print(f"{row.work:24}{row.unit:>9}{cells}  {row.bar}{verdict}")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 where a bar is not met and `--strict` was given."""
    parser = argparse.ArgumentParser(prog="mlx-native bench soft", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--rounds", type=int, default=7, help="runs behind each median (default: 7)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where a bar is not met")
    chosen = parser.parse_args(argv)
    rows = measure(chosen.rounds)
    if chosen.json:
        json.dump([asdict(row) for row in rows], sys.stdout, indent=1)
        print()
    else:
        _print(rows)
    return int(chosen.strict and any(row.passed is False for row in rows))

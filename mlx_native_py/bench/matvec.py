"""`mlx-native bench matvec`: matrix-vector products in every weight format, relative to memory bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..device import MlxDevice
from ..dtypes import DType
from ..encoder import Encoder
from ..memory.buffer import MlxBuffer
from ..ops import ggml_matmul, matmul, quantized_matmul
from ..shared_device import default_device
from ..weights.ggml_types import GGML_TYPES, GgmlType
from .bandwidth import read_bandwidth
from .harness import Measured, measuring, options, report

__all__ = ["MatvecSpeed", "formats", "main", "measure"]

_AFFINE = (2, 3, 4, 5, 6, 8)
_GROUP = 64
_BARRED = ("Q4_0", "Q4_K", "Q6_K", "Q8_0", "affine 4")
_SHARE, _RATE = 0.6, 30.0

Product = Callable[[Encoder], MlxBuffer]


@dataclass(frozen=True)
class MatvecSpeed(Measured):
    """One format: the least time of a product, and its rates."""

    format: str
    us: float
    gb_per_s: float
    gflop_per_s: float
    share: float
    """Relative to the device's read bandwidth."""


def formats() -> list[str]:
    """All weight formats."""
    return [*GGML_TYPES, *(f"affine {bits}" for bits in _AFFINE), "mxfp4", "f32", "f16", "bf16"]


def measure(device: MlxDevice, names: Sequence[str], width: int, rounds: int) -> list[MatvecSpeed]:
    """A row per format, for a matrix [width, width]."""
    limit, rows = read_bandwidth(device), []
    for name in names:
        measuring(name)
        product, nbytes = _product(device, name, width)
        seconds = _least_seconds(device, product, rounds)
        speed, rate = nbytes / seconds, 2 * width**2 / seconds / 1e9
        passed = speed >= _SHARE * limit or rate >= _RATE if name in _BARRED else None
        bar = f">= {100 * _SHARE:.0f} % or {_RATE:.0f} GFLOP/s" if name in _BARRED else ""
        rows.append(MatvecSpeed(name, seconds * 1e6, speed / 1e9, rate, speed / limit, bar=bar, passed=passed))
    return rows


def _least_seconds(device: MlxDevice, product: Product, rounds: int) -> float:
    """The least time per product, in command buffers of eight, after a warm-up."""
    count, times = 8, []
    for _ in range(rounds + 1):
        with device.command_encoder() as enc:
            for _ in range(count):
                product(enc)
            begin = time.perf_counter()
            enc.commit_and_wait(label="matvec")
            times.append((time.perf_counter() - begin) / count)
    return min(times[1:])


def _product(device: MlxDevice, name: str, width: int) -> tuple[Product, int]:
    """The product in a format, and the bytes of its weights."""
    rng = np.random.default_rng(0)
    x = device.buffer(rng.normal(size=(1, width)).astype(np.float32))
    if name in GGML_TYPES:
        blocks = device.buffer(_blocks(rng, GGML_TYPES[name], width))
        return lambda enc: ggml_matmul(enc, x, blocks, name), blocks.nbytes
    if name in ("f32", "f16", "bf16"):
        kind = DType.of(name)
        row, weights = (device.buffer(rng.normal(size=(n, width)).astype(np.float32), kind) for n in (1, width))
        return lambda enc: matmul(enc, row, weights, transpose_b=True), weights.nbytes
    bits = 4 if name == "mxfp4" else int(name.split()[1])
    words = device.buffer(rng.integers(0, 1 << 32, (width, width * bits // 32), np.uint32))
    if name == "mxfp4":
        exponents = device.buffer(rng.integers(120, 130, (width, width // 32), np.uint8))
        return lambda enc: quantized_matmul(enc, x, words, exponents, mode="mxfp4"), words.nbytes + exponents.nbytes
    scales = device.buffer(rng.normal(size=(width, width // _GROUP)).astype(np.float16))
    nbytes = words.nbytes + 2 * scales.nbytes
    return lambda enc: quantized_matmul(enc, x, words, scales, scales, group_size=_GROUP, bits=bits), nbytes


def _blocks(rng: np.random.Generator, kind: GgmlType, width: int) -> np.ndarray:
    """Random blocks, with exponents limited so that every half is finite."""
    return rng.integers(0, 256, (width, width // kind.values * kind.bytes), np.uint8) & np.uint8(0xBB)


_COLUMNS: dict[str, Callable[[MatvecSpeed], str | float | None]] = {
    "format": lambda row: row.format,
    "us": lambda row: row.us,
    "GB/s": lambda row: row.gb_per_s,
    "of limit": lambda row: f"{100 * row.share:.0f} %",
    "GFLOP/s": lambda row: row.gflop_per_s,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table (or JSON); returns 1 if a bar is missed and `--strict` was given."""
    parser = options("matvec", __doc__)
    parser.add_argument("--only", default="", help="formats with this in their name")
    parser.add_argument("--width", type=int, default=4096, help="rows and columns of the matrix (default: 4096)")
    chosen = parser.parse_args(argv)
    device = default_device()
    names = [name for name in formats() if chosen.only in name]
    title = f"one row by a matrix of {chosen.width}^2 on {device.name}, the least of {chosen.rounds} rounds"
    return report(chosen, title, measure(device, names, chosen.width, chosen.rounds), _COLUMNS)

"""Checked mode holds dispatches to what they declare, and to the views that they are given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxDevice, Out, settings
from mlx_native_py.errors import CommandBufferError, MisalignedAccessError, OutOfBoundsError, UndeclaredAccessError
from mlx_native_py.softmetal.checked import zones

pytestmark = pytest.mark.soft
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void copy(device float *y, device float *x, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void bytes_as_floats(device float *y, device const uchar *x, uint i [[thread_position_in_grid]]) {
  y[i] = ((device const float *)(x + 1))[i];
}
kernel void vectors(device float4 *y, device const float *x, uint i [[thread_position_in_grid]]) {
  y[i] = *(device const float4 *)(x + 1 + i);
}
kernel void kept(device ulong *y, device float *x, uint i [[thread_position_in_grid]]) {
  if (i == 0) ((device float *)y[0])[0] = x[0];
}
"""
N = 64


@pytest.fixture(scope="module")
def device() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=True), MlxDevice("soft") as opened:
        yield opened


@pytest.fixture(scope="module")
def library(device: MlxDevice) -> Any:
    return device.compile(SOURCE)


def _run(device: MlxDevice, pipeline: Any, *args: Any, **declared: Any) -> None:
    with device.command_encoder() as enc:
        enc.dispatch(pipeline, *args, threads=N, group=N, **declared)


def test_what_is_declared_or_inferred_is_silent(device: MlxDevice, library: Any) -> None:
    x, y = device.ones(N), device.empty(N)
    _run(device, library.copy.pipeline, y, x)
    _run(device, library.copy.pipeline, Out(y), x)
    _run(device, library.copy.pipeline, y, x, reads=[x], writes=[y])


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (lambda x, y: {"reads": [x], "writes": []}, r"'copy' writes bytes \[0, 256\) of buffer"),
        (lambda x, y: {"reads": [], "writes": [y]}, r"'copy' reads bytes \[0, 256\) of buffer"),
        (lambda x, y: {"reads": [x], "writes": [y[:32]]}, r"writes bytes \[128, 256\)"),
        (lambda x, y: {"reads": [x[32:]], "writes": [y]}, r"reads bytes \[0, 128\)"),
    ],
)
def test_what_is_not_declared_is_found(device: MlxDevice, library: Any, declared: Any, text: str) -> None:
    x, y = device.ones(N), device.zeros(N)
    with pytest.raises(UndeclaredAccessError, match=text):
        _run(device, library.copy.pipeline, y, x, **declared(x, y))


def test_views_end_where_they_end(device: MlxDevice, library: Any) -> None:
    whole = device.ones(2 * N)
    with pytest.raises(OutOfBoundsError, match=r"'x' \(slot 1, 128 bytes\): byte offset 128;"):
        _run(device, library.copy.pipeline, device.zeros(N), whole[:32])


def test_elements_must_be_aligned_and_vectors_need_not(device: MlxDevice, library: Any) -> None:
    _run(device, library.vectors.pipeline, device.zeros(4 * N), device.ones(2 * N))
    with pytest.raises(MisalignedAccessError, match=r"byte offset 1 of buffer 'x'.*not aligned to 4 bytes"):
        _run(device, library.bytes_as_floats.pipeline, device.zeros(N), device.ones(2 * N))


def _gone(device: MlxDevice) -> MlxBuffer:
    """A buffer with the address of one that is freed."""
    freed = device.ones(N)
    address = freed.allocation.mtl.gpuAddress()
    del freed
    return device.buffer(np.full(N, address, np.uint64))


def test_memory_that_is_gone_is_not_touched(device: MlxDevice, library: Any) -> None:
    with pytest.raises(OutOfBoundsError, match="memory that is not bound"):
        _run(device, library.kept.pipeline, _gone(device), device.ones(N))


def test_without_addresses_to_spare_the_nearest_buffer_is_named(
    device: MlxDevice, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "zones", lambda: None)
    _run(device, library.copy.pipeline, device.zeros(N), device.ones(N))
    with pytest.raises(CommandBufferError, match="outside of buffer 'x'"):
        _run(device, library.copy.pipeline, device.zeros(N), device.ones(N - 1))

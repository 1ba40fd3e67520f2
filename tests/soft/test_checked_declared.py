"""Checked mode holds dispatches to what they declare, and to the views that they are given."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxBuffer, MlxDevice, Out, settings
from mlx_native_py.errors import CommandBufferError, MisalignedAccessError, OutOfBoundsError, UndeclaredAccessError
from mlx_native_py.softmetal import pages
from mlx_native_py.softmetal.checked import zones

pytestmark = pytest.mark.soft
SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void copy(device float *y, device float *x, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }
kernel void scaled(device float *y, device float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] = a * x[i];
}
kernel void bytes_as_floats(device float *y, device const uchar *x, uint i [[thread_position_in_grid]]) {
  y[i] = ((device const float *)(x + 1))[i];
}
kernel void vectors(device float4 *y, device const float *x, uint i [[thread_position_in_grid]]) {
  y[i] = *(device const float4 *)(x + 1 + i);
}
kernel void kept(device ulong *y, device float *x, uint i [[thread_position_in_grid]]) {
  if (i == 0) ((device float *)y[0])[0] = x[0];
}
kernel void store_pointer(device float *x, device ulong *to, uint i [[thread_position_in_grid]]) {
  if (i == 0) to[0] = (ulong)(x + 3);
}
kernel void follow(device float *other, device const ulong *from, device float *y, constant uint &n,
                   uint i [[thread_position_in_grid]]) {
  if (i < n) y[i] = ((device float *)from[0])[i];
}
kernel void follow_write(device float *other, device const ulong *from, uint i [[thread_position_in_grid]]) {
  if (i < 4) ((device float *)from[0])[i] = other[i];
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


@pytest.mark.parametrize("indirect", [False, True], ids=["straight", "indirect"])
@pytest.mark.parametrize(
    ("declared", "error", "text"),
    [
        (lambda x, y: {"reads": [x], "writes": [y[:32]]}, UndeclaredAccessError, r"writes bytes \[128, 256\)"),
        (lambda x, y: {"reads": [x[32:]], "writes": [y]}, UndeclaredAccessError, r"reads bytes \[0, 128\)"),
        (lambda x, y: {"reads": [x], "writes": [y]}, None, ""),
    ],
    ids=["write", "read", "right"],
)
def test_plans_are_held_to_it(
    device: MlxDevice, library: Any, indirect: bool, declared: Any, error: Any, text: str
) -> None:
    x, y = device.ones(N), device.zeros(N)
    with device.capture() as graph:
        graph.encoder.dispatch(library.scaled.pipeline, y, x, 2.0, threads=N, group=N, **declared(x, y))
    plan = graph.plan(indirect=indirect)
    assert plan.is_indirect is indirect
    for _ in range(2):
        with pytest.raises(error, match=text) if error else nullcontext():
            plan.run()


def test_views_of_plans_end_where_they_end(device: MlxDevice, library: Any) -> None:
    whole, y = device.ones(2 * N), device.zeros(N)
    with device.capture() as graph:
        graph.encoder.dispatch(library.copy.pipeline, y, whole[:32], threads=N, group=N)
    with pytest.raises(OutOfBoundsError, match=r"'x' \(slot 1, 128 bytes\): byte offset 128;"):
        graph.plan().run()


@pytest.mark.skipif(sys.platform != "linux", reason="arguments have zones on Linux only")
def test_memory_of_the_caller_is_mapped_anew_where_other_memory_was(device: MlxDevice, library: Any) -> None:
    y, length, anywhere = device.zeros(N), pages.PAGE, None
    address = pages.libc().mmap(anywhere, length, pages.READ_WRITE, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1, 0)
    for value in (1.0, 2.0):
        # What was there is gone, as after munmap and another mmap.
        flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | pages.FIXED
        assert pages.libc().mmap(address, length, pages.READ_WRITE, flags, -1, 0) == address
        x = np.frombuffer(memoryview((ctypes.c_char * length).from_address(address)), np.float32)
        x[:] = value
        _run(device, library.copy.pipeline, y, device.buffer(x, copy=False)[:N])
        assert y.numpy().tolist() == [value] * N
        del x
        device.residency.flush()  # which holds what was dropped until then


@pytest.mark.skipif(sys.platform != "linux", reason="arguments have zones on Linux only")
def test_what_is_told_of_closed_memory_stays_short(device: MlxDevice, library: Any) -> None:
    x, y = device.ones(N), device.zeros(N)
    _run(device, library.copy.pipeline, y, x)
    for place in range(20000):
        pages.FilePages.note_closed(place * pages.PAGE, pages.PAGE)
    assert pages.FilePages.closed is not None and 0 < len(pages.FilePages.closed) < 5000
    _run(device, library.copy.pipeline, y, x)
    assert len(pages.FilePages.closed) < 100  # what earlier tests dropped may be given back meanwhile
    assert y.numpy().tolist() == [1.0] * N


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


def _pointer(device: MlxDevice, library: Any, to: MlxBuffer) -> MlxBuffer:
    """A buffer in which a kernel has stored where the fourth number of another one is."""
    kept = device.zeros(2, "u64")
    _run(device, library.store_pointer.pipeline, to, kept)
    return kept


def test_a_stored_pointer_leads_to_what_it_was_taken_of(device: MlxDevice, library: Any) -> None:
    x, y = device.buffer(np.arange(N, dtype=np.float32)), device.zeros(N)
    kept = _pointer(device, library, x)
    other = device.buffer(np.full(N, -1, np.float32))
    _run(device, library.follow.pipeline, other, kept, y, 4)
    assert y.numpy()[:4].tolist() == [3, 4, 5, 6]
    _run(device, library.follow_write.pipeline, other, kept)
    assert x.numpy()[:8].tolist() == [0, 1, 2, -1, -1, -1, -1, 7]


def test_a_stored_pointer_ends_where_its_buffer_ends(device: MlxDevice, library: Any) -> None:
    x = device.ones(N)
    kept = _pointer(device, library, x)
    with pytest.raises(OutOfBoundsError):
        _run(device, library.follow.pipeline, device.ones(2 * N), kept, device.zeros(N), N)


def test_a_stored_pointer_to_memory_that_is_gone_is_found(device: MlxDevice, library: Any) -> None:
    other, y = device.ones(2 * N), device.zeros(N)
    kept = _pointer(device, library, device.buffer(np.ones(N, np.float32)))
    _run(device, library.copy.pipeline, y, other)  # what is gone leaves the residency set with the next commit
    with pytest.raises(OutOfBoundsError, match="memory that is not bound"):
        _run(device, library.follow.pipeline, other, kept, y, 4)


def test_stored_pointers_outlive_many_other_arguments(device: MlxDevice, library: Any) -> None:
    x, y = device.buffer(np.arange(N, dtype=np.float32)), device.zeros(N)
    kept = _pointer(device, library, x)
    others = [device.ones(N) for _ in range(40)]
    for each in others:
        _run(device, library.copy.pipeline, y, each)
    _run(device, library.follow.pipeline, others[0], kept, y, 4)
    assert y.numpy()[:4].tolist() == [3, 4, 5, 6]


@pytest.fixture
def few_zones() -> Iterator[None]:
    """Six free ones."""
    known = zones.zones()
    assert known is not None
    hidden = [known._free.pop() for _ in range(len(known._free) - 6)]
    yield
    known._free.extend(hidden)


@pytest.mark.usefixtures("few_zones")
def test_more_arguments_than_there_are_zones(device: MlxDevice, library: Any) -> None:
    y = device.zeros(N)
    kept = [device.buffer(np.full(N, value, np.float32)) for value in range(12)]
    for _ in range(2):
        for value, each in enumerate(kept):
            _run(device, library.copy.pipeline, y, each)
            assert y.numpy().tolist() == [value] * N
    with pytest.raises(OutOfBoundsError, match=r"'x' \(slot 1, 128 bytes\): byte offset 128;"):
        _run(device, library.copy.pipeline, y, kept[3][:32])


def test_without_addresses_to_spare_the_nearest_buffer_is_named(
    device: MlxDevice, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "zones", lambda: None)
    _run(device, library.copy.pipeline, device.zeros(N), device.ones(N))
    with pytest.raises(CommandBufferError, match="outside of buffer 'x'"):
        _run(device, library.copy.pipeline, device.zeros(N), device.ones(N - 1))

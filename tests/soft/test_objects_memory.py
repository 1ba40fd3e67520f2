"""Buffers and heaps: where their bytes are, how long they live, and what is refused."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal import memory
from mlx_native_py.softmetal.pages import HUGE, FilePages

PAGE = mmap.PAGESIZE


@pytest.fixture
def device() -> Any:
    return Metal.open_device()


def test_a_buffer_is_zeroed_aligned_and_shared(device: Any) -> None:
    mtl = device.newBufferWithLength_options_(1000, Metal.MTLResourceStorageModeShared)
    view = mtl.contents().as_buffer(1000)
    assert (view.format, view.readonly, len(view)) == ("B", False, 1000)
    assert bytes(view) == bytes(1000)
    assert mtl.gpuAddress() % PAGE == 0
    assert mtl.gpuAddress() in memory.arena()
    view[3] = 7
    assert mtl.contents().as_buffer(4)[3] == 7
    assert (mtl.length(), mtl.allocatedSize(), mtl.storageMode()) == (1000, PAGE, Metal.MTLStorageModeShared)


def test_the_page_behind_a_buffer_is_closed(device: Any) -> None:
    mtl = device.newBufferWithLength_options_(PAGE, 0)
    ranges = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    rights = {int(span.split("-")[0], 16): kind for span, kind in ranges}
    assert rights[mtl.gpuAddress()].startswith("rw")
    assert rights[mtl.gpuAddress() + PAGE].startswith("---")


def test_a_large_buffer_asks_for_large_pages_and_a_small_one_does_not(device: Any) -> None:
    large, small = (device.newBufferWithLength_options_(size, 0) for size in (3 * HUGE + PAGE, HUGE))
    assert large.gpuAddress() % HUGE == 0
    if not Path("/sys/kernel/mm/transparent_hugepage").exists():
        pytest.skip("this system has no large pages")
    assert "hg" in _flags(large.gpuAddress()) and "hg" in _flags(large.gpuAddress() + 3 * HUGE)
    assert "hg" not in _flags(small.gpuAddress())


def _flags(address: int) -> list[str]:
    """What Linux knows of the mapping at an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line.split()[0].endswith(":"):
            low, high = (int(part, 16) for part in line.split()[0].split("-"))
            inside = low <= address < high
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    return []


def test_the_view_keeps_nothing_alive_and_the_account_is_exact(device: Any) -> None:
    gc.collect()  # what earlier tests dropped is not counted
    start = device.currentAllocatedSize()
    mtl = device.newBufferWithLength_options_(PAGE + 1, 0)
    view = mtl.contents().as_buffer(8)
    assert device.currentAllocatedSize() - start == 2 * PAGE
    del mtl
    assert device.currentAllocatedSize() == start
    del view


def test_freed_addresses_are_not_used_again_soon(device: Any) -> None:
    first = device.newBufferWithLength_options_(PAGE, 0).gpuAddress()
    assert device.newBufferWithLength_options_(PAGE, 0).gpuAddress() != first


def test_an_arena_recycles_when_it_is_full() -> None:
    arena = memory.MemoryArena(most=16 * PAGE, step=16 * PAGE, gap=PAGE)
    first = [made for _ in range(8) if (made := arena.memory(PAGE)) is not None]
    assert None not in first
    assert arena.memory(PAGE) is None
    for each in first[:3]:
        each.view()[0] = 9
    address = first[0].address
    del each, first
    again = arena.memory(3 * PAGE)
    assert again is not None and (again.address, again.view()[0]) == (address, 0)


def test_bytes_are_copied_and_shorter_data_refused(device: Any) -> None:
    data = np.arange(6, dtype=np.uint32)
    mtl = device.newBufferWithBytes_length_options_(data, 24, 0)
    data[:] = 0
    assert list(np.frombuffer(mtl.contents().as_buffer(24), np.uint32)) == [0, 1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="fewer than the 25"):
        device.newBufferWithBytes_length_options_(data, 25, 0)
    with pytest.raises(TypeError):
        device.newBufferWithBytes_length_options_("text", 4, 0)
    with pytest.raises(ValueError, match="contiguous"):
        device.newBufferWithBytes_length_options_(np.zeros((4, 4))[:, 1], 8, 0)


@pytest.mark.parametrize(
    ("length", "kind"), [(1.0, TypeError), (True, TypeError), ("8", TypeError), (-1, ValueError), (2**64, ValueError)]
)
def test_lengths_must_be_unsigned_integers(device: Any, length: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="length"):
        device.newBufferWithLength_options_(length, 0)


def test_no_buffer_when_empty_too_large_or_out_of_memory() -> None:
    small = Metal.open_device(profile=Metal.DeviceProfile(memory=64 * PAGE, working_set=48 * PAGE))
    assert small.recommendedMaxWorkingSetSize() == small.maxBufferLength() == 48 * PAGE
    assert small.newBufferWithLength_options_(0, 0) is None
    assert small.newBufferWithLength_options_(48 * PAGE + 1, 0) is None
    held = small.newBufferWithLength_options_(40 * PAGE, 0)
    assert small.newBufferWithLength_options_(40 * PAGE, 0) is None
    del held
    assert small.newBufferWithLength_options_(40 * PAGE, 0) is not None


def test_two_threads_do_not_share_the_last_room(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Metal.open_device(profile=Metal.DeviceProfile(memory=64 * PAGE, working_set=48 * PAGE))
    plain = small.state.arena.memory

    def slow(length: int) -> Any:
        time.sleep(0.05)
        return plain(length)

    monkeypatch.setattr(small.state.arena, "memory", slow)
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(small.newBufferWithLength_options_, 40 * PAGE, 0) for _ in range(2)]
        held = [each.result() for each in asked]
    assert held.count(None) == 1
    assert small.currentAllocatedSize() <= 64 * PAGE


@pytest.mark.parametrize("kind", ["plain", "checked", "isolated"])
def test_a_forked_child_leaves_the_memory_of_its_parent(kind: str) -> None:
    opened: Any = Metal.open_device(Metal.SoftOptions(checked=kind == "checked", isolated=kind == "isolated"))
    mtl = opened.newBufferWithLength_options_(64 * PAGE, 0)
    view = mtl.contents().as_buffer(4)
    view[:] = b"kept"
    child = os.fork()
    if not child:
        with suppress(Metal.MetalMisuse):
            mtl.setPurgeableState_(Metal.MTLPurgeableStateEmpty)
        seen = bytes(view)
        view[:] = b"lost"
        del mtl
        os._exit(seen != b"kept" or bytes(view) != b"lost")
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(view) == b"kept"


def test_memory_of_the_caller_is_aliased(device: Any) -> None:
    gc.collect()
    start, backing, calls = device.currentAllocatedSize(), mmap.mmap(-1, 2 * PAGE), []
    mtl = device.newBufferWithBytesNoCopy_length_options_deallocator_(
        backing, 2 * PAGE, 0, lambda address, length: calls.append((address, length))
    )
    backing[5] = 42
    assert mtl.contents().as_buffer(6)[5] == 42
    with pytest.raises(BufferError):
        backing.close()
    place = mtl.gpuAddress()
    assert device.currentAllocatedSize() == start + 2 * PAGE
    del mtl
    assert calls == [(place, 2 * PAGE)]
    assert device.currentAllocatedSize() == start
    backing.close()


def test_memory_of_the_caller_leaves_less_for_others() -> None:
    small = Metal.open_device(profile=Metal.DeviceProfile(memory=64 * PAGE))
    backing = mmap.mmap(-1, 40 * PAGE)
    held = small.newBufferWithBytesNoCopy_length_options_deallocator_(backing, 40 * PAGE, 0, None)
    assert small.newBufferWithLength_options_(30 * PAGE, 0) is None
    del held
    assert small.newBufferWithLength_options_(30 * PAGE, 0) is not None


def test_memory_of_the_caller_must_be_whole_pages(device: Any) -> None:
    make = device.newBufferWithBytesNoCopy_length_options_deallocator_
    with pytest.raises(ValueError, match="whole pages"):
        make(mmap.mmap(-1, PAGE), PAGE - 1, 0, None)
    with pytest.raises(ValueError, match="whole pages"):
        make(memoryview(mmap.mmap(-1, 2 * PAGE))[16:], PAGE, 0, None)
    with pytest.raises(ValueError, match="writable"):
        make(bytes(PAGE), PAGE, 0, None)


def test_private_managed_and_purgeable(device: Any) -> None:
    private = device.newBufferWithLength_options_(16, Metal.MTLResourceStorageModePrivate)
    with pytest.raises(Metal.MetalMisuse, match="private storage"):
        private.contents()
    with pytest.raises(Metal.MetalMisuse, match="managed"):
        private.didModifyRange_((0, 4))
    managed = device.newBufferWithLength_options_(16, Metal.MTLResourceStorageModeManaged)
    managed.didModifyRange_((0, 16))
    with pytest.raises(ValueError, match="ends beyond 16"):
        managed.didModifyRange_((8, 16))
    managed.contents().as_buffer(1)[0] = 1
    assert managed.setPurgeableState_(Metal.MTLPurgeableStateEmpty) == Metal.MTLPurgeableStateNonVolatile
    assert managed.setPurgeableState_(Metal.MTLPurgeableStateKeepCurrent) == Metal.MTLPurgeableStateEmpty
    assert managed.contents().as_buffer(1)[0] == 0
    with pytest.raises(ValueError, match="reaches beyond"):
        managed.contents().as_buffer(17)


def test_configure_keeps_the_device_unless_something_changes() -> None:
    first = Metal.MTLCreateSystemDefaultDevice()
    Metal.configure(first.state.options)
    assert Metal.MTLCreateSystemDefaultDevice() is first
    assert list(Metal.MTLCopyAllDevices()) == [first]
    try:
        Metal.configure(Metal.SoftOptions(schedule="reversed"))
        assert Metal.MTLCreateSystemDefaultDevice() is not first
    finally:
        Metal.configure(first.state.options)


@pytest.mark.parametrize(
    "wrong", [{"schedule": "random"}, {"threads": 0}, {"watchdog_seconds": 0}, {"queue_patience_seconds": -1}]
)
def test_options_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Metal.SoftOptions(**wrong)


def heap_descriptor(size: int, kind: int = Metal.MTLHeapTypeAutomatic) -> Any:
    descriptor = Metal.MTLHeapDescriptor.alloc().init()
    descriptor.setSize_(size)
    descriptor.setStorageMode_(Metal.MTLStorageModeShared)
    descriptor.setType_(kind)
    return descriptor


def test_an_automatic_heap_finds_gaps(device: Any) -> None:
    gc.collect()  # what earlier tests dropped is not counted
    start = device.currentAllocatedSize()
    heap = device.newHeapWithDescriptor_(heap_descriptor(4096))
    assert device.heapBufferSizeAndAlignWithLength_options_(1000, 0) == (1024, 256)
    parts = [heap.newBufferWithLength_options_(1000, 0) for _ in range(4)]
    assert heap.usedSize() == 4096
    assert heap.newBufferWithLength_options_(1, 0) is None
    assert [part.gpuAddress() - parts[0].gpuAddress() for part in parts] == [0, 1024, 2048, 3072]
    assert parts[1].hazardTrackingMode() == Metal.MTLHazardTrackingModeUntracked
    del parts[1]
    assert heap.maxAvailableSizeWithAlignment_(256) == 1024
    assert heap.newBufferWithLength_options_(600, 0).heapOffset() == 1024
    assert device.currentAllocatedSize() == start + 4096
    del heap
    gc.collect()
    assert device.currentAllocatedSize() == start + 4096  # its buffers keep it
    parts.clear()
    assert device.currentAllocatedSize() == start


def test_a_placement_heap_takes_offsets(device: Any) -> None:
    heap = device.newHeapWithDescriptor_(heap_descriptor(4096, Metal.MTLHeapTypePlacement))
    one = heap.newBufferWithLength_options_offset_(512, 0, 256)
    two = heap.newBufferWithLength_options_offset_(512, 0, 512)  # they may overlap
    one.contents().as_buffer(512)[256] = 5
    assert two.contents().as_buffer(1)[0] == 5
    with pytest.raises(ValueError, match="multiple of 256"):
        heap.newBufferWithLength_options_offset_(16, 0, 100)
    with pytest.raises(ValueError, match="inside the heap"):
        heap.newBufferWithLength_options_offset_(1024, 0, 3584)
    with pytest.raises(Metal.MetalMisuse, match="placement heap"):
        heap.newBufferWithLength_options_(16, 0)
    with pytest.raises(ValueError, match="storage mode"):
        heap.newBufferWithLength_options_offset_(16, Metal.MTLResourceStorageModePrivate, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has files without a name")
def test_memory_in_a_file_that_may_not_grow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FilePages()
    address = source.reserve(4 * PAGE)
    assert address is not None
    with monkeypatch.context() as limited:
        limited.setattr(os, "ftruncate", Mock(side_effect=OSError(errno.EFBIG, "File too large")))
        assert not source.open(address, PAGE)
    assert source.open(address, PAGE) and source.close(address, PAGE)

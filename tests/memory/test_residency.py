"""Residency: changes are staged, and take effect once per command buffer."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from mlx_native_py import MlxDevice, settings, softmetal
from mlx_native_py.metal import Backend, open_metal


class Recorder:
    """Passes messages on to a residency set and writes them down."""

    def __init__(self, device: MlxDevice) -> None:
        self.log: list[str] = []
        self.broken = ("", "")
        """Whether Ctrl-C comes before or after a message, and which."""
        self._real = device.residency.mtl
        device.residency.mtl = self

    def __getattr__(self, name: str) -> Any:
        def send(*arguments: Any) -> Any:
            self.log.append(name)
            if self.broken == ("before", name):
                raise KeyboardInterrupt
            answer = getattr(self._real, name)(*arguments)
            if self.broken == ("after", name):
                raise KeyboardInterrupt
            return answer

        return send


@pytest.fixture
def sets(device: MlxDevice) -> Iterator[Recorder]:
    if not device.residency_sets_enabled:
        pytest.skip(device.residency.reason)
    recorder = Recorder(device)
    yield recorder
    device.residency.mtl = recorder._real


def submit(device: MlxDevice) -> None:
    """One command buffer, as an encoder submits it."""
    with device.backend.autorelease_pool():
        commands = device.queue.commandBuffer()
        device.residency.flush()
        commands.commit()
        commands.waitUntilCompleted()


def test_allocations_that_are_dropped_at_once_cost_no_commit(device: MlxDevice, sets: Recorder) -> None:
    buffers = [device.empty(16) for _ in range(100)]
    assert (device.residency.count, sets.log) == (100, [])
    del buffers
    gc.collect()
    assert (device.residency.count, sets.log) == (0, [])
    submit(device)
    assert sets.log == [] and device.residency.commits == 0


def test_additions_go_in_one_message(device: MlxDevice, sets: Recorder) -> None:
    buffers = [device.empty(16) for _ in range(10)]
    submit(device)
    assert sets.log == ["addAllocations_count_", "commit"]
    assert all(sets._real.containsAllocation_(buffer.mtl) for buffer in buffers)
    dropped = buffers.pop().mtl
    submit(device)
    assert sets.log[2:] == ["removeAllocation_", "commit"]
    assert not sets._real.containsAllocation_(dropped) and device.residency.count == 9


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("message", ["removeAllocation_", "addAllocations_count_", "commit"])
def test_what_an_exception_leaves_undone_is_sent_with_the_next(
    device: MlxDevice, sets: Recorder, when: str, message: str
) -> None:
    old = device.empty(16)
    submit(device)
    dropped, new = old.mtl, device.empty(16)
    del old
    sets.broken = (when, message)
    with pytest.raises(KeyboardInterrupt):
        device.residency.flush()
    sets.broken = ("", "")
    sent, commits = len(sets.log), sets.log.count("commit")
    submit(device)
    assert sets.log[sent:] == ["removeAllocation_", "addAllocations_count_", "commit"], "all of it, in any case"
    assert sets._real.containsAllocation_(new.mtl) and not sets._real.containsAllocation_(dropped)
    assert device.residency.count == 1 and not device.residency.is_staged and sets.log.count("commit") == commits + 1


def test_clones_and_views_count_once(device: MlxDevice, sets: Recorder) -> None:
    x = device.empty(16)
    views = [x[:8], x.reshape(4, 4), x.slice_view(16, 2), x.view("u8")]
    array = views[0].numpy()
    assert device.residency.count == 1
    del x, views
    gc.collect()
    assert device.residency.count == 1
    del array
    gc.collect()
    assert device.residency.count == 0


def test_add_and_remove_by_hand(device: MlxDevice, sets: Recorder) -> None:
    x, residency = device.empty(16), device.residency
    assert residency.remove(x.allocation) and residency.count == 0
    assert residency.remove(x.allocation) and residency.count == 0
    assert residency.add(x.allocation) and residency.count == 1
    assert residency.add(x.allocation) and residency.count == 1
    submit(device)
    assert sets._real.containsAllocation_(x.mtl) and sets.log.count("commit") == 1
    del x
    gc.collect()
    assert residency.count == 0


def test_pool_blocks_are_members_while_the_pool_has_them(device: MlxDevice, sets: Recorder) -> None:
    pool = device.buffer_pool()
    pool.alloc_batch([(16, "f32", 4)] * 4)
    assert (device.residency.count, sets.log) == (4, [])
    submit(device)
    pool.reset()
    pool.clear()
    gc.collect()
    assert device.residency.count == 0
    submit(device)
    assert sets.log.count("commit") == 2


def test_dropped_memory_is_not_kept_by_what_is_staged(device: MlxDevice) -> None:
    gc.collect()  # what earlier tests dropped is not counted
    before = device.info()["currently_allocated"]
    for _ in range(5):
        device.empty(1 << 20)
    gc.collect()
    assert device.info()["currently_allocated"] == before


def test_threads_stage_while_others_flush(device: MlxDevice, sets: Recorder) -> None:
    def churn() -> None:
        for _ in range(40):
            kept = [device.empty(4) for _ in range(3)]
            device.residency.flush()
            del kept

    threads = [threading.Thread(target=churn) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    device.residency.flush()
    assert device.residency.count == 0 and not device.residency.is_staged
    assert len(sets._real.allAllocations() if hasattr(sets._real, "allAllocations") else ()) == 0


def test_without_a_set_all_is_quiet(backend: Backend) -> None:
    with settings.override(no_residency=True), MlxDevice(backend) as device:
        x = device.empty(16)
        assert not device.residency_sets_enabled and device.residency.reason == "HF2Q_NO_RESIDENCY is set"
        assert not device.residency.add(x.allocation) and not device.residency.remove(x.allocation)
        assert not device.residency.flush() and (device.residency.count, device.residency.commits) == (0, 0)
        assert device.info()["residency"] == "HF2Q_NO_RESIDENCY is set"


class Profiled:
    """Software Metal with a device of another profile."""

    def __init__(self, device: Any) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(softmetal, name)

    def MTLCreateSystemDefaultDevice(self) -> Any:
        return self._device


def profiled(soft: Any, **profile: Any) -> Backend:
    plain = open_metal("soft")
    device = soft.open_device(soft.SoftOptions(), soft.DeviceProfile(**profile))
    return Backend("soft", Profiled(device), plain.autorelease_pool, plain.url)


def test_an_old_device_has_none(soft: Any) -> None:
    with MlxDevice(profiled(soft, residency_sets=False)) as device:
        assert not device.residency_sets_enabled and "macOS 15" in device.residency.reason
        assert device.empty(4).fill(1).numpy().sum() == 4


def test_a_refused_set_is_a_reason_and_not_an_error(soft: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = profiled(soft)
    mtl = backend.default_device()
    monkeypatch.setattr(type(mtl), "newResidencySetWithDescriptor_error_", lambda *_: (None, None))
    with MlxDevice(backend) as device:
        assert not device.residency_sets_enabled
        assert device.residency.reason == "the device refused a residency set"
        with device.command_encoder():
            assert device.empty(4).fill(1).numpy().sum() == 4


def test_an_encoder_flushes_once_however_much_was_staged(device: MlxDevice, sets: Recorder) -> None:
    device.parameters  # noqa: B018  (made with the first encoder, and resident too)
    before = device.residency.flush()
    sets.log.clear()
    buffers = [device.empty(16) for _ in range(100)]
    del buffers[50:]
    gc.collect()
    with device.command_encoder() as encoder:
        encoder.commit_and_wait()
    assert sets.log == ["addAllocations_count_", "commit"] and device.residency.commits == before + 1

"""Through a stand-in for PyObjC: every message is in its table, and nothing is autoreleased outside a pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.encoding import SOURCE, floats
from kit.programs import PROGRAMS, Run
from standin import Bridge, install

from mlx_native_py import MlxDevice, settings
from mlx_native_py.encoder import Dispatch
from mlx_native_py.metal import open_metal
from mlx_native_py.pipelines.registry import KernelRegistry
from mlx_native_py.profiling import kernel_profile

pytestmark = pytest.mark.soft


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    return install(monkeypatch)


def test_dispatches_captures_and_sessions(bridge: Bridge) -> None:
    with MlxDevice("metal") as device:
        device.kernels.register_source("encoder_kit", SOURCE)
        axpy, total = device.kernels.get_pipeline("axpy"), device.kernels.get_pipeline("total")
        special = device.kernels.get_pipeline("special", {1: True, 3: 7})
        x, y, out = floats(device, 1, 2), floats(device, 0, 0), device.alloc_buffer(4, "u32", 1)
        for unretained in (False, True):
            with device.command_encoder(unretained_refs=unretained) as enc:
                enc.dispatch(axpy, x, y, 2.0, threads=2)
                enc.dispatch(axpy, x[1:], y[1:], 2.0, threads=1)
                enc.dispatch(special, out, threads=1)
                enc.start_capture()
                enc.dispatch(total, y, y[:1], threads=2, group=2, shared=8)
                (node,) = enc.take_capture() or []
                assert isinstance(node, Dispatch)
                enc.replay_dispatch(node)
        session = device.encoder_session()
        session.encoder().dispatch(axpy, x, y, 1.0, threads=2)
        session.fence_stage("stage")
        session.reset_for_next_stage()
        session.commit_and_wait()
        device.command_encoder().discard()
        assert out.numpy()[0] == 7
    assert bridge.loose == 0


@pytest.mark.parametrize("label", ["one", None])
def test_profiled_dispatches(bridge: Bridge, label: str | None) -> None:
    kernel_profile.reset()
    with MlxDevice("metal") as device, settings.override(profile_cb=True, profile_dispatch=True):
        device.kernels.register_source("encoder_kit", SOURCE)
        y = floats(device, 0, 0)
        enc = device.command_encoder()
        for _ in range(3):
            enc.dispatch(device.kernels.get_pipeline("fill"), y, 2.0, threads=2)
        enc.commit_and_wait(label)
        ((_, entries),) = kernel_profile.dump_dispatches()
        assert len(entries) == 3 and entries[0].gpu_ns >= 0
    assert bridge.loose == 0
    kernel_profile.reset()


def test_the_archive(bridge: Bridge, tmp_path: Path) -> None:
    with MlxDevice("metal") as device:
        for hits in (0, 1):
            registry = KernelRegistry(device, archive=tmp_path / "kernels.archive")
            registry.register_source("encoder_kit", SOURCE)
            registry.warmup(["fill"])
            assert registry.stats.archive_hits == hits
    assert bridge.loose == 0


@pytest.mark.parametrize("unretained", [False, True])
def test_programs(bridge: Bridge, unretained: bool) -> None:
    backend = open_metal("metal")
    bridge.loose = 0
    with MlxDevice(backend) as device:
        for program, expected in PROGRAMS.values():
            assert program(Run(device, unretained=unretained)) == expected()
        assert bridge.loose == 0, "autoreleased objects were made where no pool drains them"
    assert {"commit", "setBuffer:offset:atIndex:", "endEncoding"} <= set(bridge.sent)

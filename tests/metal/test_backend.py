"""The backend: what opens when, what is said where it does not, and one kernel through either kind of Metal."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlx_native_py import Backend, DeviceNotFound, SettingsError, open_metal, settings
from mlx_native_py.metal.capabilities import Capabilities, probe
from mlx_native_py.pipelines.sources import kernel_source

ROOT = Path(__file__).parents[2]
COUNT = 256


def run_self_check(backend: Backend, device: Any) -> tuple[np.ndarray, np.ndarray]:
    """Runs the shipped self-check kernel and gives `y` and the sums."""
    with backend.autorelease_pool():
        library, error = device.newLibraryWithSource_options_error_(kernel_source("self_check"), None, None)
        assert library is not None, error.localizedDescription()
        function = library.newFunctionWithName_("self_check")
        pipeline, error = device.newComputePipelineStateWithFunction_error_(function, None)
        assert pipeline is not None, error.localizedDescription()
        buffers = [device.newBufferWithLength_options_(4 * COUNT, 0) for _ in range(3)]
        views = [np.frombuffer(b.contents().as_buffer(4 * COUNT), np.float32) for b in buffers]
        views[0][:], views[1][:], views[2][:] = np.arange(COUNT), 1.0, 0.0
        commands = device.newCommandQueue().commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(pipeline)
        encoder.setBuffers_offsets_withRange_(tuple(buffers), (0, 0, 0), (0, 3))
        encoder.setBytes_length_atIndex_(struct.pack("<f", 0.5), 4, 3)
        encoder.dispatchThreadgroups_threadsPerThreadgroup_((COUNT // 64, 1, 1), (64, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        assert commands.status() == 4, commands.error()
        assert commands.GPUEndTime() >= commands.GPUStartTime() > 0.0
        return views[1].copy(), views[2][: COUNT // 32].copy()


def assert_self_check(backend: Backend) -> None:
    y, sums = run_self_check(backend, backend.default_device())
    wanted = 0.5 * np.arange(COUNT, dtype=np.float32) + 1.0
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_allclose(sums, wanted.reshape(-1, 32).sum(axis=1), rtol=1e-6)


def test_a_kernel_runs(backend: Backend) -> None:
    assert_self_check(backend)


def test_capabilities(backend: Backend) -> None:
    capabilities = backend.capabilities(backend.default_device())
    assert capabilities.name
    assert capabilities.max_threadgroup_memory >= 32768
    assert min(capabilities.max_threads_per_threadgroup) >= 64
    assert 0 < capabilities.max_buffer_length
    assert all(getattr(capabilities, f.name) is not None for f in fields(Capabilities) if f.name != "architecture")


@pytest.mark.metal
def test_metal_gives_back_what_it_hands_out() -> None:
    backend = open_metal("metal")
    device = backend.default_device()
    with backend.autorelease_pool():
        before = device.currentAllocatedSize()
        buffer = device.newBufferWithLength_options_(1 << 24, 0)
        assert device.currentAllocatedSize() > before
        del buffer
    assert device.currentAllocatedSize() <= before


@pytest.mark.soft
def test_soft_answers_as_apple_silicon_does() -> None:
    backend = open_metal("soft")
    able = backend.capabilities(backend.default_device())
    assert able.stage_boundary_sampling and not able.dispatch_boundary_sampling
    assert able.timestamp_counters and able.unified_memory and not able.paravirtual
    assert able.residency_sets and able.gpu_address and able.shared_event_wait and able.math_mode


def test_an_old_device_is_described_as_one(soft: Any) -> None:
    profile = soft.DeviceProfile(
        name="Apple Paravirtual device",
        families=frozenset({1007}),
        counter_sets=False,
        residency_sets=False,
        missing=frozenset({"supportsCounterSampling_", "architecture"}),
    )
    able = probe(soft, soft.open_device(profile=profile))
    assert able.architecture is None and able.apple_family == 7 and able.paravirtual
    assert not (able.stage_boundary_sampling or able.dispatch_boundary_sampling or able.timestamp_counters)
    assert not (able.residency_sets or able.indirect_command_buffers or able.indirect_pipelines_stay_resident)


def test_sampling_at_dispatches_is_seen(soft: Any) -> None:
    points = frozenset({soft.MTLCounterSamplingPointAtDispatchBoundary})
    capabilities = probe(soft, soft.open_device(profile=soft.DeviceProfile(counter_sampling=points)))
    assert capabilities.dispatch_boundary_sampling and not capabilities.stage_boundary_sampling


@pytest.mark.soft
def test_backends_with_other_options_have_other_devices() -> None:
    plain = open_metal("soft")
    with settings.override(soft_schedule="reversed"):
        turned = open_metal("soft")
    assert plain.default_device() is open_metal("soft").default_device()
    assert plain.default_device() is not turned.default_device()
    assert list(turned.Metal.MTLCopyAllDevices()) == [turned.default_device()]


@pytest.mark.soft
def test_soft_by_argument_and_by_setting() -> None:
    assert open_metal("soft").kind == "soft"
    with settings.override(device="soft"):
        assert open_metal().kind == "soft"
    assert "asked for" in open_metal("soft").declined


@pytest.mark.soft
def test_an_argument_wins_over_the_setting() -> None:
    with settings.override(device="metal"):
        assert open_metal("soft").kind == "soft"


def test_unknown_device_is_refused() -> None:
    with pytest.raises(SettingsError, match="'gpu'; allowed: auto, metal, soft"):
        open_metal("gpu")  # type: ignore[arg-type]


@pytest.mark.soft
def test_metal_demanded_and_absent() -> None:
    with pytest.raises(DeviceNotFound, match="Tried PyObjC's Metal: .*No module named.*MLX_NATIVE_DEVICE=soft"):
        open_metal("metal")
    assert open_metal("auto").kind == "soft"
    assert "No module named" in open_metal("auto").declined


def test_importing_the_package_is_light() -> None:
    code = "import sys, mlx_native_py; print(*{'Metal', 'objc', 'rich', 'mlx'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

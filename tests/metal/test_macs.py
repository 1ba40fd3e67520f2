"""What a Mac may answer, played by the stand-in for PyObjC: each answer has its road, or a sentence."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from standin import PROFILES, REFUSED, Aborted, Bridge, Profile, install

from mlx_native_py import BackendError, DeviceNotFound, MlxDevice, open_metal, settings
from mlx_native_py.errors import InvalidArgument
from mlx_native_py.graph.executor import GraphExecutor
from mlx_native_py.pipelines.compile_options import CompileOptions
from mlx_native_py.pipelines.registry import KernelRegistry
from mlx_native_py.profiling.metal_capture import reset_capture_consumed
from mlx_native_py.softmetal.objects.device import MTLDevice

pytestmark = pytest.mark.soft

BFLOAT = """#include <metal_stdlib>
kernel void twice(device bfloat *x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] = x[i] + x[i]; }
"""


@pytest.fixture(params=sorted(PROFILES))
def mac(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bridge:
    return install(monkeypatch, PROFILES[request.param])


@pytest.fixture
def m1(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    return install(monkeypatch, PROFILES["m1"])


# The language version


@pytest.mark.filterwarnings("ignore:a new MTLBuffer has retain count")
def test_every_mac_compiles_bfloat(mac: Bridge) -> None:
    with MlxDevice("metal") as device:
        device.kernels.register_source("twice", BFLOAT)
        x = device.buffer([1.0, 2.0], "bf16")
        with device.command_encoder() as enc:
            enc.dispatch(device.kernels.get_pipeline("twice"), x, threads=2)
        assert [float(each) for each in x.numpy()] == [2.0, 4.0]
        assert device.kernels.shipped("norm").names
    assert mac.loose == 0


@pytest.mark.parametrize(
    ("name", "newest", "used"),
    [("macos-14", (3, 1), (3, 1)), ("m1", (3, 2), (3, 2)), ("macos-26", (4, 0), (3, 2))],
)
def test_the_language_is_the_newest_up_to_what_is_used(
    monkeypatch: pytest.MonkeyPatch, name: str, newest: tuple[int, int], used: tuple[int, int]
) -> None:
    install(monkeypatch, PROFILES[name])
    with MlxDevice("metal") as device:
        assert device.capabilities.language_version == newest
        assert device.kernels.library(BFLOAT).options.language == used
        assert device.kernels.library(BFLOAT) is device.kernels.library(BFLOAT, CompileOptions(language=used))
        older = device.kernels.library(BFLOAT, CompileOptions(language=(3, 1)))
        assert (older.digest == device.kernels.library(BFLOAT).digest) is (used == (3, 1))


def test_a_newer_language_than_the_systems_is_refused(m1: Bridge) -> None:
    with MlxDevice("metal") as device, pytest.raises(InvalidArgument, match="language is 4.0, .* up to 3.2"):
        device.kernels.library(BFLOAT, CompileOptions(language=(4, 0)))


def test_the_stand_in_has_an_old_host(m1: Bridge) -> None:
    device = open_metal("metal").default_device()
    library, error = device.newLibraryWithSource_options_error_(BFLOAT, None, None)
    assert library is None and "2:26: error: unknown type name 'bfloat'" in str(error.localizedDescription())


# Math


def asked(monkeypatch: pytest.MonkeyPatch, name: str, math: Any) -> list[str]:
    bridge = install(monkeypatch, PROFILES[name])
    with MlxDevice("metal") as device:
        sent = len(bridge.sent)
        options = CompileOptions(math=math).mtl(device.backend, device.capabilities)
        messages = [message for message in bridge.sent[sent:] if "Math" in message]
        return [*messages, str(options._soft.fastMathEnabled())]


@pytest.mark.parametrize(
    ("name", "math", "messages"),
    [
        ("m1", "safe", ["setMathMode:", "setMathFloatingPointFunctions:", "False"]),
        ("m1", "relaxed", ["setMathMode:", "False"]),
        ("m1", "fast", ["setMathMode:", "True"]),
        ("m1", None, ["True"]),
        ("macos-14", "safe", ["setFastMathEnabled:", "False"]),
        ("macos-14", "relaxed", ["setFastMathEnabled:", "False"]),
        ("macos-14", "fast", ["setFastMathEnabled:", "True"]),
    ],
)
def test_math(monkeypatch: pytest.MonkeyPatch, name: str, math: Any, messages: list[str]) -> None:
    assert asked(monkeypatch, name, math) == messages


# What is refused


@pytest.mark.parametrize(("name", "complaint"), [("intel", "Apple silicon is needed"), ("macos-13", "macOS 14")])
def test_a_mac_that_is_not_supported(monkeypatch: pytest.MonkeyPatch, name: str, complaint: str) -> None:
    install(monkeypatch, REFUSED[name])
    with pytest.raises(DeviceNotFound, match=complaint):
        open_metal("metal")
    backend = open_metal("auto")
    assert backend.kind == "soft" and complaint in backend.declined


def test_a_python_for_intel_is_refused(m1: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(DeviceNotFound, match="this Python is one for Intel.*take one for arm64"):
        open_metal("metal")


def test_other_simdgroups_are_refused_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Profile(device=PROFILES["m1"].device, answers={"threadExecutionWidth": 64}))
    with MlxDevice("metal") as device:
        with pytest.raises(BackendError, match="'self_check' needs simdgroups of 32 threads.* of 64"):
            device.kernels.get_pipeline("self_check")
        device.kernels.register_source("twice", BFLOAT)
        assert device.kernels.get_pipeline("twice").width == 64


# The retain self-check


def test_a_debug_layer_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge = install(monkeypatch, PROFILES["debug-layer"])
    with pytest.warns(UserWarning, match="retain count 2 instead of 1, but its memory comes back"):
        open_metal("metal")
    assert not bridge.leaked


def test_memory_that_is_not_counted_is_no_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["debug-layer"])
    monkeypatch.setattr(MTLDevice, "currentAllocatedSize", lambda _: 0)
    with pytest.warns(UserWarning, match="retain count 2 instead of 1, and the device does not count its memory"):
        open_metal("metal")


def test_a_leak_is_an_error(m1: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["objc"], "registerMetaDataForSelector", lambda *_: None)
    with pytest.raises(BackendError, match="its memory stays when it is dropped"):
        open_metal("metal")
    assert m1.leaked


# Nil answers


def test_no_residency_set(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["no-residency"])
    with MlxDevice("metal") as device:
        assert not device.residency_sets_enabled
        assert device.residency.reason == "the device refused a residency set: this Mac has none"


def test_no_reflection_from_the_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, PROFILES["no-reflection"])
    with MlxDevice("metal") as device:
        for _ in range(2):
            registry = KernelRegistry(device, archive=tmp_path / "kernels.archive")
            registry.register_source("twice", BFLOAT)
            registry.warmup(["twice"])
            assert registry.get_pipeline("twice").bindings[0].name == "x"
            assert (registry.stats.archive_hits, registry.stats.archive_misses) == (0, 1)


def test_no_reflection_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["m1"])
    with MlxDevice("metal") as device:
        device.kernels.register_source("twice", BFLOAT)
        make = MTLDevice.newComputePipelineStateWithDescriptor_options_reflection_error_
        monkeypatch.setattr(
            MTLDevice,
            "newComputePipelineStateWithDescriptor_options_reflection_error_",
            lambda *given: (make(*given)[0], None, None),
        )
        with pytest.raises(BackendError, match="'twice': .* returned no reflection"):
            device.kernels.get_pipeline("twice")


def test_a_paravirtual_device_is_not_trusted_with_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, PROFILES["paravirtual"])
    with MlxDevice("metal") as device:
        able = device.capabilities
        assert able.paravirtual and not able.gpu_address and not able.indirect_command_buffers


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_gpu_is_no_vector_of_a_cpu(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    install(monkeypatch, PROFILES[name])
    with MlxDevice("metal") as device:
        assert not device.capabilities.vector_lanes


def test_an_architecture_may_be_nil(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Profile(nil=frozenset({"architecture"}), device=PROFILES["m1"].device))
    backend = open_metal("metal")
    able = backend.capabilities(backend.default_device())
    assert able.architecture is None and not able.vector_lanes


# Traces and labels


def test_a_trace_begins_before_the_first_command_buffer(m1: Bridge, tmp_path: Path) -> None:
    reset_capture_consumed()
    with MlxDevice("metal") as device, settings.override(metal_capture=tmp_path / "one.gputrace"):
        with GraphExecutor(device).begin() as session:
            session.encoder.dispatch(
                device.kernels.get_pipeline("twice", library=device.kernels.library(BFLOAT)),
                device.buffer([1.0], "bf16"),
                threads=1,
            )
    reset_capture_consumed()
    first = next(index for index, message in enumerate(m1.sent) if message.startswith("commandBuffer"))
    assert m1.sent.index("startCaptureWithDescriptor:error:") < first


def test_labels_do_not_leak(m1: Bridge) -> None:
    with MlxDevice("metal") as device:
        x = device.empty(4, label="first")
        x.label = "second"
        enc = device.command_encoder()
        enc.dispatch(device.kernels.get_pipeline("twice", library=device.kernels.library(BFLOAT)), x, threads=4)
        enc.commit_and_wait("third")
    assert m1.loose == 0


# The debug layer


@pytest.mark.filterwarnings("ignore:a new MTLBuffer has retain count")
@pytest.mark.parametrize("length", [0, 1 << 60])
def test_aborts_are_seen(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    install(monkeypatch, PROFILES["debug-layer"])
    device = open_metal("metal").default_device()
    with pytest.raises(Aborted, match="failed assertion"):
        device.newBufferWithLength_options_(length, 0)

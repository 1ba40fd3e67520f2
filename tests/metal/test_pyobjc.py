"""`metal/pyobjc.py` itself, run against stand-ins for `objc` and `Metal` that enforce PyObjC's table."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standin import Bridge, install

from metal.test_backend import assert_self_check
from mlx_native_py import BackendError, DeviceNotFound, open_metal
from mlx_native_py.metal.contract import corrections


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    return install(monkeypatch)


def test_auto_takes_metal_where_it_works(bridge: Bridge) -> None:
    backend = open_metal("auto")
    assert backend.kind == "metal"
    assert backend.declined == ""
    assert backend.Metal is sys.modules["Metal"]


def test_corrections_are_registered_before_the_first_message(bridge: Bridge) -> None:
    open_metal("metal")
    wanted = {name: metadata for _, name, metadata in corrections()}
    assert bridge.registered == wanted
    assert bridge.sent[0] == "newBufferWithLength:options:"


def test_the_self_check_runs_once(bridge: Bridge) -> None:
    open_metal("metal")
    sent = len(bridge.sent)
    open_metal("metal")
    assert len(bridge.sent) == sent


def test_a_kernel_runs_through_the_bridge(bridge: Bridge) -> None:
    assert_self_check(open_metal("metal"))
    assert "dispatchThreadgroups:threadsPerThreadgroup:" in bridge.sent


def test_nothing_is_autoreleased_outside_a_pool(bridge: Bridge) -> None:
    backend = open_metal("metal")
    assert_self_check(backend)
    backend.capabilities(backend.default_device())
    assert bridge.loose == 0
    backend.default_device().newCommandQueue().commandBuffer()
    assert bridge.loose == 1


def test_capabilities_are_the_same_on_both_sides(bridge: Bridge) -> None:
    there, here = open_metal("metal"), open_metal("soft")
    assert there.capabilities(there.default_device()) == here.capabilities(here.default_device())


def test_used_before_the_backend_was_opened(bridge: Bridge) -> None:
    foreign = sys.modules["Metal"].MTLCreateSystemDefaultDevice().newBufferWithLength_options_(16, 0)
    assert foreign.retainCount() == 2
    with pytest.raises(BackendError, match="retain count 2 instead of 1.*open the device first"):
        open_metal("auto")


def test_a_bridge_that_ignores_metadata_is_refused(bridge: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["objc"], "registerMetaDataForSelector", lambda *_: None)
    with pytest.raises(BackendError, match="would leak"):
        open_metal("metal")


@pytest.mark.soft
def test_pyobjc_without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, has_device=False)
    with pytest.raises(DeviceNotFound, match="Tried PyObjC's Metal: .*offers no Metal device"):
        open_metal("metal")
    backend = open_metal("auto")
    assert backend.kind == "soft"
    assert "offers no Metal device" in backend.declined


def test_urls(bridge: Bridge, tmp_path: Path) -> None:
    assert open_metal("metal").url(tmp_path).path() == str(tmp_path)
    assert open_metal("soft").url(tmp_path).path() == str(tmp_path)


def library(device: Any, source: str) -> Any:
    opened, error = device.newLibraryWithSource_options_error_(source, None, None)
    assert opened is not None, error.localizedDescription()
    return opened


def test_reflection_comes_back(bridge: Bridge) -> None:
    backend = open_metal("metal")
    device = backend.default_device()
    source = (
        "kernel void f(device const float *x, device float *y, uint i [[thread_position_in_grid]]) { y[i] = x[i]; }"
    )
    with backend.autorelease_pool():
        function = library(device, source).newFunctionWithName_("f")
        answer = device.newComputePipelineStateWithFunction_options_reflection_error_(function, 1, None, None)
        pipeline, reflection, error = answer
        assert pipeline is not None and error is None
        names = [(b.name(), b.index(), b.access()) for b in reflection.bindings()]
    assert names == [("x", 0, 0), ("y", 1, 1)] or names == [("x", 0, 0), ("y", 1, 2)]


def test_argument_encoders_give_memory_and_are_given_back(bridge: Bridge) -> None:
    backend = open_metal("metal")
    device, metal = backend.default_device(), backend.Metal
    source = """
    struct Inputs { device const float *x [[id(0)]]; float scale [[id(1)]]; };
    kernel void f(constant Inputs &in [[buffer(0)]], device float *y [[buffer(1)]]) { y[0] = in.x[0] * in.scale; }
    """
    with backend.autorelease_pool():
        encoder = library(device, source).newFunctionWithName_("f").newArgumentEncoderWithBufferIndex_(0)
        buffer = device.newBufferWithLength_options_(encoder.encodedLength(), 0)
        encoder.setArgumentBuffer_offset_(buffer, 0)
        encoder.setBuffer_offset_atIndex_(buffer, 8, 0)
        encoder.constantDataAtIndex_(1).as_buffer(4)[:] = struct.pack("<f", 3)
        described = metal.MTLArgumentDescriptor.argumentDescriptor()
        described.setDataType_(metal.MTLDataTypePointer)
        assert device.newArgumentEncoderWithArguments_([described]).encodedLength() == 8
        written = struct.unpack("<Qf", bytes(buffer.contents().as_buffer(12)))
    assert written == (buffer.gpuAddress() + 8, 3)
    assert encoder.retainCount() == 1 and bridge.leaked == []


def test_function_constants_take_memory(bridge: Bridge) -> None:
    backend = open_metal("metal")
    device, metal = backend.default_device(), backend.Metal
    source = """
    constant uint n [[function_constant(0)]];
    kernel void f(device uint *x, uint i [[thread_position_in_grid]]) { x[i] = n; }
    """
    with backend.autorelease_pool():
        values = metal.MTLFunctionConstantValues.alloc().init()
        values.setConstantValue_type_atIndex_(np.uint32(7), metal.MTLDataTypeUInt, 0)
        function, error = library(device, source).newFunctionWithName_constantValues_error_("f", values, None)
        assert function is not None, error.localizedDescription()


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda d: d.newBufferWithLength_options_(16), "need 2 arguments, got 1"),
        (lambda d: d.newBufferWithLength_options_(16.0, 0), "whole number"),
        (lambda d: d.newBufferWithLength_options_(-1, 0), "whole number"),
        (lambda d: d.newBufferWithBytes_length_options_("text", 4, 0), "bytes-like object"),
        (lambda d: d.newBufferWithBytes_length_options_(b"abc", 4, 0), "as long as the length says"),
        (lambda d: d.newLibraryWithSource_options_error_("", None, "error"), "None, for an out-parameter"),
        (lambda d: d.newLibraryWithSource_options_error_(7, None, None), "needs an object"),
        (lambda d: d.heapBufferSizeAndAlignWithLength_options_([1], 0), "whole number"),
        (lambda d: d.respondsToSelector_("name"), "selector is bytes"),
    ],
)
def test_the_stand_in_enforces_the_table(bridge: Bridge, call: Any, complaint: str) -> None:
    device = open_metal("metal").default_device()
    with pytest.raises(TypeError, match=complaint):
        call(device)


def test_the_stand_in_knows_only_the_table(bridge: Bridge) -> None:
    device = open_metal("metal").default_device()
    with pytest.raises(AttributeError, match="not in the selector table"):
        device.newRasterizationRateMapWithDescriptor_(None)


def test_without_the_fixes_the_stand_in_refuses_as_pyobjc_does(bridge: Bridge) -> None:
    metal = sys.modules["Metal"]
    values = metal.MTLFunctionConstantValues.alloc().init()
    with pytest.raises(TypeError, match="an address"):
        values.setConstantValue_type_atIndex_(b"\0\0\0\0", metal.MTLDataTypeUInt, 0)

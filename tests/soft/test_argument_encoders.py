"""Argument encoders: members by id, from a kernel's struct or from descriptors, and what kernels find there."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.misuse import InvalidValue, MetalMisuse

from . import texture_kit as kit
from . import texture_model as model

SOURCE = """
#include <metal_stdlib>
using namespace metal;
struct Scene {
  device float *out [[id(7)]];
  texture2d<float> image;
  float gain [[id(2)]];
  array<texture2d<float, access::read>, 2> more [[id(20)]];
  sampler look [[id(30)]];
  float3 shift [[id(4)]];
  float2x2 turn;
  constant float *weights [[id(40)]];
};
struct Inner { int a; };
struct Odd { Inner inner; };
struct Odder { struct { int a; } inner; };
kernel void shade(constant Scene &scene [[buffer(3)]], uint2 g [[thread_position_in_grid]]) {
  float v = scene.image.sample(scene.look, (float2(g) + 0.5f) / 4.0f).x * scene.gain + scene.shift.z;
  v += scene.more[0].read(g).x * 100.0f + scene.more[1].read(g).x * 1000.0f + (scene.turn * float2(1, 2)).y;
  scene.out[g.y * 4 + g.x] = v * scene.weights[1];
}
kernel void odder(constant Odder &o [[buffer(0)]], device int *out [[buffer(1)]]) { out[0] = o.inner.a; }
struct Vast { array<texture2d<float>, 1000000000000> all; };
kernel void vast(constant Vast &v [[buffer(0)]], device int *out [[buffer(1)]]) { out[0] = 1; }
kernel void odd(constant Odd &o [[buffer(0)]], device int *out [[buffer(1)]]) { out[0] = o.inner.a; }
"""


@cache
def functions(mtl: Any) -> dict[str, Any]:
    library, error = mtl.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert library is not None, error
    return {name: library.newFunctionWithName_(name) for name in ("shade", "odd", "odder", "vast")}


def buffer_of(mtl: Any, data: Any) -> Any:
    return mtl.newBufferWithBytes_length_options_(data, len(bytes(data)), 0)


@pytest.mark.parametrize("engine", ["flat", "fibers"])
def test_a_kernels_struct(engine: str) -> None:
    mtl = kit.device(engine)
    function = functions(mtl)["shade"]
    encoder = function.newArgumentEncoderWithBufferIndex_(3)
    assert encoder.alignment() == 16 and encoder.encodedLength() % 16 == 0
    pictures = [np.random.default_rng(n).uniform(0, 1, (1, 4, 4, 1)).astype(np.float32) for n in range(3)]
    textures = [kit.texture(mtl, "R32Float", [each]) for each in pictures]
    out, weights = mtl.newBufferWithLength_options_(64, 0), buffer_of(mtl, np.array([9, 9, 2], np.float32))
    memory = mtl.newBufferWithLength_options_(16 + 2 * encoder.encodedLength(), 0)
    encoder.setArgumentBuffer_startOffset_arrayElement_(memory, 16, 1)
    encoder.setBuffer_offset_atIndex_(out, 0, 7)
    encoder.setTexture_atIndex_(textures[0], 8)
    encoder.setTextures_withRange_(textures[1:], (20, 2))
    encoder.setSamplerStates_withRange_([kit.sampler(mtl, model.Sampler())], (30, 1))
    encoder.setBuffers_offsets_withRange_([weights], [4], (40, 1))
    encoder.constantDataAtIndex_(2).as_buffer(4)[:] = struct.pack("<f", 3)
    encoder.constantDataAtIndex_(4).as_buffer(12)[:] = struct.pack("<3f", 0, 0, 5)
    encoder.constantDataAtIndex_(5).as_buffer(16)[:] = struct.pack("<4f", 1, 2, 3, 4)
    state, error = mtl.newComputePipelineStateWithFunction_error_(function, None)
    assert state is not None, error
    work = mtl.newCommandQueue().commandBuffer()
    run = work.computeCommandEncoder()
    run.setComputePipelineState_(state)
    run.setBuffer_offset_atIndex_(memory, 16 + encoder.encodedLength(), 3)
    for each in (out, weights, *textures):
        run.useResource_usage_(each, 3)
    run.dispatchThreads_threadsPerThreadgroup_((4, 4, 1), (4, 4, 1))
    run.endEncoding()
    work.commit()
    work.waitUntilCompleted()
    assert work.error() is None, work.error()
    given = np.frombuffer(out.contents().as_buffer(64), np.float32).reshape(4, 4)
    first, second, third = (each[0, ..., 0] for each in pictures)
    np.testing.assert_allclose(given, (first * 3 + 5 + second * 100 + third * 1000 + 10) * 2, rtol=1e-5)


def test_descriptors_lay_out_what_they_describe() -> None:
    mtl = kit.device()
    kinds = ((3, Metal.MTLDataTypePointer, 2), (0, Metal.MTLDataTypeFloat, 0), (1, Metal.MTLDataTypeFloat4, 0))
    asked = []
    for index, kind, count in kinds:
        each = Metal.MTLArgumentDescriptor.argumentDescriptor()
        each.setIndex_(index)
        each.setDataType_(kind)
        each.setArrayLength_(count)
        asked.append(each)
    encoder = mtl.newArgumentEncoderWithArguments_(asked)
    assert (encoder.encodedLength(), encoder.alignment()) == (48, 16)
    memory, other = mtl.newBufferWithLength_options_(48, 0), mtl.newBufferWithLength_options_(64, 0)
    encoder.setArgumentBuffer_offset_(memory, 0)
    encoder.constantDataAtIndex_(1).as_buffer(16)[:] = struct.pack("<4f", 1, 2, 3, 4)
    encoder.setBuffer_offset_atIndex_(other, 8, 4)
    values = struct.unpack("<4f4f2Q", bytes(memory.contents().as_buffer(48)))
    assert values == (0, 0, 0, 0, 1, 2, 3, 4, 0, other.gpuAddress() + 8)
    encoder.setBuffer_offset_atIndex_(None, 0, 4)
    assert bytes(memory.contents().as_buffer(48))[40:] == bytes(8)


def test_what_is_refused() -> None:
    mtl = kit.device()
    shade = functions(mtl)["shade"]
    encoder = shade.newArgumentEncoderWithBufferIndex_(3)
    with pytest.raises(MetalMisuse, match="call setArgumentBuffer_offset_ first"):
        encoder.setBuffer_offset_atIndex_(None, 0, 7)
    small = mtl.newBufferWithLength_options_(encoder.encodedLength() - 1, 0)
    with pytest.raises(InvalidValue, match="it must lie inside, at a multiple of 16"):
        encoder.setArgumentBuffer_offset_(small, 0)
    with pytest.raises(MetalMisuse, match="private storage"):
        encoder.setArgumentBuffer_offset_(
            mtl.newBufferWithLength_options_(4096, Metal.MTLResourceStorageModePrivate), 0
        )
    encoder.setArgumentBuffer_offset_(mtl.newBufferWithLength_options_(4096, 0), 32)
    with pytest.raises(InvalidValue, match="index 7 of this argument buffer is a buffer, not a texture"):
        encoder.setTexture_atIndex_(None, 7)
    with pytest.raises(InvalidValue, match="the members of this argument buffer are"):
        encoder.setSamplerState_atIndex_(None, 6)
    with pytest.raises(InvalidValue, match="it has no buffer of index 0"):
        shade.newArgumentEncoderWithBufferIndex_(0)
    with pytest.raises(InvalidValue, match="buffer 'o': member 'inner' is of type Inner"):
        functions(mtl)["odd"].newArgumentEncoderWithBufferIndex_(0)
    with pytest.raises(InvalidValue, match="member 'inner' is a struct"):
        functions(mtl)["odder"].newArgumentEncoderWithBufferIndex_(0)
    with pytest.raises(InvalidValue, match="more than 1,000,000 members"):
        functions(mtl)["vast"].newArgumentEncoderWithBufferIndex_(0)
    with pytest.raises(InvalidValue, match="at least one"):
        mtl.newArgumentEncoderWithArguments_([])

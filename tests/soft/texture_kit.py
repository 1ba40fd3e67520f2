"""Textures, samplers and kernels over them on the software device, numpy arrays in and out."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlx_native_py import settings
from mlx_native_py import softmetal as Metal

Array = NDArray[Any]

SOURCE = """
#include <metal_stdlib>
using namespace metal;

template <typename T> kernel void read2d(texture2d<T, access::read> t [[texture(0)]], device const uint4 *at,
    device vec<T, 4> *out, uint i [[thread_position_in_grid]]) { out[i] = t.read(at[i].xy, at[i].w); }
template <typename T> kernel void write2d(texture2d<T, access::write> t [[texture(0)]], device const vec<T, 4> *values,
    uint2 g [[thread_position_in_grid]]) { t.write(values[g.y * t.get_width() + g.x], g); }
template <typename T> kernel void sample2d(texture2d<T> t [[texture(0)]], sampler s [[sampler(0)]],
    device const float4 *at, device vec<T, 4> *out, constant int2 &offset, uint i [[thread_position_in_grid]]) {
  out[i] = t.sample(s, at[i].xy, level(at[i].w), offset);
}
#define EACH(name, T) template [[host_name(#name "_" #T)]] kernel decltype(name<T>) name<T>;
EACH(read2d, float) EACH(read2d, int) EACH(read2d, uint) EACH(read2d, half) EACH(read2d, short) EACH(read2d, ushort)
EACH(write2d, float) EACH(write2d, int) EACH(write2d, uint) EACH(write2d, half) EACH(write2d, short)
EACH(sample2d, float) EACH(sample2d, half) EACH(sample2d, int) EACH(sample2d, uint)

kernel void read_others(texture1d<float, access::read> line [[texture(0)]],
    texture1d_array<float, access::read> lines [[texture(1)]],
    texture2d_array<float, access::read> planes [[texture(2)]], texture3d<float, access::read> block [[texture(3)]],
    texturecube<float, access::read> cube [[texture(4)]], texturecube_array<float, access::read> cubes [[texture(5)]],
    texture_buffer<float, access::read> texels [[texture(6)]], device const uint4 *at, device float4 *out,
    constant uint &n, uint i [[thread_position_in_grid]]) {
  uint4 c = at[i];
  out[i] = line.read(c.x);
  out[n + i] = lines.read(c.x, c.z);
  out[2 * n + i] = planes.read(ushort2(c.xy), c.z);
  out[3 * n + i] = block.read(c.xyz);
  out[4 * n + i] = cube.read(c.xy, c.z);
  out[5 * n + i] = cubes.read(c.xy, c.z, c.w);
  out[6 * n + i] = texels.read(c.x);
}
kernel void sample_others(texture1d<float> line [[texture(0)]], texture2d_array<float> planes [[texture(1)]],
    texture3d<float> block [[texture(2)]], texture1d_array<float> lines [[texture(3)]], sampler s [[sampler(0)]],
    device const float4 *at, device float4 *out, constant uint &n, uint i [[thread_position_in_grid]]) {
  float4 c = at[i];
  out[i] = line.sample(s, c.x);
  out[n + i] = planes.sample(s, c.xy, uint(c.w), 0);
  out[2 * n + i] = block.sample(s, c.xyz);
  out[3 * n + i] = lines.sample(s, c.x, uint(c.w));
}
kernel void sample_cube(texturecube<float> cube [[texture(0)]], sampler s [[sampler(0)]], device const float4 *at,
    device float4 *out, uint i [[thread_position_in_grid]]) { out[i] = cube.sample(s, at[i].xyz); }
kernel void depths(depthcube<float> cube [[texture(0)]], depth2d_array<float> planes [[texture(1)]],
    sampler s [[sampler(0)]], device const float4 *at, device float4 *out, uint i [[thread_position_in_grid]]) {
  float3 way = at[i].xyz;
  float bound = at[i].w;
  float4 gathered = cube.gather(s, way), passed = cube.gather_compare(s, way, bound);
  out[2 * i] = float4(cube.sample(s, way), cube.sample_compare(s, way, bound), gathered.z, passed.w);
  gathered = planes.gather(s, float2(0.5f), i % 6), passed = planes.gather_compare(s, float2(0.5f), i % 6, bound);
  out[2 * i + 1] = float4(cube.read(uint2(1), i % 6), planes.read(uint2(1), i % 6), gathered.z, passed.w);
}
kernel void gather2d(texture2d<float> t [[texture(0)]], sampler s [[sampler(0)]], device const float4 *at,
    device float4 *out, constant uint &n, uint i [[thread_position_in_grid]]) {
  out[i] = t.gather(s, at[i].xy);
  out[n + i] = t.gather(s, at[i].xy, int2(0), component::w);
}
kernel void compare2d(depth2d<float> t [[texture(0)]], sampler s [[sampler(0)]], device const float4 *at,
    device float4 *out, uint i [[thread_position_in_grid]]) {
  out[i] = float4(t.sample_compare(s, at[i].xy, at[i].z), t.sample(s, at[i].xy), 0, 0);
}
kernel void sizes(texture2d_array<float> planes [[texture(0)]], texture3d<float, access::write> block [[texture(1)]],
    array<texture2d<int>, 2> two [[texture(2)]], device uint *out) {
  out[0] = planes.get_width(); out[1] = planes.get_height(1); out[2] = planes.get_array_size();
  out[3] = planes.get_num_mip_levels(); out[4] = block.get_depth(); out[5] = two[1].get_width();
}
struct Maps { texture2d<float> image [[id(0)]]; sampler look [[id(1)]];
  texture2d<float, access::write> made [[id(2)]]; };
kernel void through_memory(constant Maps &maps [[buffer(0)]], uint2 g [[thread_position_in_grid]]) {
  maps.made.write(maps.image.sample(maps.look, (float2(g) + 0.5f) / 8.0f) * 2.0f, g);
}
kernel void shifted(texture2d<float, access::read_write> t [[texture(0)]], uint2 g [[thread_position_in_grid]]) {
  t.write(t.read(g) + 1.0f, g);
  t.fence();
  t.write(t.read(g) * 2.0f, g);
}
kernel void counted(texture2d<uint, access::read_write, memory_coherence_device> t [[texture(0)]],
    device const uint *v, uint i [[thread_position_in_grid]]) {
  t.atomic_fetch_add(uint2(v[i], 0), 1u);
  t.atomic_fetch_max(uint2(v[i], 1), uint4(i));
  t.atomic_fetch_xor(uint2(v[i], 2), i);
  uint4 seen = uint4(5);
  if (i == 0 && !t.atomic_compare_exchange_weak(uint2(0, 3), &seen, uint4(7))) t.atomic_store(seen + 1, uint2(0, 3));
  if (i == 1) t.atomic_store(t.atomic_exchange(uint2(1, 3), 9u) + 2, uint2(2, 3));
}
kernel void beyond(texture2d<float, access::read> t [[texture(0)]], texture2d<float, access::write> to [[texture(1)]],
    constant uint2 &far [[buffer(0)]], uint2 g [[thread_position_in_grid]]) {
  to.write(t.read(g + far) + 1.0f, g + far); }
"""


@cache
def device(engine: Any = "auto", checked: bool | None = None, schedule: str = "ordered") -> Any:
    """Checked where that is asked for, here or by the settings."""
    if checked is None:
        checked = settings.current().soft_checked
    return Metal.open_device(Metal.SoftOptions(engine=engine, checked=checked, schedule=schedule))


@cache
def pipeline(name: str, mtl: Any) -> Any:
    state, error = mtl.newComputePipelineStateWithFunction_error_(_library(mtl).newFunctionWithName_(name), None)
    assert state is not None, error
    return state


@cache
def _library(mtl: Any) -> Any:
    library, error = mtl.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert library is not None, error
    return library


def format_number(name: str) -> int:
    return int(getattr(Metal, f"MTLPixelFormat{name}"))


def texture(mtl: Any, form: str, levels: list[Array], kind: int = 2, usage: int = 3) -> Any:
    """A texture of (planes, height, width, channels) arrays, one for each level; planes are slices or depth."""
    planes, height, width, _ = levels[0].shape
    asked = Metal.MTLTextureDescriptor.alloc().init()
    asked.setTextureType_(kind)
    asked.setPixelFormat_(format_number(form))
    asked.setWidth_(width)
    asked.setHeight_(height)
    is_block = kind == Metal.MTLTextureType3D
    asked.setDepth_(planes if is_block else 1)
    if kind in (1, 3, 6):
        asked.setArrayLength_(planes // (6 if kind == 6 else 1))
    asked.setMipmapLevelCount_(len(levels))
    asked.setUsage_(usage)
    image = mtl.newTextureWithDescriptor_(asked)
    for number, level in enumerate(levels):
        parts = [(0, level)] if is_block else [(plane, level[plane : plane + 1]) for plane in range(level.shape[0])]
        for slice_, part in parts:
            depth, rows, columns, _ = part.shape
            row = part.dtype.itemsize * part.shape[3] * columns
            image.replaceRegion_mipmapLevel_slice_withBytes_bytesPerRow_bytesPerImage_(
                ((0, 0, 0), (columns, rows, depth)), number, slice_, np.ascontiguousarray(part), row, row * rows
            )
    return image


def texels(made: Any, like: Array) -> Array:
    """The first level and slice, as an array like one that was put in."""
    out: Array = np.zeros_like(like[0])
    height, width, _ = out.shape
    row = out.nbytes // height
    made.getBytes_bytesPerRow_fromRegion_mipmapLevel_(out, row, ((0, 0, 0), (width, height, 1)), 0)
    return out


def sampler(mtl: Any, rules: Any, compare: int = 0) -> Any:
    """An MTLSamplerState of the model's rules."""
    asked = Metal.MTLSamplerDescriptor.alloc().init()
    for set_mode, mode in zip(
        (asked.setSAddressMode_, asked.setTAddressMode_, asked.setRAddressMode_), rules.modes, strict=True
    ):
        set_mode(mode)
    asked.setMinFilter_(int(rules.linear))
    asked.setMagFilter_(int(rules.linear))
    asked.setMipFilter_(rules.mip)
    asked.setBorderColor_(rules.border)
    asked.setNormalizedCoordinates_(not rules.pixel)
    asked.setCompareFunction_(compare)
    return mtl.newSamplerStateWithDescriptor_(asked)


def run(
    mtl: Any, name: str, threads: tuple[int, ...], textures: list[Any], buffers: list[Any], look: Any = None
) -> list[Array]:
    """Runs a kernel over arrays; answers them as they are afterwards."""
    allocated = [mtl.newBufferWithBytes_length_options_(np.ascontiguousarray(b), b.nbytes, 0) for b in buffers]
    work = mtl.newCommandQueue().commandBuffer()
    encoder = work.computeCommandEncoder()
    try:
        encoder.setComputePipelineState_(pipeline(name, mtl))
        for index, each in enumerate(textures):
            encoder.setTexture_atIndex_(each, index)
        if look is not None:
            encoder.setSamplerState_atIndex_(look, 0)
        for index, each in enumerate(allocated):
            encoder.setBuffer_offset_atIndex_(each, 0, index)
        grid = (*threads, 1, 1)[:3]
        encoder.dispatchThreads_threadsPerThreadgroup_(grid, (min(grid[0], 32), 1, 1))
    finally:
        encoder.endEncoding()
    work.commit()
    work.waitUntilCompleted()
    assert work.error() is None, work.error()
    views = [
        np.frombuffer(each.contents().as_buffer(b.nbytes), b.dtype) for each, b in zip(allocated, buffers, strict=True)
    ]
    return [view.reshape(b.shape).copy() for view, b in zip(views, buffers, strict=True)]

"""Levels by bias and gradient, cubes and their arrays, depth and multisampled textures, against a numpy model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.misuse import InvalidValue, MetalMisuse

from . import texture_kit as kit
from . import texture_model as model

Array = NDArray[Any]
COUNT = 256
FLOAT = model.BY_NAME["RGBA32Float"]

SOURCE = """
#include <metal_stdlib>
using namespace metal;

kernel void graded(texture2d<float> t [[texture(0)]], sampler s [[sampler(0)]], device const float4 *at,
    device const float4 *slopes, device float4 *out, constant uint &n, uint i [[thread_position_in_grid]]) {
  out[i] = t.sample(s, at[i].xy, gradient2d(slopes[i].xy, slopes[i].zw));
  out[n + i] = t.sample(s, at[i].xy, bias(at[i].w));
  out[2 * n + i] = t.sample(s, at[i].xy, bias(at[i].w), min_lod_clamp(1.25f));
}
kernel void graded_block(texture3d<float> t [[texture(0)]], sampler s [[sampler(0)]], device const float4 *at,
    device const float4 *slopes, device float4 *out, uint i [[thread_position_in_grid]]) {
  out[i] = t.sample(s, at[i].xyz, gradient3d(slopes[i].xyz, slopes[i].wzy));
}
kernel void cubes(texturecube_array<float> t [[texture(0)]], texturecube<float> one [[texture(1)]],
    sampler s [[sampler(0)]], device const float4 *at, device const float4 *slopes, device float4 *out,
    constant uint &n, uint i [[thread_position_in_grid]]) {
  uint slice = uint(at[i].w);
  out[i] = t.sample(s, at[i].xyz, slice);
  out[n + i] = t.sample(s, at[i].xyz, slice, level(slopes[i].w));
  out[2 * n + i] = t.sample(s, at[i].xyz, slice, gradientcube(slopes[i].xyz, slopes[i].zxy));
  out[3 * n + i] = t.gather(s, at[i].xyz, slice, component::y);
  out[4 * n + i] = one.sample(s, at[i].xyz, gradientcube(slopes[i].xyz, slopes[i].zxy));
}
kernel void depths(depth2d_array<float> planes [[texture(0)]], depthcube<float> one [[texture(1)]],
    depthcube_array<float> many [[texture(2)]], sampler s [[sampler(0)]], device const float4 *at,
    device float4 *out, constant uint &n, uint i [[thread_position_in_grid]]) {
  float reference = 0.5f;
  uint slice = uint(at[i].w);
  out[i] = float4(planes.sample(s, at[i].xy, slice), planes.sample_compare(s, at[i].xy, slice, reference),
                  planes.read(uint2(3, 2), slice), planes.get_array_size());
  out[n + i] = planes.gather_compare(s, at[i].xy, slice, reference);
  out[2 * n + i] = float4(one.sample(s, at[i].xyz), one.sample_compare(s, at[i].xyz, reference),
                          one.read(uint2(1, 2), 3), one.get_width());
  out[3 * n + i] = float4(many.sample(s, at[i].xyz, slice), many.sample_compare(s, at[i].xyz, slice, reference),
                          many.read(uint2(1, 2), 3, slice), many.get_array_size());
  out[4 * n + i] = many.gather(s, at[i].xyz, slice);
}
kernel void several(texture2d_ms<float> t [[texture(0)]], texture2d_ms_array<uint, access::read> many [[texture(1)]],
    depth2d_ms<float> depth [[texture(2)]], device float *out, constant uint2 &at) {
  for (uint i = 0; i < 4; i++) {
    out[i] = t.read(at, i).y;
    out[4 + i] = many.read(ushort2(at), 1, i).x;
  }
  out[8] = depth.read(at, 1);
  out[9] = t.read(at, 4).y;
  out[10] = t.get_num_samples() * 100 + t.get_width() * 10 + t.get_height();
  out[11] = many.get_array_size() * 10 + many.get_num_samples();
}
"""


@cache
def _pipeline(mtl: Any, name: str) -> Any:
    library, error = mtl.newLibraryWithSource_options_error_(SOURCE, None, None)
    assert library is not None, error
    state, error = mtl.newComputePipelineStateWithFunction_error_(library.newFunctionWithName_(name), None)
    assert state is not None, error
    return state


@pytest.fixture(autouse=True)
def own_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "pipeline", lambda name, mtl: _pipeline(mtl, name))


def levels_of(planes: int, size: int, count: int, *, block: bool = False) -> list[Array]:
    return [
        model.random_raw(FLOAT, (max(planes >> n, 1) if block else planes, max(size >> n, 1), max(size >> n, 1)), n)
        for n in range(count)
    ]


def lod_of(first: Array, second: Array, sizes: tuple[int, ...]) -> Array:
    """Half the binary logarithm of the longer slope's square, in texels."""
    x, y = (np.sum((slope * np.array(sizes, np.float32)) ** 2, -1) for slope in (first, second))
    return np.asarray(0.5 * np.log2(np.maximum(x, y)), np.float32)


def steady(lod: Array) -> Array:
    """Where the level is not a rounding error away from another one."""
    return np.asarray(np.abs(lod * 2 - np.rint(lod * 2)) > 1e-3)


@pytest.mark.parametrize("mip", [1, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_gradients_and_bias(linear: bool, mip: int) -> None:
    mtl, rng = kit.device(), np.random.default_rng(1)
    raws = levels_of(1, 32, 6)
    rules = model.Sampler(modes=(2, 0, 0), linear=linear, mip=mip)
    at = rng.uniform(-1, 2, (COUNT, 4)).astype(np.float32)
    at[:, 3] = rng.uniform(-1, 7, COUNT)
    slopes = (rng.normal(0, 1, (COUNT, 4)) * 2.0 ** rng.uniform(-6, 0, (COUNT, 1))).astype(np.float32)
    buffers = [at, slopes, np.zeros((3, COUNT, 4), np.float32), np.uint32(COUNT)]
    texture = kit.texture(mtl, "RGBA32Float", raws)
    given = kit.run(mtl, "graded", (COUNT,), [texture], buffers, kit.sampler(mtl, rules))[2]
    images, none = [raw[0] for raw in raws], np.zeros(2, int)
    lod = lod_of(slopes[:, :2], slopes[:, 2:], (32, 32))
    for got, wanted_lod in zip(given, (lod, at[:, 3], np.maximum(at[:, 3], np.float32(1.25))), strict=True):
        wanted = model.sample(images, rules, at[:, :2], wanted_lod, none, True)
        kept = steady(wanted_lod)
        assert kept.sum() > COUNT * 0.9
        np.testing.assert_allclose(got[kept], wanted[kept], rtol=1e-4, atol=1e-4)


def test_gradients_of_blocks() -> None:
    mtl, rng = kit.device(), np.random.default_rng(2)
    raws = levels_of(16, 16, 5, block=True)
    rules = model.Sampler(linear=True, mip=2)
    at = rng.uniform(0, 1, (COUNT, 4)).astype(np.float32)
    slopes = (rng.normal(0, 1, (COUNT, 4)) * 2.0 ** rng.uniform(-5, 0, (COUNT, 1))).astype(np.float32)
    buffers = [at, slopes, np.zeros((COUNT, 4), np.float32)]
    texture = kit.texture(mtl, "RGBA32Float", raws, Metal.MTLTextureType3D)
    given = kit.run(mtl, "graded_block", (COUNT,), [texture], buffers, kit.sampler(mtl, rules))[2]
    lod = lod_of(slopes[:, :3], slopes[:, [3, 2, 1]], (16, 16, 16))
    wanted = model.sample(raws, rules, at[:, :3], lod, np.zeros(3, int), True)
    np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-4)


# The axis that a face lies on and its sign; then where its columns and rows point, as Metal draws them.
_FACES = (
    ((1, 0, 0), (0, 0, -1), (0, -1, 0)),
    ((-1, 0, 0), (0, 0, 1), (0, -1, 0)),
    ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    ((0, -1, 0), (1, 0, 0), (0, 0, -1)),
    ((0, 0, 1), (1, 0, 0), (0, -1, 0)),
    ((0, 0, -1), (-1, 0, 0), (0, -1, 0)),
)


def directions(rng: np.random.Generator, size: int) -> tuple[Array, Array, Array]:
    """Faces, places from 0 to 1 on them that no filter leaves at any level used here, and directions to those."""
    face = rng.integers(0, 6, COUNT)
    place = (rng.integers(2, size - 2, (COUNT, 2)) + rng.uniform(0.55, 0.95, (COUNT, 2))) / size
    normal, across, down = (np.array([axes[k] for axes in _FACES], float)[face] for k in range(3))
    toward = normal + across * (2 * place[:, :1] - 1) + down * (2 * place[:, 1:] - 1)
    return face, place.astype(np.float32), (toward * rng.uniform(0.5, 3, (COUNT, 1))).astype(np.float32)


def on_faces(planes: Array, rules: model.Sampler, plane: Array, place: Array) -> Array:
    every = np.stack([model.sample_level(each, rules, place, np.zeros(2, int), True) for each in planes])
    return np.asarray(every[plane, np.arange(COUNT)])


@pytest.mark.parametrize("linear", [False, True])
def test_arrays_of_cubes(linear: bool) -> None:
    mtl, rng, size = kit.device(), np.random.default_rng(3), 32
    raws, single = levels_of(18, size, 3), levels_of(6, size, 3)
    rules = model.Sampler(linear=linear, mip=1)
    face, place, toward = directions(rng, size)
    at = np.concatenate([toward, rng.integers(0, 5, (COUNT, 1))], 1).astype(np.float32)
    slopes = rng.normal(0, 0.06, (COUNT, 4)).astype(np.float32)
    slopes[:, 3] = rng.integers(0, 2, COUNT)
    textures = [
        kit.texture(mtl, "RGBA32Float", raws, Metal.MTLTextureTypeCubeArray),
        kit.texture(mtl, "RGBA32Float", single, Metal.MTLTextureTypeCube),
    ]
    buffers = [at, slopes, np.zeros((5, COUNT, 4), np.float32), np.uint32(COUNT)]
    given = kit.run(mtl, "cubes", (COUNT,), textures, buffers, kit.sampler(mtl, rules))[2]
    plane = np.minimum(at[:, 3].astype(int), 2) * 6 + face
    every = [on_faces(raw, rules, plane, place) for raw in raws]
    np.testing.assert_allclose(given[0], every[0], rtol=2e-4, atol=2e-4)
    lower = slopes[:, 3] == 1
    np.testing.assert_allclose(given[1], np.where(lower[:, None], every[1], every[0]), rtol=2e-4, atol=2e-4)
    four = np.stack([model.gather(each, rules, place, 1, True) for each in raws[0]])
    np.testing.assert_array_equal(given[3], four[plane, np.arange(COUNT)])
    # How the place moves: what is left of a slope beside the way towards the face, by the distance to it.
    normal, across, down = (np.array([axes[k] for axes in _FACES], float)[face] for k in range(3))
    far = np.sum(normal * toward, 1)
    moved = []
    for slope in (slopes[:, :3], slopes[:, [2, 0, 1]]):
        away = np.sum(normal * slope, 1) / far
        parts = [(np.sum(axis * slope, 1) - away * np.sum(axis * toward, 1)) / far / 2 for axis in (across, down)]
        moved.append(np.stack(parts, -1))
    lod = lod_of(moved[0], moved[1], (size, size))
    level = np.floor(np.clip(lod, 0, 2) + 0.5).astype(int)
    rows = np.arange(COUNT)
    kept = steady(lod) & (level < 2)
    assert kept.sum() > COUNT // 2 and set(level[kept]) == {0, 1}
    np.testing.assert_allclose(given[2][kept], np.stack(every)[level, rows][kept], rtol=2e-4, atol=2e-4)
    alone = np.stack([on_faces(raw, rules, face, place) for raw in single])
    np.testing.assert_allclose(given[4][kept], alone[level, rows][kept], rtol=2e-4, atol=2e-4)


def test_depth_of_arrays_and_cubes() -> None:
    mtl, rng, size = kit.device(), np.random.default_rng(4), 16
    raws = [rng.uniform(0, 1, (planes, size, size, 1)).astype(np.float32) for planes in (3, 6, 12)]
    kinds = (Metal.MTLTextureType2DArray, Metal.MTLTextureTypeCube, Metal.MTLTextureTypeCubeArray)
    textures = [kit.texture(mtl, "Depth32Float", [raw], kind) for raw, kind in zip(raws, kinds, strict=True)]
    face, place, toward = directions(rng, size)
    at = np.concatenate([toward, rng.integers(0, 2, (COUNT, 1))], 1).astype(np.float32)
    rules = model.Sampler(modes=(2, 2, 2), linear=True)
    buffers = [at, np.zeros((5, COUNT, 4), np.float32), np.uint32(COUNT)]
    less = 1
    given = kit.run(mtl, "depths", (COUNT,), textures, buffers, kit.sampler(mtl, rules, less))[1]
    values = [np.concatenate([raw, np.zeros((*raw.shape[:3], 3), np.float32)], -1) for raw in raws]
    passed = [np.repeat(np.less(np.float32(0.5), raw), 4, -1).astype(np.float32) for raw in raws]
    slice_, rows = at[:, 3].astype(int), np.arange(COUNT)
    for number, (plane, where) in enumerate(((slice_, at[:, :2]), (face, place), (slice_ * 6 + face, place))):
        got = given[0 if number == 0 else number + 1]
        np.testing.assert_allclose(got[:, 0], on_faces(values[number], rules, plane, where)[:, 0], atol=1e-4)
        np.testing.assert_allclose(got[:, 1], on_faces(passed[number], rules, plane, where)[:, 0], atol=1e-4)
    np.testing.assert_array_equal(given[0][:, 2], raws[0][slice_, 2, 3, 0])
    np.testing.assert_array_equal(given[3][:, 2], raws[2][slice_ * 6 + 3, 2, 1, 0])
    assert (given[0][:, 3] == 3).all() and (given[2][:, 3] == size).all() and (given[3][:, 3] == 2).all()
    four = np.stack([model.gather(each, rules, at[:, :2], 0, True) for each in passed[0]])
    np.testing.assert_array_equal(given[1], four[slice_, rows])
    four = np.stack([model.gather(each, rules, place, 0, True) for each in values[2]])
    np.testing.assert_array_equal(given[4], four[slice_ * 6 + face, rows])


def multisampled(mtl: Any, form: str, kind: int, samples: int, slices: int = 1) -> Any:
    asked = Metal.MTLTextureDescriptor.alloc().init()
    asked.setTextureType_(kind)
    asked.setPixelFormat_(kit.format_number(form))
    asked.setWidth_(5)
    asked.setHeight_(3)
    asked.setSampleCount_(samples)
    asked.setArrayLength_(slices)
    return mtl.newTextureWithDescriptor_(asked)


@pytest.mark.parametrize("engine", ["flat", "fibers", "lanes"])
def test_several_samples_of_a_texel(engine: str) -> None:
    """Nothing but a render pass fills them, so the test writes their memory: a plane for each sample of each slice.

    One is read beyond its end, which checked mode would tell.
    """
    mtl = kit.device(engine, checked=False)
    textures = [multisampled(mtl, "RG32Float", 4, 4), multisampled(mtl, "R32Uint", 8, 4, 2)]
    textures.append(multisampled(mtl, "Depth32Float", 4, 2))
    planes = []
    for texture, dtype, channels in zip(textures, (np.float32, np.uint32, np.float32), (2, 1, 1), strict=True):
        shape = texture.state.shape
        level = shape.levels[0]
        values = np.arange(shape.planes * 15 * channels).reshape(shape.planes, 3, 5, channels).astype(dtype)
        memory = np.frombuffer(texture.allocation.view(), np.uint8)
        strides = (level.image_bytes, level.row_bytes, channels * 4, 4)
        np.ndarray(values.shape, dtype, memory, strides=strides)[...] = values
        planes.append(values)
    given = kit.run(mtl, "several", (1,), textures, [np.zeros(12, np.float32), np.array([2, 1], np.uint32)])[0]
    wanted = [*planes[0][:, 1, 2, 1], *planes[1][4:, 1, 2, 0], planes[2][1, 1, 2, 0], 0, 453, 24]
    assert given.tolist() == [float(each) for each in wanted]


def test_multisampled_textures_keep_to_their_rules() -> None:
    mtl = kit.device()
    texture = multisampled(mtl, "RG32Float", 4, 4)
    assert (texture.sampleCount(), texture.arrayLength(), texture.mipmapLevelCount()) == (4, 1, 1)
    with pytest.raises(MetalMisuse, match="4 samples a texel; only render passes"):
        texture.replaceRegion_mipmapLevel_withBytes_bytesPerRow_(((0, 0, 0), (1, 1, 1)), 0, bytes(8), 8)
    for kind, samples in ((4, 1), (4, 3), (2, 4)):
        with pytest.raises(InvalidValue, match=f"{samples} samples"):
            multisampled(mtl, "RG32Float", kind, samples)
    with pytest.raises(ValueError, match="both or none are multisampled"):
        multisampled(mtl, "R32Uint", 4, 4).newTextureViewWithPixelFormat_textureType_levels_slices_(
            Metal.MTLPixelFormatR32Uint, Metal.MTLTextureType2D, (0, 1), (0, 1)
        )

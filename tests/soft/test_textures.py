"""Texture functions against a numpy model, over random coordinates and formats, on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlx_native_py import settings
from mlx_native_py import softmetal as Metal

from . import texture_kit as kit
from . import texture_model as model

Array = NDArray[Any]
COUNT = 64
ELEMENTS = {"int": (np.int32, "int"), "uint": (np.uint32, "uint")}
ENGINES = ("flat", "fibers", "lanes")


def element(form: model.Format) -> tuple[Any, str]:
    return ELEMENTS.get(form.kind, (np.float32, "float"))


def close(form: model.Format, given: Array, wanted: Array) -> None:
    if form.kind == "srgb":
        np.testing.assert_allclose(given, wanted, rtol=2e-6, atol=1e-7)
    else:
        np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize("form", model.FORMATS, ids=lambda form: form.name)
def test_reads_of_every_format(form: model.Format) -> None:
    dtype, name = element(form)
    raw = model.random_raw(form, (1, 9, 13), 1)
    texture = kit.texture(kit.device(), form.name, [raw])
    rng = np.random.default_rng(2)
    far = 0 if settings.current().soft_checked else 1  # whether some are beyond it
    ends = (13 + 3 * far, 9 + 2 * far, 1, 1 + far)
    at = np.stack([rng.integers(0, end, COUNT) for end in ends], -1)
    _, given = kit.run(
        kit.device(), f"read2d_{name}", (COUNT,), [texture], [at.astype(np.uint32), np.ones((COUNT, 4), dtype)]
    )
    image, wanted = model.decode(form, raw)[0], np.zeros((COUNT, 4), dtype)
    inside = (at[:, 0] < 13) & (at[:, 1] < 9) & (at[:, 3] == 0)
    wanted[inside] = image[at[inside, 1], at[inside, 0]]
    assert inside.any()
    assert inside.all() == (not far)
    close(form, given, wanted)


@pytest.mark.parametrize("form", model.FORMATS, ids=lambda form: form.name)
def test_writes_of_every_format(form: model.Format) -> None:
    dtype, name = element(form)
    rng = np.random.default_rng(3)
    shape = (1, 8, 8, 4)
    values: Array = rng.normal(0.4, 0.6, shape).astype(np.float32)
    values[0, 0, :4, 0] = (np.nan, np.inf, -np.inf, -0.0)
    values[0, 1, :, :] = (np.arange(32).reshape(8, 4) * 8 + 0.5) / np.float32(255)  # halfway between two bytes
    if form.is_integer:
        values = rng.integers(0 if form.kind == "uint" else -70000, 70000, shape)
    values = values.astype(dtype)
    raw = np.zeros((1, 8, 8, form.channels), form.dtype)
    texture = kit.texture(kit.device(), form.name, [raw])
    kit.run(kit.device(), f"write2d_{name}", (8, 8), [texture], [values])
    given, wanted = kit.texels(texture, raw), model.encode(form, values)[0]
    if form.kind == "srgb":
        assert np.abs(given.astype(int) - wanted.astype(int)).max() <= 1
        assert (given == wanted).mean() > 0.98
    else:
        np.testing.assert_array_equal(given, wanted)


PACKED = {  # bytes of a texel, and the fewest bits of a component
    "RGB10A2Unorm": (4, 10),
    "BGR10A2Unorm": (4, 10),
    "RG11B10Float": (4, 6),
    "RGB9E5Float": (4, 9),
    "B5G6R5Unorm": (2, 5),
    "ABGR4Unorm": (2, 4),
    "BGR5A1Unorm": (2, 5),
}


@pytest.mark.parametrize("form", PACKED)
def test_packed_formats_come_back(form: str) -> None:
    """What was written is read back, as near as the format's fewest bits allow."""
    mtl, (size, few) = kit.device(), PACKED[form]
    values = np.random.default_rng(4).uniform(0, 1, (1, 4, 16, 4)).astype(np.float32)
    values[..., 3] = 1
    texture = kit.texture(mtl, form, [np.zeros((1, 4, 16, size), np.uint8)])
    kit.run(mtl, "write2d_float", (16, 4), [texture], [values])
    x, y = np.tile(np.arange(16), 4), np.repeat(np.arange(4), 16)
    at = np.stack([x, y, 0 * x, 0 * x], -1).astype(np.uint32)
    _, given = kit.run(mtl, "read2d_float", (64,), [texture], [at, np.zeros((64, 4), np.float32)])
    np.testing.assert_allclose(given, values.reshape(64, 4), atol=0.51 / (2**few - 1))


RULES = [
    model.Sampler(modes=(a, b, 0), linear=linear, border=border)
    for a, b, border in (
        (0, 0, 0),
        (1, 1, 0),
        (2, 2, 0),
        (3, 3, 0),
        (4, 4, 0),
        (5, 5, 0),
        (5, 5, 1),
        (5, 5, 2),
        (2, 4, 0),
        (3, 0, 0),
    )
    for linear in (False, True)
] + [model.Sampler(modes=(a, a, 0), linear=linear, pixel=True) for a in (0, 4) for linear in (False, True)]


def points(seed: int, rules: model.Sampler, size: tuple[int, ...], count: int = COUNT) -> Array:
    """Coordinates inside and far beyond, and some exactly on texel borders."""
    rng = np.random.default_rng(seed)
    at = rng.uniform(-1.6, 2.6, (count, 4)).astype(np.float32)
    at[: count // 4, : len(size)] = rng.integers(-2, 6, (count // 4, len(size))) / np.array(size, np.float32)
    if rules.pixel:
        at[:, : len(size)] *= np.array(size, np.float32)
    at[:, 3] = 0
    return at


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["RGBA8Unorm", "R32Float", "RG16Float"])
def test_sampling_by_every_rule(form: str, engine: str) -> None:
    mtl, known = kit.device(engine), model.BY_NAME[form]
    raw = model.random_raw(known, (1, 7, 5), 5)
    texture, image = kit.texture(mtl, form, [raw]), model.decode(known, raw)[0]
    for seed, rules in enumerate(RULES):
        at = points(seed, rules, (5, 7))
        offset = np.array([seed % 3 - 1, seed % 2], np.int32)
        _, given, _ = kit.run(
            mtl,
            "sample2d_float",
            (COUNT,),
            [texture],
            [at, np.zeros((COUNT, 4), np.float32), offset],
            kit.sampler(mtl, rules),
        )
        wanted = model.sample_level(image, rules, at[:, :2], offset, known.channels == 4)
        np.testing.assert_array_equal(given, wanted, err_msg=str(rules))


@pytest.mark.parametrize("kind", ["int", "uint", "half"])
def test_sampling_other_elements(kind: str) -> None:
    mtl = kit.device()
    form = {"int": "RGBA16Sint", "uint": "RG32Uint", "half": "RGBA16Float"}[kind]
    known = model.BY_NAME[form]
    raw = model.random_raw(known, (1, 4, 6), 6)
    rules = model.Sampler(modes=(2, 4, 0))
    at, dtype = points(7, rules, (6, 4)), {"int": np.int32, "uint": np.uint32, "half": np.float16}[kind]
    buffers = [at, np.zeros((COUNT, 4), dtype), np.zeros(2, np.int32)]
    _, given, _ = kit.run(
        mtl, f"sample2d_{kind}", (COUNT,), [kit.texture(mtl, form, [raw])], buffers, kit.sampler(mtl, rules)
    )
    wanted = model.sample_level(model.decode(known, raw)[0], rules, at[:, :2], np.zeros(2, int), known.channels == 4)
    np.testing.assert_array_equal(given, wanted.astype(dtype))


@pytest.mark.parametrize("mip", [0, 1, 2])
@pytest.mark.parametrize("linear", [False, True])
def test_levels_of_detail(mip: int, linear: bool) -> None:
    mtl, known = kit.device(), model.BY_NAME["RGBA32Float"]
    raws = [model.random_raw(known, (1, max(12 >> n, 1), max(20 >> n, 1)), n) for n in range(5)]
    rules = model.Sampler(modes=(2, 0, 0), linear=linear, mip=mip)
    at = points(8, rules, (20, 12))
    at[:, 3] = np.random.default_rng(9).uniform(-1, 6, COUNT)
    buffers = [at, np.zeros((COUNT, 4), np.float32), np.zeros(2, np.int32)]
    texture = kit.texture(mtl, "RGBA32Float", raws)
    _, given, _ = kit.run(mtl, "sample2d_float", (COUNT,), [texture], buffers, kit.sampler(mtl, rules))
    levels = [model.decode(known, raw)[0] for raw in raws]
    np.testing.assert_array_equal(given, model.sample(levels, rules, at[:, :2], at[:, 3], np.zeros(2, int), True))


def test_reads_of_every_type() -> None:
    mtl, known = kit.device(), model.BY_NAME["RGBA32Float"]
    shapes = [(1, 1, 9), (3, 1, 9), (4, 6, 9), (4, 6, 9), (6, 6, 6), (12, 6, 6)]
    kinds = [0, 1, 3, 7, 5, 6]
    raws = [model.random_raw(known, shape, n) for n, shape in enumerate(shapes)]
    textures = [kit.texture(mtl, "RGBA32Float", [raw], kind) for raw, kind in zip(raws, kinds, strict=True)]
    line = model.random_raw(known, (1, 1, 9), 20)
    asked = Metal.MTLTextureDescriptor.textureBufferDescriptorWithPixelFormat_width_resourceOptions_usage_(125, 9, 0, 1)
    memory = mtl.newBufferWithBytes_length_options_(line, line.nbytes, 0)
    textures.append(memory.newTextureWithDescriptor_offset_bytesPerRow_(asked, 0, line.nbytes))
    rng = np.random.default_rng(10)
    ends = (6, 6, 3, 2) if settings.current().soft_checked else (10, 7, 5, 2)  # the others are beyond some of them
    at = np.stack([rng.integers(0, n, COUNT) for n in ends], -1).astype(np.uint32)
    _, given, _ = kit.run(
        mtl, "read_others", (COUNT,), textures, [at, np.zeros((7, COUNT, 4), np.float32), np.uint32(COUNT)]
    )
    for number, raw in enumerate([*raws, line]):
        x, y, z, w = at.T.astype(int)
        planes, height, width, _ = raw.shape
        y = y if height > 1 else np.zeros_like(y)
        z = {0: 0 * z, 6: 0 * z, 5: w * 6 + z}.get(number, z)
        inside = (x < width) & (y < height) & (z < planes)
        wanted = np.where(
            inside[:, None], raw[np.minimum(z, planes - 1), np.minimum(y, height - 1), np.minimum(x, width - 1)], 0
        )
        np.testing.assert_array_equal(given[number], wanted, err_msg=str(number))


@pytest.mark.parametrize("linear", [False, True])
def test_sampling_of_other_types(linear: bool) -> None:
    mtl, known = kit.device(), model.BY_NAME["RGBA32Float"]
    raws = [model.random_raw(known, shape, n) for n, shape in enumerate([(1, 1, 9), (3, 6, 9), (4, 6, 9), (3, 1, 9)])]
    textures = [kit.texture(mtl, "RGBA32Float", [raw], kind) for raw, kind in zip(raws, (0, 3, 7, 1), strict=True)]
    rules = model.Sampler(modes=(2, 3, 4), linear=linear)
    at = points(11, rules, (9, 6, 4))
    at[:, 3] = np.random.default_rng(12).integers(0, 5, COUNT)
    _, given, _ = kit.run(
        mtl,
        "sample_others",
        (COUNT,),
        textures,
        [at, np.zeros((4, COUNT, 4), np.float32), np.uint32(COUNT)],
        kit.sampler(mtl, rules),
    )
    none, slices = np.zeros(3, int), np.minimum(at[:, 3].astype(int), 2)
    np.testing.assert_array_equal(given[0], model.sample_level(raws[0][0, 0], rules, at[:, :1], none[:1], True))
    np.testing.assert_array_equal(given[2], model.sample_level(raws[2], rules, at[:, :3], none, True))
    planes = np.stack([model.sample_level(plane, rules, at[:, :2], none[:2], True) for plane in raws[1]])
    np.testing.assert_array_equal(given[1], planes[slices, np.arange(COUNT)])
    lines = np.stack([model.sample_level(plane[0], rules, at[:, :1], none[:1], True) for plane in raws[3]])
    np.testing.assert_array_equal(given[3], lines[slices, np.arange(COUNT)])


def test_gather_and_compare() -> None:
    mtl, known = kit.device(), model.BY_NAME["RGBA8Unorm"]
    raw = model.random_raw(known, (1, 7, 5), 13)
    rules = model.Sampler(modes=(2, 0, 0), linear=True)
    at = points(14, rules, (5, 7))
    _, given, _ = kit.run(
        mtl,
        "gather2d",
        (COUNT,),
        [kit.texture(mtl, "RGBA8Unorm", [raw])],
        [at, np.zeros((2, COUNT, 4), np.float32), np.uint32(COUNT)],
        kit.sampler(mtl, rules),
    )
    image = model.decode(known, raw)[0]
    np.testing.assert_array_equal(given[0], model.gather(image, rules, at[:, :2], 0, True))
    np.testing.assert_array_equal(given[1], model.gather(image, rules, at[:, :2], 3, True))
    depths = np.random.default_rng(15).uniform(0, 1, (1, 7, 5, 1)).astype(np.float32)
    at[:, 2] = np.random.default_rng(16).uniform(0, 1, COUNT)
    texture, image = kit.texture(mtl, "Depth32Float", [depths]), np.zeros((7, 5, 4), np.float32)
    image[..., 0] = depths[0, ..., 0]
    for number, compare in ((1, np.less), (3, np.less_equal), (4, np.greater), (7, lambda a, b: np.ones(len(a), bool))):
        _, given = kit.run(
            mtl,
            "compare2d",
            (COUNT,),
            [texture],
            [at, np.zeros((COUNT, 4), np.float32)],
            kit.sampler(mtl, rules, number),
        )

        def see(texels: Array, compare: Any = compare) -> Array:
            return np.repeat(compare(at[:, 2], texels[:, 0])[:, None], 4, 1).astype(np.float32)

        wanted = model.sample_level(image, rules, at[:, :2], np.zeros(2, int), True, see)
        np.testing.assert_array_equal(given[:, 0], wanted[:, 0])


def test_cubes() -> None:
    """Each face is met where its axis points; between faces the neighbours mix."""
    mtl = kit.device()
    faces = np.arange(6, dtype=np.float32)[:, None, None, None] * np.ones((6, 4, 4, 4), np.float32)
    texture = kit.texture(mtl, "RGBA32Float", [faces], Metal.MTLTextureTypeCube)
    axes = np.zeros((COUNT, 4), np.float32)
    axes[:6, :3] = [(2, 0.1, 0), (-2, 0.1, 0), (0.1, 2, 0), (0.1, -2, 0), (0.1, 0, 2), (0.1, 0, -2)]
    axes[6, :3], axes[7, :3] = (1, 1, 0), (1, 0, -1)
    for linear in (False, True):
        look = kit.sampler(mtl, model.Sampler(linear=linear))
        _, given = kit.run(mtl, "sample_cube", (COUNT,), [texture], [axes, np.zeros((COUNT, 4), np.float32)], look)
        np.testing.assert_array_equal(given[:6, 0], np.arange(6))
        if linear:
            np.testing.assert_allclose(given[6:8, 0], [1.0, 2.5])  # halfway from +x to +y, and from +x to -z


def test_depths_of_cubes_and_arrays() -> None:
    """Every texel of a face or slice holds its number: each way of looking gives that, or a comparison with it."""
    mtl = kit.device()
    numbers = np.arange(6, dtype=np.float32)
    depths = np.ones((6, 4, 4, 1), np.float32) * numbers[:, None, None, None]
    kinds = (Metal.MTLTextureTypeCube, Metal.MTLTextureType2DArray)
    textures = [kit.texture(mtl, "Depth32Float", [depths], kind) for kind in kinds]
    ways = np.zeros((6, 4), np.float32)
    ways[:, :3] = [(2, 0.1, 0), (-2, 0.1, 0), (0.1, 2, 0), (0.1, -2, 0), (0.1, 0, 2), (0.1, 0, -2)]
    ways[:, 3] = 2.5
    look = kit.sampler(mtl, model.Sampler(linear=True), 1)
    _, given = kit.run(mtl, "depths", (6,), textures, [ways, np.zeros((6, 2, 4), np.float32)], look)
    passed = (numbers > 2.5).astype(np.float32)
    np.testing.assert_array_equal(given[:, 0].T, [numbers, passed, numbers, passed])
    np.testing.assert_array_equal(given[:, 1].T, [numbers, numbers, numbers, passed])


def test_sizes_and_arrays_of_textures() -> None:
    mtl = kit.device()
    levels = [np.zeros((3, 6 >> n, 10 >> n, 4), np.uint8) for n in range(2)]
    block = kit.texture(mtl, "R32Float", [np.zeros((5, 2, 2, 1), np.float32)], Metal.MTLTextureType3D)
    two = [kit.texture(mtl, "R32Sint", [np.zeros((1, 1, n, 1), np.int32)]) for n in (3, 7)]
    textures = [kit.texture(mtl, "RGBA8Unorm", levels, Metal.MTLTextureType2DArray), block, *two]
    (given,) = kit.run(mtl, "sizes", (1,), textures, [np.zeros(6, np.uint32)])
    assert given.tolist() == [10, 3, 3, 2, 5, 7]


@pytest.mark.parametrize("engine", ENGINES)
def test_read_write_with_a_fence(engine: str) -> None:
    mtl = kit.device(engine)
    raw = np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)
    texture = kit.texture(mtl, "R32Float", [raw])
    kit.run(mtl, "shifted", (8, 8), [texture], [])
    np.testing.assert_array_equal(kit.texels(texture, raw), (raw[0] + 1) * 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_atomics(engine: str) -> None:
    mtl = kit.device(engine)
    start = np.zeros((1, 4, 4, 1), np.uint32)
    texture = kit.texture(mtl, "R32Uint", [start])
    values = np.random.default_rng(17).integers(0, 4, 500).astype(np.uint32)
    kit.run(mtl, "counted", (500,), [texture], [values])
    groups = [np.flatnonzero(values == each) for each in range(4)]
    wanted = [
        [len(g) for g in groups],
        [g.max() for g in groups],
        [np.bitwise_xor.reduce(g) for g in groups],
        [1, 9, 2, 0],
    ]
    np.testing.assert_array_equal(kit.texels(texture, start)[..., 0], wanted)


def test_argument_buffers() -> None:
    """Handles of textures and samplers stand in memory that the kernel reads."""
    mtl = kit.device(checked=True)
    raw = np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)
    image, texture = kit.texture(mtl, "R32Float", [raw]), kit.texture(mtl, "R32Float", [0 * raw])
    look = kit.sampler(mtl, model.Sampler())
    words = np.array([each.gpuResourceID()._impl for each in (image, look, texture)], np.uint64)
    memory = mtl.newBufferWithBytes_length_options_(words, words.nbytes, 0)
    work = mtl.newCommandQueue().commandBuffer()
    encoder = work.computeCommandEncoder()
    encoder.setComputePipelineState_(kit.pipeline("through_memory", mtl))
    encoder.setBuffer_offset_atIndex_(memory, 0, 0)
    encoder.useResource_usage_(image, 1)
    encoder.useResource_usage_(texture, 2)
    encoder.dispatchThreads_threadsPerThreadgroup_((8, 8, 1), (8, 8, 1))
    encoder.endEncoding()
    work.commit()
    work.waitUntilCompleted()
    np.testing.assert_array_equal(kit.texels(texture, raw), raw[0] * 2)


def test_isolated_kernels_find_textures() -> None:
    mtl = Metal.open_device(Metal.SoftOptions(isolated=True))
    raw = np.arange(64, dtype=np.float32).reshape(1, 8, 8, 1)
    texture = kit.texture(mtl, "R32Float", [raw])
    kit.run(mtl, "shifted", (8, 8), [texture], [])
    np.testing.assert_array_equal(kit.texels(texture, raw), (raw[0] + 1) * 2)

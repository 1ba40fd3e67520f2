"""A numpy model of textures: formats, addressing and filters, written from Metal's rules and not from our headers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
F = np.float32
EDGE, MIRROR_EDGE, REPEAT, MIRROR, ZERO, BORDER = range(6)


@dataclass(frozen=True)
class Format:
    """A pixel format with plain components: numpy's type of one, how many, and how it is read."""

    name: str
    dtype: Any
    channels: int
    kind: str  # unorm, snorm, srgb, float, int, uint

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")


def _formats() -> list[Format]:
    formats = []
    for channels, letters in ((1, "R"), (2, "RG"), (4, "RGBA")):
        for bits in (8, 16, 32):
            for kind, suffix in (("unorm", "Unorm"), ("snorm", "Snorm"), ("uint", "Uint"), ("int", "Sint")):
                if bits < 32 or kind in ("uint", "int"):
                    dtype = np.dtype(f"{'u' if kind[0] == 'u' else ''}int{bits}")
                    formats.append(Format(f"{letters}{bits}{suffix}", dtype, channels, kind))
            if bits > 8:
                formats.append(Format(f"{letters}{bits}Float", np.dtype(f"float{bits}"), channels, "float"))
    formats += [
        Format("RGBA8Unorm_sRGB", np.dtype(np.uint8), 4, "srgb"),
        Format("BGRA8Unorm", np.dtype(np.uint8), 4, "unorm"),
    ]
    return [
        *formats,
        Format("BGRA8Unorm_sRGB", np.dtype(np.uint8), 4, "srgb"),
        Format("A8Unorm", np.dtype(np.uint8), 1, "unorm"),
    ]


FORMATS = _formats()
BY_NAME = {each.name: each for each in FORMATS}


def random_raw(form: Format, shape: tuple[int, ...], seed: int) -> Array:
    """Stored components; small floats, and every bit pattern of the others."""
    rng = np.random.default_rng(seed)
    if form.kind == "float":
        return rng.normal(0, 4, (*shape, form.channels)).astype(form.dtype)
    limits = np.iinfo(form.dtype)
    return rng.integers(limits.min, limits.max, (*shape, form.channels), dtype=form.dtype, endpoint=True)


def decode(form: Format, raw: Array) -> Array:
    """Texels as kernels see them: (..., 4) of float32, int32 or uint32."""
    kind = {"int": np.int32, "uint": np.uint32}.get(form.kind, F)
    texels = np.zeros((*raw.shape[:-1], 4), kind)
    texels[..., 3] = 1
    if form.is_integer or form.kind == "float":
        values = raw.astype(kind)
    else:
        values = np.maximum(raw.astype(F) / F(np.iinfo(form.dtype).max), F(-1))
    if form.kind == "srgb":
        c = values[..., :3].astype(np.float64)
        values[..., :3] = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4).astype(F)
    if form.name.startswith("A8"):
        texels[..., 3] = values[..., 0]
        return texels
    texels[..., : form.channels] = values
    return texels[..., [2, 1, 0, 3]] if form.name.startswith("BGRA") else texels


def encode(form: Format, texels: Array) -> Array:
    """What is stored when a kernel writes (..., 4): nearest, to even; clamped to what the format holds."""
    if form.name.startswith("A8"):
        texels = texels[..., [3]]
    if form.name.startswith("BGRA"):
        texels = texels[..., [2, 1, 0, 3]]
    values = texels[..., : form.channels]
    if form.is_integer:
        limits = np.iinfo(form.dtype)
        return np.clip(values.astype(np.int64), limits.min, limits.max).astype(form.dtype)
    if form.kind == "float":
        return values.astype(form.dtype)
    values = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0)
    values = np.clip(values, -1 if form.kind == "snorm" else 0, 1).astype(F)
    if form.kind == "srgb":
        c = values[..., :3].astype(np.float64)
        values = values.copy()
        values[..., :3] = np.where(c <= 0.0031308, 12.92 * c, 1.055 * c ** (1 / 2.4) - 0.055).astype(F)
    return np.rint(values * F(np.iinfo(form.dtype).max)).astype(form.dtype)


@dataclass(frozen=True)
class Sampler:
    """The rules of an MTLSamplerDescriptor that the model follows."""

    modes: tuple[int, int, int] = (EDGE, EDGE, EDGE)
    linear: bool = False
    mip: int = 0  # none, nearest, linear
    pixel: bool = False
    border: int = 0


def _wrapped(i: Array, size: int, mode: int) -> tuple[Array, Array]:
    """Indices into an axis, and where there is none."""
    if mode == REPEAT:
        return i % size, np.zeros(i.shape, bool)
    if mode == MIRROR:
        i = i % (2 * size)
        return np.where(i < size, i, 2 * size - 1 - i), np.zeros(i.shape, bool)
    if mode == MIRROR_EDGE:
        i = np.where(i < 0, -1 - i, i)
        return np.minimum(i, size - 1), np.zeros(i.shape, bool)
    outside = (i < 0) | (i >= size)
    return np.clip(i, 0, size - 1), outside & (mode in (ZERO, BORDER))


def _texels(image: Array, rules: Sampler, index: Array, has_alpha: bool) -> Array:
    """Texels at (n, d) indices, x first, of an image with d axes."""
    sizes = image.shape[-2::-1]
    places, colour = [], np.zeros((len(index), 4), image.dtype)
    missing = np.zeros(len(index), bool)
    for axis, size in enumerate(sizes):
        place, outside = _wrapped(index[:, axis], size, rules.modes[axis])
        places.append(place)
        fresh = outside & ~missing
        if rules.modes[axis] == ZERO:
            colour[fresh] = (0, 0, 0, 0 if has_alpha else 1)
        else:
            colour[fresh] = ((0, 0, 0, 0), (0, 0, 0, 1), (1, 1, 1, 1))[rules.border]
        missing |= outside
    return np.where(missing[:, None], colour, image[tuple(places[::-1])])


def footprint(image: Array, rules: Sampler, coords: Array, offset: Array, *, linear: bool) -> tuple[Array, Array]:
    """The first texel and the fractions beyond it, for (n, d) coordinates."""
    sizes = np.array(image.shape[-2::-1], F)
    at = coords.astype(F) if rules.pixel else coords.astype(F) * sizes
    at = at - F(0.5) if linear else at
    low = np.floor(at)
    return low.astype(np.int64) + offset, (at - low).astype(F)


def sample_level(image: Array, rules: Sampler, coords: Array, offset: Array, has_alpha: bool, see: Any = None) -> Array:
    """One level at (n, d) coordinates."""
    first, fraction = footprint(image, rules, coords, offset, linear=rules.linear)
    look = see or (lambda texels: texels)
    if not rules.linear:
        return np.asarray(look(_texels(image, rules, first, has_alpha)))
    total = np.zeros((len(coords), 4), F)
    dimensions = coords.shape[1]
    for corner in range(1 << dimensions):
        step = np.array([corner >> axis & 1 for axis in range(dimensions)])
        share = np.ones(len(coords), F)
        for axis in range(dimensions):
            share = share * (fraction[:, axis] if step[axis] else F(1) - fraction[:, axis])
        total = total + look(_texels(image, rules, first + step, has_alpha)) * share[:, None]
    return total


def sample(levels: list[Array], rules: Sampler, coords: Array, lod: Array, offset: Array, has_alpha: bool) -> Array:
    """Mipmapped sampling at (n, d) coordinates with a level of detail for each."""
    if not rules.mip or rules.pixel:
        return sample_level(levels[0], rules, coords, offset, has_alpha)
    at = np.clip(lod.astype(F), F(0), F(len(levels) - 1))
    every = np.stack([sample_level(level, rules, coords, offset, has_alpha) for level in levels])
    rows = np.arange(len(coords))
    if rules.mip == 1:
        return np.asarray(every[np.floor(at + F(0.5)).astype(int), rows])
    low = np.floor(at).astype(int)
    part = (at - low.astype(F)).astype(F)[:, None]
    high = np.minimum(low + 1, len(levels) - 1)
    mixed = every[low, rows] * (F(1) - part) + every[high, rows] * part
    return np.asarray(np.where(part > 0, mixed, every[low, rows]))


def gather(image: Array, rules: Sampler, coords: Array, component: int, has_alpha: bool) -> Array:
    """One component of the four texels around, counter-clockwise from the lower left."""
    first, _ = footprint(image, rules, coords, np.zeros(2, int), linear=True)
    steps = ((0, 1), (1, 1), (1, 0), (0, 0))
    return np.stack([_texels(image, rules, first + np.array(s), has_alpha)[:, component] for s in steps], -1)

"""Texels that nobody has written are reported with the texture and their place; what anybody has written is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.checked import UninitialisedRead

from . import texture_kit as kit
from . import texture_model as model

pytestmark = pytest.mark.soft
Texel = tuple[int, int, int]
_PRIVATE = 2 << 4


def texture(
    form: str = "R32Float", kind: int = 2, size: tuple[int, int, int] = (8, 8, 1), levels: int = 1, slices: int = 1
) -> Any:
    """A new one, which nobody has written."""
    asked = Metal.MTLTextureDescriptor.alloc().init()
    asked.setTextureType_(kind)
    asked.setPixelFormat_(kit.format_number(form))
    asked.setWidth_(size[0])
    asked.setHeight_(size[1])
    asked.setDepth_(size[2])
    asked.setArrayLength_(slices)
    asked.setMipmapLevelCount_(levels)
    asked.setUsage_(3)
    return kit.device(checked=True).newTextureWithDescriptor_(asked)


def fill(made: Any, origin: Texel, size: Texel, level: int = 0, slice_: int = 0) -> Any:
    """Replaces a region by ones."""
    row = size[0] * made.state.shape.format.bytes
    data = np.ones(row * size[1] * size[2], np.uint8)
    made.replaceRegion_mipmapLevel_slice_withBytes_bytesPerRow_bytesPerImage_(
        (origin, size), level, slice_, data, row, row * size[1]
    )
    return made


def read(made: Any, *at: tuple[int, int, int, int], name: str = "read2d_float") -> None:
    kit.run(
        kit.device(checked=True),
        name,
        (len(at),),
        [made],
        [np.array(at, np.uint32), np.zeros((len(at), 4), np.float32)],
    )


def sample(made: Any, x: float, y: float, linear: bool) -> None:
    mtl = kit.device(checked=True)
    look = kit.sampler(mtl, model.Sampler(linear=linear))
    arrays = [np.array([[x, y, 0, 0]], np.float32), np.zeros((1, 4), np.float32), np.zeros(2, np.int32)]
    kit.run(mtl, "sample2d_float", (1,), [made], arrays, look)


def written_by_a_kernel(made: Any, rows: int) -> Any:
    kit.run(kit.device(checked=True), "write2d_float", (8, rows), [made], [np.ones((rows * 8, 4), np.float32)])
    return made


def gather(made: Any) -> None:
    mtl = kit.device(checked=True)
    arrays = [np.array([[0.5, 0.5, 0, 0]], np.float32), np.zeros((2, 4), np.float32), np.uint32(1)]
    kit.run(mtl, "gather2d", (1,), [made], arrays, kit.sampler(mtl, model.Sampler()))


def count(made: Any) -> None:
    kit.run(kit.device(checked=True), "counted", (8,), [made], [np.arange(8, dtype=np.uint32)])


def view_of(made: Any, first_level: int) -> Any:
    return made.newTextureViewWithPixelFormat_textureType_levels_slices_(
        made.pixelFormat(), 2, (first_level, 1), (0, 1)
    )


def of_a_buffer(written: int) -> Any:
    """A texture over memory that is used again, of which so many rows were written by the CPU."""
    buffer = kit.device(checked=True).newBufferWithLength_options_(8 * 32, 0)
    buffer.allocation.forget()
    buffer.contents().as_buffer(8 * 32)[: 32 * written] = bytes(range(1, 33)) * written
    asked = Metal.MTLTextureDescriptor.texture2DDescriptorWithPixelFormat_width_height_mipmapped_(
        kit.format_number("R32Float"), 8, 8, False
    )
    return buffer.newTextureWithDescriptor_offset_bytesPerRow_(asked, 0, 32)


ALL = ((0, 0, 0), (8, 8, 1))
FAULTS: dict[str, tuple[Callable[[], None], Texel, int, Callable[[], None]]] = {
    # what reads, the texel and the level that it is told of, and the same put right
    "new": (lambda: read(texture(), (3, 5, 0, 0)), (3, 5, 0), 0, lambda: read(fill(texture(), *ALL), (3, 5, 0, 0))),
    "beside what was written": (
        lambda: read(fill(texture(), (0, 0, 0), (5, 8, 1)), (4, 2, 0, 0), (5, 2, 0, 0)),
        (5, 2, 0),
        0,
        lambda: read(fill(texture(), (0, 0, 0), (6, 8, 1)), (4, 2, 0, 0), (5, 2, 0, 0)),
    ),
    "beside what was written of texels of a byte": (
        lambda: read(fill(texture("R8Unorm"), (1, 2, 0), (3, 4, 1)), (1, 2, 0, 0), (3, 5, 0, 0), (4, 5, 0, 0)),
        (4, 5, 0),
        0,
        lambda: read(fill(texture("R8Unorm"), (1, 2, 0), (4, 4, 1)), (1, 2, 0, 0), (3, 5, 0, 0), (4, 5, 0, 0)),
    ),
    "of another level": (
        lambda: read(fill(texture(levels=3), *ALL), (1, 1, 0, 0), (1, 3, 0, 1)),
        (1, 3, 0),
        1,
        lambda: read(fill(texture(levels=3), (0, 0, 0), (4, 4, 1), level=1), (1, 3, 0, 1)),
    ),
    "of a view": (
        lambda: read(view_of(fill(texture(levels=3), *ALL), 1), (1, 3, 0, 0)),
        (1, 3, 0),
        0,
        lambda: read(fill(view_of(texture(levels=3), 1), (0, 0, 0), (4, 4, 1)), (1, 3, 0, 0)),
    ),
    "beside what a kernel wrote": (
        lambda: read(written_by_a_kernel(texture(), 4), (7, 3, 0, 0), (7, 4, 0, 0)),
        (7, 4, 0),
        0,
        lambda: read(written_by_a_kernel(texture(), 5), (7, 3, 0, 0), (7, 4, 0, 0)),
    ),
    "sampled": (
        lambda: sample(fill(texture(), (0, 0, 0), (8, 4, 1)), 0.3, 0.6, False),
        (2, 4, 0),
        0,
        lambda: sample(fill(texture(), (0, 4, 0), (8, 4, 1)), 0.3, 0.6, False),
    ),
    "with a share in a mean": (
        lambda: sample(fill(texture(), (0, 0, 0), (8, 4, 1)), 0.3125, 0.5, True),
        (2, 4, 0),
        0,
        lambda: sample(fill(texture(), (0, 0, 0), (8, 4, 1)), 0.3125, 0.4375, True),
    ),
    "gathered": (
        lambda: gather(fill(texture(), (0, 0, 0), (8, 4, 1))),
        (3, 4, 0),
        0,
        lambda: gather(fill(texture(), *ALL)),
    ),
    "counted in": (
        lambda: count(texture("R32Uint")),
        (0, 0, 0),
        0,
        lambda: count(fill(texture("R32Uint"), *ALL)),
    ),
    "of a buffer": (
        lambda: read(of_a_buffer(3), (0, 2, 0, 0), (0, 3, 0, 0)),
        (0, 3, 0),
        0,
        lambda: read(of_a_buffer(4), (0, 2, 0, 0), (0, 3, 0, 0)),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_texels_that_nobody_has_written(name: str) -> None:
    reading, texel, level, _ = FAULTS[name]
    with pytest.raises(UninitialisedRead) as caught:
        reading()
    place = caught.value.place
    assert (place.space, place.name, place.slot) == ("texture", "t", 0)
    assert (place.texel, place.level) == (texel, level), str(caught.value)
    assert f"texel {texel} of level {level} of texture 't'" in str(caught.value)
    assert caught.value.source is not None
    assert "t." in caught.value.source.source_line


@pytest.mark.parametrize("name", FAULTS)
def test_written_texels_are_no_fault(name: str) -> None:
    FAULTS[name][3]()


def test_planes_slices_and_faces() -> None:
    """Each type of texture, all but one of it written."""
    mtl = kit.device(checked=True)
    made = [
        fill(texture(kind=0, size=(8, 1, 1)), (0, 0, 0), (8, 1, 1)),
        texture(kind=1, size=(8, 1, 1), slices=3),
        texture(kind=3, slices=3),
        fill(texture(kind=7, size=(8, 8, 4)), (0, 0, 0), (8, 8, 4)),
        texture(kind=5),
        texture(kind=6),
    ]
    fill(made[1], (0, 0, 0), (8, 1, 1), slice_=2)
    for each, slice_ in ((made[2], 2), (made[4], 2), (made[5], 2)):
        fill(each, *ALL, slice_=slice_)
    asked = Metal.MTLTextureDescriptor.textureBufferDescriptorWithPixelFormat_width_resourceOptions_usage_(
        kit.format_number("R32Float"), 8, 0, 1
    )
    made.append(mtl.newTextureWithDescriptor_(asked))
    fill(made[6], (0, 0, 0), (8, 1, 1))

    def run(plane: int) -> None:
        at = np.array([[3, 0, plane, 0]], np.uint32)
        kit.run(mtl, "read_others", (1,), made, [at, np.zeros((7, 4), np.float32), np.uint32(1)])

    run(2)
    with pytest.raises(UninitialisedRead) as caught:
        run(1)
    findings = [caught.value, *(each for each in caught.value.others if isinstance(each, UninitialisedRead))]
    assert {(each.place.name, each.place.texel) for each in findings} == {
        (name, (3, 0, 1)) for name in ("lines", "planes", "cube", "cubes")
    }


def test_through_an_argument_buffer() -> None:
    mtl = kit.device(checked=True)
    raw = np.ones((1, 8, 8, 1), np.float32)
    look = kit.sampler(mtl, model.Sampler())

    def run(image: Any) -> None:
        to = texture()
        words = np.array([each.gpuResourceID()._impl for each in (image, look, to)], np.uint64)
        memory = mtl.newBufferWithBytes_length_options_(words, words.nbytes, 0)
        work = mtl.newCommandQueue().commandBuffer()
        encoder = work.computeCommandEncoder()
        encoder.setComputePipelineState_(kit.pipeline("through_memory", mtl))
        encoder.setBuffer_offset_atIndex_(memory, 0, 0)
        encoder.useResource_usage_(image, 1)
        encoder.useResource_usage_(to, 2)
        encoder.dispatchThreads_threadsPerThreadgroup_((8, 8, 1), (8, 8, 1))
        encoder.endEncoding()
        work.commit()
        work.waitUntilCompleted()

    run(kit.texture(mtl, "R32Float", [raw]))
    with pytest.raises(UninitialisedRead, match="nobody has written"):
        run(texture())


def test_memory_used_again_has_no_texels() -> None:
    """What a texture before it left behind in the same memory is nobody's."""
    for _ in range(3):
        made = fill(texture(), (0, 0, 0), (8, 4, 1))
        read(made, (0, 3, 0, 0))
        with pytest.raises(UninitialisedRead):
            read(made, (0, 4, 0, 0))
        del made


def test_private_textures_are_written_by_kernels() -> None:
    asked = Metal.MTLTextureDescriptor.texture2DDescriptorWithPixelFormat_width_height_mipmapped_(
        kit.format_number("R32Float"), 8, 8, False
    )
    asked.setUsage_(3)
    asked.setResourceOptions_(_PRIVATE)
    made = kit.device(checked=True).newTextureWithDescriptor_(asked)
    with pytest.raises(UninitialisedRead):
        read(made, (0, 0, 0, 0))
    read(written_by_a_kernel(made, 8), (7, 7, 0, 0))

"""Texture and sampler objects: descriptors, views, regions, buffers' textures, and what is refused."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.checked import MissingBarrier, OutOfBounds

from . import texture_kit as kit
from . import texture_model as model


def described(**values: Any) -> Any:
    asked = Metal.MTLTextureDescriptor.alloc().init()
    for name, value in values.items():
        getattr(asked, f"set{name}_")(value)
    return asked


def test_a_texture_says_what_it_is() -> None:
    texture = kit.texture(
        kit.device(), "RG16Float", [np.zeros((2, 6 >> n, 8 >> n, 2), np.float16) for n in range(3)], 3
    )
    assert (texture.width(), texture.height(), texture.depth(), texture.arrayLength(), texture.mipmapLevelCount()) == (
        8,
        6,
        1,
        2,
        3,
    )
    assert texture.pixelFormat() == Metal.MTLPixelFormatRG16Float
    assert texture.textureType() == Metal.MTLTextureType2DArray
    cube = Metal.MTLTextureDescriptor.textureCubeDescriptorWithPixelFormat_size_mipmapped_(70, 8, True)
    assert kit.device().newTextureWithDescriptor_(cube).mipmapLevelCount() == 4


def test_memory_of_textures_is_counted_and_comes_back() -> None:
    mtl = kit.device()
    gc.collect()  # what earlier tests dropped is not counted
    before = mtl.currentAllocatedSize()
    texture = mtl.newTextureWithDescriptor_(described(Width=256, Height=256))
    assert mtl.currentAllocatedSize() == before + 256 * 256 * 4
    view = texture.newTextureViewWithPixelFormat_(Metal.MTLPixelFormatRGBA8Unorm)
    del texture
    assert mtl.currentAllocatedSize() > before  # the view holds it
    del view
    assert mtl.currentAllocatedSize() == before


def test_views_share_texels() -> None:
    mtl = kit.device()
    raw = np.arange(3 * 4 * 4 * 4, dtype=np.uint8).reshape(3, 4, 4, 4)
    levels = [raw, raw[:, :2, :2] + 100]
    texture = kit.texture(mtl, "RGBA8Unorm", levels, Metal.MTLTextureType2DArray, usage=1 | 2 | 16)
    part = texture.newTextureViewWithPixelFormat_textureType_levels_slices_(
        Metal.MTLPixelFormatR32Uint, Metal.MTLTextureType2D, (1, 1), (2, 1)
    )
    assert (part.width(), part.height(), part.parentTexture()) == (2, 2, texture)
    at = np.array([[0, 0, 0, 0], [1, 1, 0, 0]], np.uint32)
    _, given = kit.run(mtl, "read2d_uint", (2,), [part], [at, np.zeros((2, 4), np.uint32)])
    wanted = levels[1][2].copy().view(np.uint32)[..., 0]
    assert given[:, 0].tolist() == [wanted[0, 0], wanted[1, 1]]


def test_a_texture_of_a_buffer_is_its_bytes() -> None:
    mtl = kit.device()
    memory = mtl.newBufferWithLength_options_(1024, 0)
    asked = described(PixelFormat=Metal.MTLPixelFormatR32Float, Width=5, Height=3, Usage=3)
    texture = memory.newTextureWithDescriptor_offset_bytesPerRow_(asked, 64, 32)
    assert (texture.buffer(), texture.bufferOffset(), texture.bufferBytesPerRow()) == (memory, 64, 32)
    values = np.arange(60, dtype=np.float32).reshape(15, 4)
    kit.run(mtl, "write2d_float", (5, 3), [texture], [values])
    rows = np.frombuffer(memory.contents().as_buffer(1024), np.float32)[16:40].reshape(3, 8)
    np.testing.assert_array_equal(rows[:, :5], values[:, 0].reshape(3, 5))
    assert not rows[:, 5:].any()


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ({"Width": 0}, "1 to"),
        ({"Width": 16385}, "1 to"),
        ({"Height": 4, "TextureType": 0}, "1 to"),
        ({"PixelFormat": 160}, "not supported by software Metal, which has"),
        ({"MipmapLevelCount": 5, "Width": 8, "Height": 8}, "has 1 to 4"),
        ({"ArrayLength": 2}, "no array"),
        ({"TextureType": 5, "Width": 4, "Height": 2}, "squares"),
        ({"TextureType": 4}, "1 samples: expected"),
        ({"TextureType": 3, "ArrayLength": 2049}, "1 to 2048"),
    ],
)
def test_descriptors_that_are_refused(values: dict[str, int], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        kit.device().newTextureWithDescriptor_(described(**values))


def test_regions_that_are_refused() -> None:
    texture = kit.device().newTextureWithDescriptor_(described(Width=8, Height=8))
    with pytest.raises(ValueError, match="level 0 has"):
        texture.replaceRegion_mipmapLevel_withBytes_bytesPerRow_(((4, 0, 0), (5, 1, 1)), 0, bytes(64), 32)
    with pytest.raises(ValueError, match="8 texels take 32 bytes"):
        texture.replaceRegion_mipmapLevel_withBytes_bytesPerRow_(((0, 0, 0), (8, 1, 1)), 0, bytes(64), 16)
    with pytest.raises(ValueError, match="fewer than the"):
        texture.replaceRegion_mipmapLevel_withBytes_bytesPerRow_(((0, 0, 0), (8, 8, 1)), 0, bytes(64), 32)
    with pytest.raises(ValueError, match="cannot be written"):
        texture.getBytes_bytesPerRow_fromRegion_mipmapLevel_(bytes(256), 32, ((0, 0, 0), (8, 8, 1)), 0)
    with pytest.raises(ValueError, match="1 levels and 1 slices"):
        texture.getBytes_bytesPerRow_fromRegion_mipmapLevel_(bytearray(256), 32, ((0, 0, 0), (8, 8, 1)), 1)
    hidden = kit.device().newTextureWithDescriptor_(described(Width=8, Height=8, StorageMode=2))
    with pytest.raises(Metal.MetalMisuse, match="private storage"):
        hidden.getBytes_bytesPerRow_fromRegion_mipmapLevel_(bytearray(256), 32, ((0, 0, 0), (8, 8, 1)), 0)


def test_buffers_textures_that_are_refused() -> None:
    memory = kit.device().newBufferWithLength_options_(1024, 0)
    make = memory.newTextureWithDescriptor_offset_bytesPerRow_
    for values, offset, row, match in (
        ({"Width": 8}, 8, 32, "multiples of 16"),
        ({"Width": 8}, 0, 16, "8 texels take 32"),
        ({"Width": 8, "Height": 40}, 0, 32, "reaches beyond"),
        ({"Width": 8, "TextureType": 7}, 0, 32, "1D, 2D or a texture buffer"),
        ({"Width": 8, "StorageMode": 2}, 0, 32, "storage mode"),
    ):
        with pytest.raises(ValueError, match=match):
            make(described(**values), offset, row)


def test_views_that_are_refused() -> None:
    texture = kit.device().newTextureWithDescriptor_(described(Width=8, Height=8))
    with pytest.raises(ValueError, match="16 and 4 bytes"):
        texture.newTextureViewWithPixelFormat_(Metal.MTLPixelFormatRGBA32Float)
    with pytest.raises(Metal.MetalMisuse, match="PixelFormatView"):
        texture.newTextureViewWithPixelFormat_(Metal.MTLPixelFormatR32Float)


def test_samplers_that_are_refused() -> None:
    mtl = kit.device()
    with pytest.raises(ValueError, match="coordinates in pixels"):
        kit.sampler(mtl, model.Sampler(modes=(2, 2, 2), pixel=True))
    asked = Metal.MTLSamplerDescriptor.alloc().init()
    with pytest.raises(ValueError, match="expected 0 to 5"):
        asked.setSAddressMode_(6)
    asked.setLodMinClamp_(2.0)
    asked.setLodMaxClamp_(1.0)
    with pytest.raises(ValueError, match="lodMinClamp"):
        mtl.newSamplerStateWithDescriptor_(asked)


def launch(name: str, textures: list[Any], *, look: Any = None, mtl: Any = None) -> None:
    mtl = mtl or kit.device()
    buffers = [np.zeros((2, 4), np.uint32), np.zeros((2, 4), np.float32), np.zeros(2, np.int32)]
    kit.run(mtl, name, (2,), textures, buffers, look)


def test_launches_that_are_refused() -> None:
    mtl = kit.device()
    floats, ints = (kit.texture(mtl, f"R32{k}", [np.zeros((1, 4, 4, 1), np.int32)]) for k in ("Float", "Sint"))
    with pytest.raises(Metal.MetalMisuse, match=r"nothing is bound to texture 't' \(index 0\)"):
        launch("read2d_float", [])
    with pytest.raises(ValueError, match="format R32Sint hold int"):
        launch("read2d_float", [ints])
    block = kit.texture(mtl, "R32Float", [np.zeros((4, 4, 4, 1), np.float32)], Metal.MTLTextureType3D)
    with pytest.raises(ValueError, match="texture3d is bound"):
        launch("read2d_float", [block])
    with pytest.raises(Metal.MetalMisuse, match="nothing is bound to sampler 's'"):
        launch("sample2d_float", [floats])
    only_read = kit.texture(mtl, "R32Float", [np.zeros((1, 4, 4, 1), np.float32)], usage=1)
    with pytest.raises(ValueError, match="usage 1, expected 2"):
        launch("write2d_float", [only_read])
    encoder = mtl.newCommandQueue().commandBuffer().computeCommandEncoder()
    with pytest.raises(ValueError, match="texture index 128: expected 0 to 127"):
        encoder.setTexture_atIndex_(floats, 128)
    with pytest.raises(TypeError, match="expected a MTLTexture"):
        encoder.setTexture_atIndex_("t", 0)
    encoder.endEncoding()


def test_textures_are_no_part_of_indirect_commands() -> None:
    mtl = kit.device()
    asked = Metal.MTLComputePipelineDescriptor.alloc().init()
    asked.setComputeFunction_(kit._library(mtl).newFunctionWithName_("shifted"))
    asked.setSupportIndirectCommandBuffers_(True)
    pipeline, _, error = mtl.newComputePipelineStateWithDescriptor_options_reflection_error_(asked, 0, None, None)
    assert pipeline is None
    assert "indirect command buffers" in error.localizedDescription()


def test_reflection() -> None:
    bindings = kit.pipeline("sample2d_half", kit.device()).reflection().bindings()
    image, look = bindings[0], bindings[1]
    assert (image.name(), image.type(), image.access()) == ("t", Metal.MTLBindingTypeTexture, 0)
    assert (image.textureType(), image.textureDataType()) == (Metal.MTLTextureType2D, Metal.MTLDataTypeHalf)
    assert (look.name(), look.type(), look.index()) == ("s", Metal.MTLBindingTypeSampler, 0)
    (binding,) = kit.pipeline("shifted", kit.device()).reflection().bindings()
    assert binding.access() == Metal.MTLBindingAccessReadWrite


@pytest.mark.parametrize(("far", "axis", "limit"), [((8, 0), "x", 8), ((0, 8), "y", 8)])
def test_checked_mode_reports_coordinates_out_of_range(far: tuple[int, int], axis: str, limit: int) -> None:
    mtl = kit.device(checked=True)
    textures = [kit.texture(mtl, "R32Float", [np.zeros((1, 8, 8, 1), np.float32)]) for _ in range(2)]
    with pytest.raises(OutOfBounds, match=f"outside of a texture: {axis} is {limit}, expected less than {limit}"):
        kit.run(mtl, "beyond", (1,), textures, [np.array(far, np.uint32)])
    kit.run(mtl, "beyond", (8, 8), textures, [np.zeros(2, np.uint32)])


def test_without_checks_nothing_is_beyond() -> None:
    mtl = kit.device(checked=False)
    textures = [kit.texture(mtl, "R32Float", [np.ones((1, 8, 8, 1), np.float32)]) for _ in range(2)]
    kit.run(mtl, "beyond", (8, 8), textures, [np.array([4, 0], np.uint32)])
    given = kit.texels(textures[1], np.zeros((1, 8, 8, 1), np.float32))
    assert given[:, 4:].min() == given[:, 4:].max() == 2
    assert given[:, :4].min() == 1


def two_writes(scope: int | None) -> None:
    """A texture written by two dispatches of a concurrent pass, with a barrier of some scope between them."""
    mtl = kit.device(checked=True)
    texture = kit.texture(mtl, "R32Float", [np.zeros((1, 8, 8, 1), np.float32)])
    work = mtl.newCommandQueue().commandBuffer()
    encoder = work.computeCommandEncoderWithDispatchType_(Metal.MTLDispatchTypeConcurrent)
    encoder.setComputePipelineState_(kit.pipeline("shifted", mtl))
    encoder.setTexture_atIndex_(texture, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((8, 8, 1), (8, 8, 1))
    if scope is not None:
        encoder.memoryBarrierWithScope_(scope)
    encoder.dispatchThreads_threadsPerThreadgroup_((8, 8, 1), (8, 8, 1))
    encoder.endEncoding()
    work.commit()
    work.waitUntilCompleted()


@pytest.mark.parametrize("scope", [None, Metal.MTLBarrierScopeBuffers])
def test_checked_mode_misses_a_barrier_for_textures(scope: int | None) -> None:
    with pytest.raises(MissingBarrier):
        two_writes(scope)


@pytest.mark.parametrize("scope", [Metal.MTLBarrierScopeTextures, 3])
def test_a_barrier_for_textures_orders_them(scope: int) -> None:
    two_writes(scope)


def test_a_texture_released_too_early_fails_the_command_buffer() -> None:
    mtl = kit.device()
    texture = kit.texture(mtl, "R32Float", [np.zeros((1, 8, 8, 1), np.float32)])
    work = mtl.newCommandQueue().commandBufferWithUnretainedReferences()
    encoder = work.computeCommandEncoder()
    encoder.setComputePipelineState_(kit.pipeline("shifted", mtl))
    encoder.setTexture_atIndex_(texture, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((8, 8, 1), (8, 8, 1))
    encoder.endEncoding()
    del texture
    work.commit()
    work.waitUntilCompleted()
    assert "texture 't' (index 0) was released" in work.error().localizedDescription()

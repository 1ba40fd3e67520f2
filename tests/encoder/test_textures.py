"""Textures and samplers as arguments of kernels: numpy in and out, barriers, plans, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kit.encoding import names, record, soft_device

from mlx_native_py import CommandBufferError, InvalidArgument, MlxDevice, MlxError

SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void flip(texture2d<float, access::read> from, texture2d<float, access::write> to,
                 uint2 at [[thread_position_in_grid]]) {
  to.write(from.read(uint2(from.get_width() - 1 - at.x, at.y)), at);
}
kernel void half_step(texture2d<float> from, sampler look, texture2d<float, access::write> to, constant float &gain,
                      uint2 at [[thread_position_in_grid]]) {
  to.write(gain * from.sample(look, (float2(at) + 1.0f) / float2(from.get_width(), from.get_height())), at);
}
kernel void count(device float *x, uint i [[thread_position_in_grid]]) { x[i] = i; }
kernel void twice(texture2d<float, access::read_write> image, uint2 at [[thread_position_in_grid]]) {
  image.write(image.read(at) * 2.0f, at);
}
kernel void shifted(texture2d<uint, access::read> from, texture2d<uint, access::write> to, constant uint &by,
                    uint2 at [[thread_position_in_grid]]) { to.write(from.read(at + uint2(by, 0)), at); }
"""


def library(device: MlxDevice) -> Any:
    return device.compile(SOURCE)


IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.float16, np.float32])
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_numpy_in_and_out(device: MlxDevice, dtype: Any, channels: int) -> None:
    image = (np.random.default_rng(0).uniform(-100, 100, (5, 7, channels))).astype(np.int8).astype(dtype)
    texture = device.texture(image)
    assert (texture.shape, texture.width, texture.height) == ((5, 7, channels), 7, 5)
    np.testing.assert_array_equal(texture.numpy(), image)
    flipped = device.empty_texture(image.shape, dtype)
    library(device).flip(texture, flipped)
    np.testing.assert_array_equal(np.asarray(flipped), image[:, ::-1])


def test_integers_by_a_format_of_their_own(device: MlxDevice) -> None:
    image = np.arange(16, dtype=np.uint8).reshape(2, 2, 4)
    texture, to = (device.texture(image, format="RGBA8Uint") for _ in range(2))
    library(device).shifted(texture, to, 1)
    np.testing.assert_array_equal(to.numpy(), np.stack([image[:, 1], 0 * image[:, 1]], 1))


def test_arguments_find_their_places_by_type_and_by_name(device: MlxDevice) -> None:
    lib = library(device)
    texture, look = device.texture(IMAGE), device.sampler(filter="linear")
    results = [device.empty_texture(IMAGE.shape) for _ in range(3)]
    lib.half_step(texture, look, results[0], 2.0)
    lib.half_step(2.0, texture, results[1], look)
    lib.half_step(texture, to=results[2], gain=2.0, look=look)
    edge = np.pad(IMAGE, ((0, 1), (0, 1)), mode="edge")
    wanted = (edge[:-1, :-1] + edge[1:, :-1] + edge[:-1, 1:] + edge[1:, 1:]) / 2
    for result in results:
        np.testing.assert_allclose(result.numpy()[..., 0], wanted)


def test_barriers_between_textures_and_the_buffers_below_them(device: MlxDevice) -> None:
    lib = library(device)
    buffer = device.empty((4, 4), "f32")
    over, other = device.texture(buffer), device.empty_texture((4, 4))
    with device.command_encoder() as enc:
        enc.dispatch(lib.count, buffer, threads=16)
        enc.dispatch(lib.flip, over, other, threads=(4, 4))
        enc.dispatch(lib.twice, over, threads=(4, 4))
        enc.dispatch(lib.flip, other, over, threads=(4, 4))
    hazards = [barrier.hazard for barrier in enc.barriers]
    assert [hazard.kind.name for hazard in hazards if hazard] == ["RAW", "WAR", "WAW"]
    np.testing.assert_array_equal(buffer.numpy(), np.arange(16).reshape(4, 4))


@pytest.mark.soft
def test_barriers_speak_of_textures_once_there_are_any() -> None:
    with soft_device() as device:
        log, lib = record(device), library(device)
        buffer = device.empty((4, 4), "f32")
        with device.command_encoder() as enc:
            enc.dispatch(lib.count, buffer, threads=16)
            enc.dispatch(lib.count, buffer, threads=16)
            texture = device.texture(buffer)  # younger than the pass
            enc.dispatch(lib.twice, texture, threads=(4, 4))
            enc.dispatch(lib.twice, texture, threads=(4, 4))
        assert [args[0] for name, args in log if name == "memoryBarrierWithScope_"][-1] == 3
        assert names(log).count("setTexture_atIndex_") == 1  # what is bound already is not sent
    np.testing.assert_array_equal(texture.numpy(wait=False)[..., 0], 4 * np.arange(16).reshape(4, 4))


@pytest.mark.soft
@pytest.mark.parametrize("schedule", ["reversed", "shuffled:3"])
def test_no_hazard_is_missed_in_checked_mode(schedule: Any) -> None:
    with soft_device(checked=True, schedule=schedule) as device:
        lib = library(device)
        image, other = device.texture(IMAGE), device.empty_texture(IMAGE.shape)
        with device.command_encoder() as enc:
            for _ in range(3):
                enc.dispatch(lib.twice, image, threads=(4, 3))
                enc.dispatch(lib.flip, image, other, threads=(4, 3))
                enc.dispatch(lib.flip, other, image, threads=(4, 3))
        np.testing.assert_array_equal(image.numpy()[..., 0], 8 * IMAGE)
        with pytest.raises(CommandBufferError, match="outside of a texture: x is 4, expected less than 4"):
            integers = device.texture(IMAGE.astype(np.uint32))
            lib.shifted(integers, device.empty_texture(IMAGE.shape, "u32"), 1)


def test_plans_replay_textures(device: MlxDevice) -> None:
    lib = library(device)
    image, other, look = device.texture(IMAGE), device.empty_texture(IMAGE.shape), device.sampler()
    with device.capture() as g:
        g.encoder.dispatch(lib.twice, image, threads=(4, 3))
        g.encoder.dispatch(lib.flip, image, other, threads=(4, 3))
        g.encoder.dispatch(lib.half_step, other, look, image, 1.0, threads=(4, 3))
    plan = g.plan(scalars=["gain"])
    reason = "takes textures" if device.capabilities.indirect_command_buffers else "has no indirect command buffers"
    assert not plan.is_indirect
    assert reason in plan.declined
    plan.scalars("gain").set(3.0)
    plan.run()
    edge = np.pad(2 * IMAGE[:, ::-1], ((0, 1), (0, 1)), mode="edge")
    np.testing.assert_array_equal(image.numpy()[..., 0], 3 * edge[1:, 1:])
    with pytest.raises(InvalidArgument, match=reason):
        g.plan(indirect=True)


def test_graphs_with_textures_are_not_saved(device: MlxDevice, tmp_path: Any) -> None:
    with device.capture() as g:
        g.encoder.dispatch(library(device).twice, device.texture(IMAGE), threads=(4, 3))
    with pytest.raises(MlxError, match="takes textures; such graphs cannot be saved"):
        g.save(tmp_path / "graph")


def test_what_no_texture_can_be(device: MlxDevice) -> None:
    for source, match in (
        (np.zeros((2, 2, 3), np.uint8), "1, 2 or 4 channels, not 3"),
        (np.zeros(4, np.float32), r"\(height, width\) or \(height, width, channels\)"),
        (np.zeros((2, 2), np.int64), "no texture holds"),
        (np.zeros((1, 16385), np.uint8), "1 to 16384"),
    ):
        with pytest.raises(InvalidArgument, match=match):
            device.texture(source)
    with pytest.raises(InvalidArgument, match="is not a supported texture format"):
        device.texture(IMAGE, format="Floats")
    with pytest.raises(InvalidArgument, match=r"RGBA32Float holds 4 x f32, but was given 1 x f32"):
        device.texture(IMAGE, format="RGBA32Float")
    with pytest.raises(InvalidArgument, match=r"copies them"):
        device.texture(device.empty((3, 3), "f32"))
    with pytest.raises(InvalidArgument, match=r"takes f32\[3, 4, 1\]"):
        device.texture(IMAGE).copy_from(IMAGE.T)
    with pytest.raises(InvalidArgument, match="there are nearest, linear"):
        device.sampler(filter="cubic")
    with pytest.raises(InvalidArgument, match="coord='pixel' goes with"):
        device.sampler(coord="pixel", address="repeat")


def test_launches_that_are_refused(device: MlxDevice) -> None:
    lib, image = library(device), device.texture(IMAGE)
    refused: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: lib.flip(image), r"takes 2 textures \('from', 'to'\); 1 were given"),
        (lambda: lib.half_step(image, image, 1.0), r"takes 1 samplers \('look'\); 0 were given"),
        (lambda: lib.half_step(image, image, device.sampler()), "takes 1 arguments by slot"),
        (lambda: lib.twice(device.texture(IMAGE.astype(np.int32))), "holds float; kernels see int"),
        (lambda: lib.twice(image, image=image), "one argument too many"),
        (lambda: lib.twice(picture=image), "lacks 'image'|has no argument 'picture'"),
    )
    for call, match in refused:
        with pytest.raises(InvalidArgument, match=match):
            call()
    np.testing.assert_array_equal(image.numpy()[..., 0], IMAGE)

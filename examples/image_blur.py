"""Blurs an image by rows and columns, and makes it half as large, by kernels on textures; compares with numpy."""

import sys

import numpy as np

from mlx_native_py import MlxDevice

SOURCE = """
#include <metal_stdlib>
using namespace metal;

// One direction of a Gaussian blur; beyond the edge, the nearest texel counts.
kernel void blur(texture2d<float, access::read> from, texture2d<float, access::write> to, constant float *weights,
                 constant int &radius, constant int2 &step, uint2 at [[thread_position_in_grid]]) {
  int2 last = int2(from.get_width() - 1, from.get_height() - 1);
  float4 sum = 0;
  for (int i = -radius; i <= radius; i++)
    sum += weights[i + radius] * from.read(uint2(clamp(int2(at) + i * step, int2(0), last)));
  to.write(sum, at);
}

// Between four texels, a linear filter gives their mean.
kernel void resize(texture2d<float> from, sampler linear, texture2d<float, access::write> to,
                   uint2 at [[thread_position_in_grid]]) {
  to.write(from.sample(linear, (float2(at) + 0.5f) / float2(to.get_width(), to.get_height())), at);
}
"""
HEIGHT, WIDTH, RADIUS = 192, 256, 6


def picture() -> np.ndarray:
    """Coloured rings as bytes, opaque."""
    y, x = np.mgrid[-1 : 1 : HEIGHT * 1j, -1 : 1 : WIDTH * 1j]
    colours = [np.sin(20 * np.hypot(x, y) + phase) for phase in (0, 2, 4)]
    image = np.stack([*colours, np.ones_like(x)], -1)
    return np.rint((image * 0.5 + 0.5) * 255).astype(np.uint8)


def blurred_by_numpy(image: np.ndarray, weights: np.ndarray) -> np.ndarray:
    for axis in (1, 0):
        width = [(RADIUS, RADIUS) if axis == each else (0, 0) for each in range(3)]
        padded = np.pad(image, width, mode="edge")
        parts = (np.take(padded, range(i, i + image.shape[axis]), axis) for i in range(len(weights)))
        image = sum(weight * part for weight, part in zip(weights, parts, strict=True))
    return image


def main() -> int:
    weights = np.exp(-np.square(np.arange(-RADIUS, RADIUS + 1)) / 18).astype(np.float32)
    weights /= weights.sum()
    image = picture()
    with MlxDevice() as device:
        lib = device.compile(SOURCE)
        source = device.texture(image)
        rows, whole = (device.empty_texture(image.shape, "f32") for _ in range(2))
        small = device.empty_texture((HEIGHT // 2, WIDTH // 2, 4), "u8")
        taps, linear = device.buffer(weights), device.sampler(filter="linear")
        with device.command_encoder() as enc:
            enc.dispatch(lib.blur, source, rows, taps, RADIUS, (1, 0), threads=(WIDTH, HEIGHT))
            enc.dispatch(lib.blur, rows, whole, taps, RADIUS, (0, 1), threads=(WIDTH, HEIGHT))
            enc.dispatch(lib.resize, whole, linear, small, threads=(WIDTH // 2, HEIGHT // 2))
        wanted = blurred_by_numpy(image / np.float32(255), weights)
        means = wanted.reshape(HEIGHT // 2, 2, WIDTH // 2, 2, 4).mean((1, 3))
        blur_error = float(np.abs(whole.numpy() - wanted).max())
        resize_error = float(np.abs(small.numpy() / 255 - means).max())
        right = blur_error < 1e-5 and resize_error < 0.51 / 255
        print(f"blur      {source!r}, largest difference {blur_error:.1e}")
        print(f"resize    {small!r}, largest difference {resize_error * 255:.2f} of 255")
        print(f"barriers  {len(enc.barriers)}, placed by themselves ({'right' if right else 'WRONG'})")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

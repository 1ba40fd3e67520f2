"""Measures what it costs to encode one dispatch: many of them, of a kernel that does next to nothing, in one CB."""

import argparse
import statistics
import time

from mlx_native_py import DType, MlxDevice, settings

COUNTS = (10, 50, 100, 500, 1_000, 5_000)
QUICK = (10, 50, 100)


def encode_and_run(device: MlxDevice, count: int) -> tuple[float, float]:
    """Milliseconds for encoding `count` dispatches, and for committing them and waiting."""
    scalar_mul = device.kernels.get_pipeline("scalar_mul_bf16")
    x, out = device.alloc_buffer(2, DType.BF16, 1), device.alloc_buffer(2, DType.BF16, 1)
    with device.command_encoder() as enc:
        begin = time.perf_counter()
        for _ in range(count):
            enc.dispatch(scalar_mul, x, out, 1.0, 1, threads=1)
        encoded = time.perf_counter()
        enc.commit_and_wait()
        return (encoded - begin) * 1e3, (time.perf_counter() - encoded) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    repeats = 3 if quick else 5
    with MlxDevice() as device:
        encode_and_run(device, 10)  # compiles the kernel
        barriers = "a barrier before each" if settings.current().auto_barrier else "no barriers"
        print(f"scalar_mul_bf16 on one element, {barriers}, median of {repeats}; measured on {device.name}")
        print()
        print("| N        | encode_ms (med) | commit_ms (med) | µs/dispatch (encode) |")
        print("|---------:|----------------:|----------------:|---------------------:|")
        for count in QUICK if quick else COUNTS:
            runs = [encode_and_run(device, count) for _ in range(repeats)]
            encode, commit = (statistics.median(times) for times in zip(*runs, strict=True))
            print(f"| {count:>8} | {encode:>15.3f} | {commit:>15.3f} | {encode * 1e3 / count:>20.3f} |")


if __name__ == "__main__":
    main()

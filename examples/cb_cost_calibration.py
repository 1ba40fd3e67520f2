"""Measures what a command buffer costs: many with one tiny dispatch each, waited for one by one or all at the end."""

import argparse
import statistics
import time

from mlx_native_py import DType, MlxDevice

COUNTS = (1, 10, 50, 100, 500)
QUICK = (1, 10, 50)


def run(device: MlxDevice, count: int, *, wait_each: bool) -> float:
    """Milliseconds for `count` command buffers."""
    scalar_mul = device.kernels.get_pipeline("scalar_mul_bf16")
    x, out = device.alloc_buffer(2, DType.BF16, 1), device.alloc_buffer(2, DType.BF16, 1)
    begin = time.perf_counter()
    for _ in range(count):
        enc = device.command_encoder()
        enc.dispatch(scalar_mul, x, out, 1.0, 1, threads=1)
        ticket = enc.commit()
        if wait_each:
            ticket.wait()
    # A queue runs its command buffers in order, so the last one's end is everyone's.
    ticket.wait()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    repeats = 3 if quick else 5
    with MlxDevice() as device:
        run(device, 1, wait_each=True)  # compiles the kernel
        print(f"one scalar_mul_bf16 per command buffer, median of {repeats}; measured on {device.name}")
        print()
        print("| N        | sync_ms (med)   | async_ms (med)  | µs/CB (sync) | µs/CB (async) |")
        print("|---------:|----------------:|----------------:|-------------:|--------------:|")
        for count in QUICK if quick else COUNTS:
            sync = statistics.median(run(device, count, wait_each=True) for _ in range(repeats))
            free = statistics.median(run(device, count, wait_each=False) for _ in range(repeats))
            each = f"{sync * 1e3 / count:>12.1f} | {free * 1e3 / count:>13.1f}"
            print(f"| {count:>8} | {sync:>15.3f} | {free:>15.3f} | {each} |")


if __name__ == "__main__":
    main()

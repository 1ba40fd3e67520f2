"""Measures what a command buffer costs: many with one tiny dispatch each, waited for at the end or one by one."""

import argparse
import statistics
import time

from mlx_native_py import DType, MlxBuffer, MlxDevice

COUNTS = (10, 50, 100, 500, 1_000)
QUICK = (10, 50)
REGIMES = ("async", "sync", "alloc")


def one(device: MlxDevice) -> MlxBuffer:
    return device.alloc_buffer(2, DType.BF16, 1)


def run(device: MlxDevice, count: int, regime: str) -> float:
    """Microseconds per command buffer: not waited for, waited for each time, or with a new output each time."""
    scalar_mul = device.kernels.get_pipeline("scalar_mul_bf16")
    x, out = one(device), one(device)
    begin = time.perf_counter()
    for _ in range(count):
        enc = device.command_encoder()
        enc.dispatch(scalar_mul, x, one(device) if regime == "alloc" else out, 1.0, 1, threads=1)
        ticket = enc.commit()
        if regime == "sync":
            ticket.wait()
    # A queue runs its command buffers in order, so the last one's end is everyone's.
    ticket.wait()
    return (time.perf_counter() - begin) * 1e6 / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    quick = parser.parse_args().quick
    repeats = 3 if quick else 5
    with MlxDevice() as device:
        run(device, 1, "sync")  # compiles the kernel
        print(f"one scalar_mul_bf16 per command buffer, median of {repeats}; measured on {device.name}")
        print()
        print("| N        | async µs/CB (med) | sync µs/CB (med)  | alloc µs/CB (med) |")
        print("|---------:|------------------:|------------------:|------------------:|")
        for count in QUICK if quick else COUNTS:
            medians = [statistics.median(run(device, count, regime) for _ in range(repeats)) for regime in REGIMES]
            print(f"| {count:>8} | " + " | ".join(f"{each:>17.1f}" for each in medians) + " |")


if __name__ == "__main__":
    main()

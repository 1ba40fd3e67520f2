"""Where the time of a token goes: the kernels of a few decode steps, with their times."""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from mlx_native_py import settings
from mlx_native_py.models import Decoder, load, prompt_ids
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.profiling import kernel_profile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2", help="a path, smollm2, OWNER/NAME on the hub, or tiny")
    parser.add_argument("--tokens", type=int, default=8)
    chosen = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = load(write_tiny(Path(folder)) if chosen.model == "tiny" else chosen.model)
        decoder = Decoder(model, model.make_cache())
        decoder.prefill([prompt_ids(tokenizer, "The capital of France is")])
        decoder.step()  # compiles what is not compiled yet

        kernel_profile.reset()
        with settings.override(profile_cb=True):
            for _ in range(chosen.tokens):
                decoder.step()
        for label, entry in kernel_profile.dump():
            median = entry.percentile(50) / 1e6
            print(f"{label}: {entry.count} command buffers, median {median:.2f} ms, {entry.provenance}")
        print(f"replayed: {decoder.plan}")

        # Dispatches that are timed one by one do not overlap, so their sum is more than a token takes.
        kernel_profile.reset()
        with settings.override(profile_dispatch=True):
            decoder.step()
        times, counts = Counter[str](), Counter[str]()
        for _, entries in kernel_profile.dump_dispatches():
            for each in entries:
                times[each.kernel] += each.gpu_ns
                counts[each.kernel] += 1
        for kernel, ns in times.most_common():
            print(f"{ns / 1e3:10.1f} us  {counts[kernel]:4} x {kernel}")


if __name__ == "__main__":
    main()

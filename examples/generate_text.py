"""Loads a model and has it write, token by token: with `--model smollm2` the real one, with `tiny` a random one."""

import argparse
import tempfile
from pathlib import Path

from mlx_native_py.models import load, stream_generate
from mlx_native_py.models.tiny import write_tiny


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prompt", nargs="?", default="The capital of France is")
    parser.add_argument("--model", default="smollm2", help="a path, smollm2, OWNER/NAME on the hub, or tiny")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--temperature", type=float, default=0.0)
    chosen = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        name = write_tiny(Path(folder)) if chosen.model == "tiny" else chosen.model
        model, tokenizer = load(name)

        print(chosen.prompt, end="")
        options = {"max_tokens": chosen.max_tokens, "temperature": chosen.temperature}
        for piece in stream_generate(model, tokenizer, chosen.prompt, **options):
            print(piece.text, end="", flush=True)

        print(f"\n\nprompt      {piece.prompt_tokens} tokens, {piece.prompt_tps:.1f} tokens/s")
        print(f"generation  {piece.generation_tokens} tokens, {piece.generation_tps:.1f} tokens/s")
        print(f"memory      {piece.peak_memory:.3f} GB, ended by {piece.finish_reason}")


if __name__ == "__main__":
    main()

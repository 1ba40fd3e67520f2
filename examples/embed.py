"""Embeds sentences and says which are alike: with `--model minilm` the real one, with `tiny` a random one."""

import argparse
import tempfile
from pathlib import Path

from mlx_native_py.models import embed, load
from mlx_native_py.models.tiny import write_tiny

SENTENCES = ["The cat sat on the mat.", "A kitten is lying on a rug.", "Interest rates were raised again."]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--model", default="minilm", help="a path, minilm, OWNER/NAME on the hub, or tiny")
    chosen = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        name = write_tiny(Path(folder), "bert") if chosen.model == "tiny" else chosen.model
        model, tokenizer = load(name)
        vectors = embed(model, tokenizer, chosen.sentences)

    # All have length 1, so a product is the cosine of the angle between two.
    for sentence, row in zip(chosen.sentences, vectors @ vectors.T, strict=True):
        print("  ".join(f"{cosine:5.2f}" for cosine in row), f" {sentence}")


if __name__ == "__main__":
    main()

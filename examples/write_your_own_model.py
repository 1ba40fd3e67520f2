"""A model of your own: change a class of a family, and load a file with it; cache, replay and sampling stay."""

import tempfile
from pathlib import Path

from mlx_native_py import Encoder, MlxBuffer
from mlx_native_py.models import Tokenizer, generate, load_model
from mlx_native_py.models.families.llama import Llama, LlamaBlock, LlamaMLP
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.ops import mul, sigmoid


class SigmoidMLP(LlamaMLP):
    """The feed-forward network with the first gated linear unit's sigmoid in place of silu."""

    def gated(self, enc: Encoder, gate: MlxBuffer, up: MlxBuffer) -> MlxBuffer:
        return mul(enc, sigmoid(enc, gate), up)


class SigmoidBlock(LlamaBlock):
    mlp = SigmoidMLP


class SigmoidLlama(Llama):
    block = SigmoidBlock


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_tiny(Path(folder))  # any Llama of yours
        tokenizer = Tokenizer.from_file(path)
        for family in (Llama, SigmoidLlama):
            model = load_model(path, family=family)
            text = generate(model, tokenizer, "Once upon a time", max_tokens=12)
            print(f"{family.__module__}.{family.__name__}: {text!r}")


if __name__ == "__main__":
    main()

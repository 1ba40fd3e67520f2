"""Small vocabularies in the form of GGUF's metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import tokenizers

from mlx_native_py.models.tokenizer.pieces import byte_alphabet

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# A BPE vocabulary that SentencePiece 0.2 made of a few lines about cats.
CATS = """
    at th ▁th ▁the ▁a nd ▁o ▁and ▁c ▁on ▁cat ▁h ▁hat ▁m ▁s ▁mat ▁sat re ▁r ▁of ▁rat ▁that ▁there an ca er ha he ma of on
    ra sa ▁t cat hat ▁ t a h n e d o c m r s , . f
""".split()
LINES = [
    "The capital of France is Paris.",
    "Don't count 12345 or 3.14 things; it's 2026!",
    "naïve café – 你好世界 🙂 \u200d end",
    "  two  spaces\tand\ta tab\n\nand lines\r\n",
    "def f(x):\n    return x ** 2  # code",
]


def metadata(model: str, tokens: list[str], kinds: list[int], **others: Any) -> dict[str, Any]:
    fields = {"model": model, "tokens": tokens, "token_type": kinds, **others}
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items()}


def cats(*extra: tuple[str, int], **others: Any) -> dict[str, Any]:
    """The vocabulary of cats, with further tokens behind it."""
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * len(CATS)
    scores = [0.0] * len(first) + [-float(rank) for rank in range(len(CATS))] + [0.0] * len(extra)
    roles = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "scores": scores}
    return metadata(
        "llama", [*first, *CATS, *(name for name, _ in extra)], [*kinds, *(k for _, k in extra)], **roles | others
    )


def trained(lines: Iterable[str], cut: Any, size: int = 400) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Byte-level BPE of some lines: the vocabulary and the merges."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE())
    core.pre_tokenizer = cut
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(byte_alphabet()), show_progress=False
    )
    core.train_from_iterator(lines, trainer)
    model = json.loads(core.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


def byte_level(
    pre: str, vocab: dict[str, int], merges: list[tuple[str, str]], *extra: str, **others: Any
) -> dict[str, Any]:
    """That as metadata, with control tokens behind it."""
    names = [name for name, _ in sorted(vocab.items(), key=lambda pair: pair[1])]
    kinds = [NORMAL] * len(names) + [CONTROL] * len(extra)
    return metadata("gpt2", [*names, *extra], kinds, pre=pre, merges=[" ".join(merge) for merge in merges], **others)


WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "▁play",
    "ing",
    "ed",
    "▁the",
    "▁cat",
    "s",
    "▁,",
    "▁resume",
    "▁你",
]


def words(**others: Any) -> dict[str, Any]:
    """A WordPiece vocabulary."""
    roles = {"bos_token_id": 2, "seperator_token_id": 3, "unknown_token_id": 1, "padding_token_id": 0}
    return metadata("bert", WORDS, [CONTROL] * 5 + [NORMAL] * (len(WORDS) - 5), **roles | others)

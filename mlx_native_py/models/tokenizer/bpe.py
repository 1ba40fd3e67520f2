"""Byte-level BPE from GGUF files: pre-tokenizer regular expressions by family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import ModelFileError
from ..extras import extra
from .vocabulary import GgufVocabulary, Kind

__all__ = ["PRE_TOKENIZERS", "PreTokenizer", "add_special", "byte_level_bpe"]

_SUFFIXES = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_SUFFIXES}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_LINES = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _cl100k(digits: str, letters: str = r"\p{L}", others: str = r"[^\s\p{L}\p{N}]") -> str:
    return rf"(?i:{_SUFFIXES})|[^\r\n\p{{L}}\p{{N}}]?{letters}+|{digits}| ?{others}+[\r\n]*|{_LINES}"


def _o200k(digits: str, suffixes: str) -> str:
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{start}{upper}*{lower}+{suffixes}|{start}{upper}+{lower}*{suffixes}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_LINES}"


_DEEPSEEK_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
    + _LINES
)


@dataclass(frozen=True)
class PreTokenizer:
    """How text is split before merging; each expression splits what the previous one left."""

    splits: tuple[str, ...]
    whole_words: bool = False
    """A piece that is a token itself skips the merges."""
    add_bos: bool = False


_FAMILIES: tuple[tuple[str, PreTokenizer], ...] = (
    (
        "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum modern-bert roberta-bpe jina-v1-en "
        "jina-v2-code mpt olmo jais trillion granite-docling exaone4",
        PreTokenizer((_GPT2,)),
    ),
    ("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", PreTokenizer((r"\p{N}", _GPT2))),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        PreTokenizer((_cl100k(r"\p{N}{1,3}"),), whole_words=True, add_bos=True),
    ),
    ("dbrx smaug-bpe glm4 chatglm-bpe", PreTokenizer((_cl100k(r"\p{N}{1,3}"),))),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
        PreTokenizer((_cl100k(r"\p{N}"),)),
    ),
    ("qwen35", PreTokenizer((_cl100k(r"\p{N}", r"[\p{L}\p{M}]", r"[^\s\p{L}\p{M}\p{N}]"),))),
    ("tekken", PreTokenizer((_o200k(r"\p{N}", ""),), whole_words=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 minimax-m2", PreTokenizer((_o200k(r"\p{N}{1,3}", f"(?i:{_SUFFIXES})?"),))),
    (
        "deepseek-v3 hunyuan-dense joyai-llm",
        PreTokenizer((r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_WORDS)),
    ),
    (
        "deepseek-coder",
        PreTokenizer(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}")),
    ),
    ("falcon", PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"))),
    ("default", PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
)
PRE_TOKENIZERS = {name: family for names, family in _FAMILIES for name in names.split()}


def byte_level_bpe(vocabulary: GgufVocabulary) -> tuple[Any, PreTokenizer]:
    """The tokenizer of a file with model `gpt2`, and its pre-tokenizer."""
    name = vocabulary.text("pre", "default")
    if name not in PRE_TOKENIZERS:
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise vocabulary.error("pre", f"{name!r:.60} is not a known pre-tokeniser; there are: {known}")
    cut = PRE_TOKENIZERS[name]
    tokenizers = extra("tokenizers")
    ids = vocabulary.ids_by_name()
    try:
        model = tokenizers.models.BPE(vocab=ids, merges=_merges(vocabulary, ids), ignore_merges=cut.whole_words)
    except ModelFileError:
        raise
    except Exception as reason:
        raise vocabulary.error("merges", str(reason)) from None
    core = tokenizers.Tokenizer(model)
    splits = [tokenizers.pre_tokenizers.Split(tokenizers.Regex(each), "isolated") for each in cut.splits]
    bytes_of = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([*splits, bytes_of])
    add_special(core, vocabulary)
    return core, cut


def add_special(core: Any, vocabulary: GgufVocabulary) -> None:
    """Adds control and user-defined tokens, which are matched before the text is pre-tokenized."""
    tokenizers = extra("tokenizers")
    control = vocabulary.of_kind(Kind.CONTROL, Kind.UNKNOWN)
    added = [(token, True) for token in control] + [(token, False) for token in vocabulary.of_kind(Kind.USER_DEFINED)]
    core.add_tokens(
        [
            tokenizers.AddedToken(vocabulary.names[token], special=special, normalized=False)
            for token, special in added
            if vocabulary.names[token]
        ]
    )


def _merges(vocabulary: GgufVocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    merges = []
    for number, text in enumerate(vocabulary.strings("merges")):
        left, _, right = text.partition(" ")
        if not left or not right:
            raise vocabulary.error("merges", f"number {number} is {text!r:.60}, expected two tokens and a space")
        if missing := [each for each in (left, right, left + right) if each not in ids]:
            raise vocabulary.error(
                "merges", f"number {number} is {text!r:.60}, and there is no token {missing[0]!r:.60}"
            )
        merges.append((left, right))
    return merges

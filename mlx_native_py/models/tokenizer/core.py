"""Encoding through the `tokenizers` package, with its errors converted to ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import InvalidArgument, ModelFileError
from ...forks import Lock
from ..extras import extra
from .bpe import add_special
from .pieces import SPACE, Pieces, spell_bytes, spell_sentence_piece, spell_word_piece
from .vocabulary import GgufVocabulary, Kind

__all__ = ["CoreEncoder", "ends_of", "open_core", "pieces_of", "word_pieces"]

MOST_BYTES = 256 << 20
MOST_GAPS = 100_000


class CoreEncoder:
    """A thread-safe wrapper around a tokenizer of the `tokenizers` package."""

    def __init__(self, core: Any) -> None:
        self._core = core
        # Whether control tokens are recognised is state of the tokenizer, and encoding releases the GIL.
        self._lock = Lock()

    def encode(self, text: str, special: bool) -> list[int]:
        """The tokens of a text; names of control tokens are recognised only if `special`."""
        # A lone surrogate has no UTF-8 encoding; the package would reject the whole text.
        clean = text.encode(errors="replace").decode() if not text.isascii() else text
        with self._lock:
            if self._core.encode_special_tokens == special:
                self._core.encode_special_tokens = not special
            try:
                return list(self._core.encode(clean, add_special_tokens=False).ids)
            except Exception as reason:
                raise InvalidArgument(f"the tokenizer cannot encode this text: {reason}") from None


def open_core(path: Path) -> Any:
    """The tokenizer of a `tokenizer.json`, without padding and truncation."""
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ModelFileError(path, "file", None, f"has {size} bytes, expected at most {MOST_BYTES}")
    tokenizers = extra("tokenizers")
    with _refusals(path):
        core = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        core.no_padding()
        core.no_truncation()
    return core


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Converts the package's exceptions, and its panics, which are BaseExceptions."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, ModelFileError):
        raise
    except BaseException as reason:
        raise ModelFileError(path, "file", None, f"not a tokenizer: {reason}") from None


def ends_of(core: Any, path: Path) -> tuple[list[int], list[int]]:
    """The tokens that the tokenizer adds before and after a text."""
    with _refusals(path):
        bare, full = (core.encode("a", add_special_tokens=added).ids for added in (False, True))
    for at in range(len(full) - len(bare) + 1):
        if full[at : at + len(bare)] == bare:
            return full[:at], full[at + len(bare) :]
    return [], []


def pieces_of(core: Any, path: Path) -> Pieces:
    """The vocabulary of a `tokenizer.json`, decoded as its decoder does."""
    with _refusals(path):
        names, added = _names(core.get_vocab(with_added_tokens=True), path), core.get_added_tokens_decoder()
        decoder = json.loads(core.to_str()).get("decoder") or {}
    control = frozenset(token for token, each in added.items() if each.special)
    steps = decoder.get("decoders", [decoder])
    kinds = {step.get("type") for step in steps}
    if "ByteLevel" in kinds:
        return Pieces(names, spell_bytes, frozenset(added), control)
    if "WordPiece" in kinds:
        return Pieces(names, spell_word_piece, control, control, leads_with_space=True)
    if "Metaspace" in kinds or any(step.get("pattern") == {"String": SPACE} for step in steps):
        leads = any(
            step.get("type") == "Strip" or (step.get("type") == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        return Pieces(names, spell_sentence_piece, frozenset(added), control, leads)
    raise ModelFileError(path, "decoder", None, f"{sorted(map(str, kinds))} is not supported")


def _names(ids: dict[str, int], path: Path) -> list[str]:
    """Names by id; limits gaps, so that a number in the file cannot exhaust memory."""
    count = max(ids.values(), default=-1) + 1
    if count > 2 * len(ids) + MOST_GAPS:
        raise ModelFileError(path, "vocab", None, f"has {len(ids)} tokens, and one of them has the id {count - 1}")
    names = [""] * count
    for name, token in ids.items():
        names[token] = name
    return names


def word_pieces(vocabulary: GgufVocabulary) -> tuple[Any, list[str]]:
    """The tokenizer of a file with model `bert`, and its tokens in WordPiece notation."""
    tokenizers = extra("tokenizers")
    plain = {Kind.CONTROL, Kind.UNKNOWN, Kind.USER_DEFINED}
    names = [
        name if kind in plain else name[1:] if name.startswith(SPACE) else f"##{name}"
        for name, kind in zip(vocabulary.names, vocabulary.kinds, strict=True)
    ]
    unknown = vocabulary.id("unknown", name="[UNK]")
    if unknown is None:
        raise vocabulary.error("unknown_token_id", "is missing, but a WordPiece vocabulary needs it")
    ids = {name: token for token, name in reversed(list(enumerate(names)))}
    core = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab=ids, unk_token=names[unknown]))
    lowercase = vocabulary.flag("normalizer.lowercase", True)
    accents = vocabulary.flag("normalizer.strip_accents", lowercase)
    core.normalizer = tokenizers.normalizers.BertNormalizer(strip_accents=accents, lowercase=lowercase)
    core.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    add_special(core, vocabulary)
    return core, names

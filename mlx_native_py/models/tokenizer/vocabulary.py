"""The vocabulary in a GGUF file's metadata: names, kinds and scores of tokens, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ModelFileError

__all__ = ["GgufVocabulary", "Kind"]

_PREFIX = "tokenizer.ggml."
# End-of-turn tokens of known families; files often name only one of several.
_ENDS = frozenset(
    "<|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|end_of_text|> <EOT> [EOT]".split()
)


class Kind:
    """Token kinds by their number in the file."""

    NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True, repr=False)
class GgufVocabulary:
    """The contents of `tokenizer.ggml.*`."""

    path: Path
    metadata: Mapping[str, Any]
    names: list[str]
    kinds: list[int]

    @classmethod
    def read(cls, metadata: Mapping[str, Any], path: Path | str) -> GgufVocabulary:
        place = Path(path)
        names = _strings(metadata, "tokens", place)
        if not names:
            raise ModelFileError(place, f"{_PREFIX}tokens", None, "there are none")
        kinds = _numbers(metadata, "token_type", len(names), place)
        return cls(place, metadata, names, [Kind.NORMAL] * len(names) if kinds is None else [int(k) for k in kinds])

    def __repr__(self) -> str:
        return f"<GgufVocabulary of {len(self.names)} tokens, {self.path.name}>"

    def of_kind(self, *kinds: int) -> list[int]:
        """The ids of all tokens of these kinds."""
        return [token for token, kind in enumerate(self.kinds) if kind in kinds]

    def ids_by_name(self, *kinds: int) -> dict[str, int]:
        """Ids by name, of these kinds or of all; a duplicate name gives the first id."""
        chosen = self.of_kind(*kinds) if kinds else range(len(self.names))
        return {self.names[token]: token for token in reversed(chosen)}

    def id(self, *roles: str, name: str = "") -> int | None:
        """The id of the first of these roles (`bos`, `eos`, ...) in the file, or that of the token `name`."""
        for role in roles:
            token = self.metadata.get(f"{_PREFIX}{role}_token_id")
            if token is not None and not isinstance(token, int):
                raise self.error(f"{role}_token_id", f"{token!r:.60}, expected one number")
            # Converters write -1 or the largest number for "none".
            if isinstance(token, int) and 0 <= token < len(self.names):
                return token
        return self.names.index(name) if name in self.names else None

    def ends(self) -> frozenset[int]:
        """The ids that end an answer."""
        named = {self.id(role) for role in ("eos", "eot", "eom")} - {None}
        known = {token for token in self.of_kind(Kind.CONTROL, Kind.USER_DEFINED) if self.names[token] in _ENDS}
        return frozenset(token for token in named | known if token is not None)

    def flag(self, key: str, default: bool) -> bool:
        value = self.metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise self.error(key, f"{value!r:.60}, expected true or false")
        return value

    def text(self, key: str, default: str = "") -> str:
        value = self.metadata.get(_PREFIX + key, default)
        if not isinstance(value, str):
            raise self.error(key, f"{value!r:.60}, expected a text")
        return value

    def strings(self, key: str) -> list[str]:
        return _strings(self.metadata, key, self.path)

    def scores(self) -> list[float]:
        scores = _numbers(self.metadata, "scores", len(self.names), self.path)
        if scores is None:
            raise self.error("scores", "is missing, but a SentencePiece vocabulary needs it")
        return [float(score) for score in scores]

    def error(self, key: str, message: str) -> ModelFileError:
        return ModelFileError(self.path, _PREFIX + key, None, message)


def _strings(metadata: Mapping[str, Any], key: str, path: Path) -> list[str]:
    values = metadata.get(_PREFIX + key)
    if isinstance(values, str) or not isinstance(values, Sequence):
        what = "is missing" if values is None else f"is a {type(values).__name__}, expected texts"
        raise ModelFileError(path, _PREFIX + key, None, what)
    texts = list(values)
    if not all(isinstance(text, str) for text in texts):
        raise ModelFileError(path, _PREFIX + key, None, "expected texts only")
    return texts


def _numbers(metadata: Mapping[str, Any], key: str, count: int, path: Path) -> Any:
    values = metadata.get(_PREFIX + key)
    if values is None:
        return None
    try:
        numbers: Any = np.asarray(values)
    except ValueError:  # lists of several lengths
        numbers = np.empty(0)
    if numbers.dtype.kind not in "iuf" or numbers.shape != (count,) or not np.isfinite(numbers).all():
        raise ModelFileError(path, _PREFIX + key, None, f"expected {count} finite numbers, one for each token")
    return numbers.tolist()

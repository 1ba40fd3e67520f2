"""SentencePiece BPE: adjacent pieces are merged by score; characters without a token become byte tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush

from .pieces import SPACE
from .vocabulary import GgufVocabulary, Kind

__all__ = ["SentencePieces"]

_WORDS = re.compile(f"{SPACE}*[^{SPACE}]+|{SPACE}+")
_ACROSS = re.compile(f"[^{SPACE}]{SPACE}")


class SentencePieces:
    """The encoder of a file with model `llama`."""

    def __init__(self, vocabulary: GgufVocabulary) -> None:
        scores = vocabulary.scores()
        self._ids = vocabulary.ids_by_name(Kind.NORMAL, Kind.USER_DEFINED)
        self._ranks = {name: -scores[token] for name, token in self._ids.items()}
        self._bytes = _byte_tokens(vocabulary)
        unknown = vocabulary.id("unknown")
        self._unknown = [unknown] if unknown is not None else vocabulary.of_kind(Kind.UNKNOWN)[:1]
        self._leads_with_space = vocabulary.flag("add_space_prefix", True)
        # If no token spans two words, words are encoded separately, and most of them recur.
        self._by_words = not any(_ACROSS.search(name) for name in self._ids)
        self._encode_word = lru_cache(maxsize=1 << 14)(self._encode_run)
        own = vocabulary.ids_by_name(Kind.USER_DEFINED)
        self._always = _Finder(own)
        self._special = _Finder(own | vocabulary.ids_by_name(Kind.CONTROL, Kind.UNKNOWN))

    def encode(self, text: str, special: bool) -> list[int]:
        """The tokens of a text; names of control tokens are recognised only if `special`."""
        finder = self._special if special else self._always
        tokens: list[int] = []
        for part, token in finder.parts(text):
            if part:
                start = " " if self._leads_with_space else ""
                tokens += self._encode_part((start + part).replace(" ", SPACE))
            if token is not None:
                tokens.append(token)
        return tokens

    def _encode_part(self, text: str) -> list[int]:
        if not self._by_words:
            return self._encode_run(text)
        return [token for word in _WORDS.findall(text) for token in self._encode_word(word)]

    def _encode_run(self, text: str) -> list[int]:
        tokens: list[int] = []
        for piece in self._joined(text):
            token = self._ids.get(piece)
            if token is not None:
                tokens.append(token)
            elif self._bytes is not None:
                tokens += [self._bytes[byte] for byte in piece.encode(errors="replace")]
            else:
                tokens += self._unknown
        return tokens

    def _joined(self, text: str) -> list[str]:
        pieces = list(text)
        before, after = list(range(-1, len(pieces) - 1)), list(range(1, len(pieces) + 1))
        waiting: list[tuple[float, int, int, str]] = []

        def offer(left: int, right: int) -> None:
            if left >= 0 and right < len(pieces):
                both = pieces[left] + pieces[right]
                if (rank := self._ranks.get(both)) is not None:
                    heappush(waiting, (rank, left, right, both))

        for at in range(len(pieces) - 1):
            offer(at, at + 1)
        while waiting:
            _, left, right, both = heappop(waiting)
            # Either side may have been merged since this pair was queued.
            if not pieces[left] or not pieces[right] or pieces[left] + pieces[right] != both or after[left] != right:
                continue
            pieces[left], pieces[right] = both, ""
            after[left] = after[right]
            if after[left] < len(pieces):
                before[after[left]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [piece for piece in pieces if piece]


class _Finder:
    """Splits a text at token names, longest match first.

    Vocabularies have thousands of such names, so candidates are found by first letter and looked up by length.
    """

    def __init__(self, ids: dict[str, int]) -> None:
        self._ids = {name: token for name, token in ids.items() if name}
        lengths: dict[str, set[int]] = {}
        for name in self._ids:
            lengths.setdefault(name[0], set()).add(len(name))
        self._lengths = {letter: sorted(each, reverse=True) for letter, each in lengths.items()}
        self._starts = re.compile("[" + "".join(map(re.escape, self._lengths)) + "]") if self._ids else None

    def parts(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Pieces of text, each with the token that follows it."""
        begin = at = 0
        while self._starts and (place := self._starts.search(text, at)):
            at = place.start()
            for length in self._lengths[text[at]]:
                if (token := self._ids.get(text[at : at + length])) is not None:
                    yield text[begin:at], token
                    begin = at = at + length
                    break
            else:
                at += 1
        yield text[begin:], None


def _byte_tokens(vocabulary: GgufVocabulary) -> list[int] | None:
    """The tokens of the 256 bytes, if all exist."""
    ids = vocabulary.ids_by_name(Kind.BYTE) or vocabulary.ids_by_name()
    tokens = [ids.get(f"<0x{byte:02X}>") for byte in range(256)]
    known = [token for token in tokens if token is not None]
    return known if len(known) == 256 else None

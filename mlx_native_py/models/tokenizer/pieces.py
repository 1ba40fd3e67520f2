"""The bytes of each token; a token may hold part of a character, so text is decoded from several together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...errors import InvalidArgument

__all__ = ["Pieces", "SPACE", "byte_alphabet", "spell_bytes", "spell_sentence_piece", "spell_word_piece"]

SPACE = "\u2581"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """The characters that represent bytes in byte-level vocabularies.

    Printable bytes represent themselves; the others are mapped, in order, to characters from 256 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in sorted(printable)} | {chr(256 + at): byte for at, byte in enumerate(moved)}


_ALPHABET = byte_alphabet()


def spell_bytes(name: str) -> bytes:
    """A token of a byte-level vocabulary.

    >>> spell_bytes("ĠParis")
    b' Paris'
    """
    try:
        return bytes([_ALPHABET[letter] for letter in name])
    except KeyError:
        return name.encode(errors="replace")


def spell_sentence_piece(name: str) -> bytes:
    """A token of a SentencePiece vocabulary.

    >>> spell_sentence_piece("▁Paris"), spell_sentence_piece("<0xE2>")
    (b' Paris', b'\\xe2')
    """
    if byte := _BYTE.fullmatch(name):
        return bytes([int(byte[1], 16)])
    return name.replace(SPACE, " ").encode(errors="replace")


def spell_word_piece(name: str) -> bytes:
    """A token of a WordPiece vocabulary.

    >>> spell_word_piece("play"), spell_word_piece("##ing")
    (b' play', b'ing')
    """
    return (name[2:] if name.startswith("##") else " " + name).encode(errors="replace")


@dataclass(frozen=True, repr=False)
class Pieces:
    """The tokens of a vocabulary by id, and how to decode them."""

    names: Sequence[str]
    spell: Callable[[str], bytes]
    plain: frozenset[int] = frozenset()
    """Tokens whose names are their text."""
    control: frozenset[int] = frozenset()
    """Control tokens, which are not part of the text."""
    leads_with_space: bool = False
    """Whether a text starts with an extra space."""

    def __repr__(self) -> str:
        return f"<Pieces of {len(self.names)} tokens>"

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token; empty for a control token unless `special`."""
        if not 0 <= token < len(self.names):
            raise InvalidArgument(f"token {token} is not in the vocabulary of {len(self.names)}")
        if token in self.control and not special:
            return b""
        name = self.names[token]
        return name.encode(errors="replace") if token in self.plain else self.spell(name)

    def spelled(self, tokens: Iterable[int], *, special: bool = False) -> bytes:
        """The bytes of a sequence of tokens, without the space that the vocabulary puts in front of a text."""
        pieces = [self.piece(int(token), special=special) for token in tokens]
        if self.leads_with_space:
            for at, (token, piece) in enumerate(zip(tokens, pieces, strict=True)):
                if token not in self.control:
                    pieces[at] = piece.removeprefix(b" ")
                    break
        return b"".join(pieces)

"""Function bodies that were checked before, since many libraries start with the same text."""

from __future__ import annotations

import hashlib

from .closure import reach
from .emit import Segment, outer_functions
from .manifest import LibraryManifest
from .translate import Translation

MOST = 1 << 16  # pieces of text that are remembered


def known_bodies(
    manifest: LibraryManifest, translation: Translation, setting: str, checked: set[bytes], *, instantiations: bool
) -> frozenset[str]:
    """The functions of a source whose bodies need no other check, and that nothing mentions which does need one."""
    end = _open_end(translation)
    known: set[str] = set()
    new: set[str] = set()
    pieces = list(zip(translation.segments, _texts(manifest, setting), strict=True))
    if any(_specialises(translation, segment) for segment, text in pieces if text not in checked):
        return frozenset()
    for segment, text in pieces:
        if segment.kind == "body":
            (known if not new and segment.end <= end and text in checked else new).add(segment.owner)
        elif segment.kind == "instantiation" and instantiations:
            new.update(translation.unit.tokens.text[segment.start : segment.end])
    return frozenset(known - new - reach(manifest.uses, new) - manifest.always)


def remember(manifest: LibraryManifest, setting: str, checked: set[bytes]) -> None:
    """Notes that a source was found right."""
    if len(checked) > MOST:
        checked.clear()
    checked.update(_texts(manifest, setting))


def _texts(manifest: LibraryManifest, setting: str) -> list[bytes]:
    """For each piece, the digest of all text up to its end; instantiations leave what follows them as it is."""
    state, digests = hashlib.blake2b(setting.encode(), digest_size=16), []
    for piece in manifest.pieces:
        if piece.kind != "instantiation":
            state.update(piece.text.encode() + b"\0")
        digests.append(state.digest())
    return digests


def _specialises(translation: Translation, segment: Segment) -> bool:
    """Whether it has `template <>`, which is wrong behind a function that already uses what it specialises."""
    words = translation.unit.tokens.text[segment.start : segment.end]
    return ("template", "<", ">") in zip(words, words[1:], words[2:], strict=False)


def _open_end(translation: Translation) -> int:
    """The first declaration of a function without its body, which another source may owe."""
    declared = outer_functions(translation.unit.declarations, with_body=False)
    return min((each.start for each in declared if not each.body), default=len(translation.unit.tokens))

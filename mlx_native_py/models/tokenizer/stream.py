"""Incremental detokenization: emits whole characters, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from ...errors import InvalidArgument

__all__ = ["StopStrings", "TextStream"]


class StopStrings:
    """Passes text through up to the first stop string, holding back what may become one.

    >>> stops = StopStrings(["END"])
    >>> stops.add("so E"), stops.add("asy E"), stops.add("ND of it"), stops.found
    ('so ', 'Easy ', '', 'END')
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if isinstance(stops, str):
            stops = [stops]
        if not all(isinstance(stop, str) and stop for stop in stops):
            raise InvalidArgument(f"stop is {list(stops)!r}, expected texts of at least one character")
        self.found: str | None = None
        self._stops = tuple(stops)
        self._held = ""

    def add(self, text: str) -> str:
        """Adds text; returns what is certain to be emitted."""
        if self.found is not None:
            return ""
        text = self._held + text
        # The first complete match counts, however the text was split.
        ends = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            _, at, self.found = min(ends)
            self._held = ""
            return text[:at]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> str:
        """The text that was held back."""
        rest, self._held = self._held, ""
        return rest


def _overlap(text: str, stop: str) -> int:
    """The length of the longest suffix of `text` that is a prefix of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)


class TextStream:
    """Decodes tokens to text as they arrive; `piece` gives the bytes of a token.

    >>> pieces = {1: b" caf", 2: b"\\xc3", 3: b"\\xa9"}
    >>> stream = TextStream(pieces.__getitem__, stop=["\\n\\n"])
    >>> [stream.add(token) for token in (1, 2, 3)], stream.finish(), stream.text
    ([' caf', '', 'é'], '', ' café')
    """

    def __init__(self, piece: Callable[[int], bytes], *, stop: Sequence[str] = ()) -> None:
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stops = StopStrings(stop)
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._parts)

    @property
    def stop(self) -> str | None:
        """The stop string that was found, if any."""
        return self._stops.found

    def add(self, token: int) -> str:
        """The text that this token completes; often empty."""
        return self._kept(self._stops.add(self._decoder.decode(self._piece(token))))

    def finish(self) -> str:
        """The remaining text; an incomplete character becomes U+FFFD."""
        last = self._stops.add(self._decoder.decode(b"", final=True))
        return self._kept(last + self._stops.finish())

    def _kept(self, text: str) -> str:
        self._parts.append(text)
        return text

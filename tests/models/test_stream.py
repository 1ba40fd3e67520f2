"""Text that comes token by token: whole characters, nothing of a stop string, and the same however it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlx_native_py import InvalidArgument
from mlx_native_py.models.tokenizer import TextStream, Tokenizer
from mlx_native_py.models.tokenizer.stream import StopStrings
from models.vocabularies import cats

PARTS = st.lists(st.binary(max_size=4), max_size=12)
LETTERS = st.text("abc", max_size=3)
STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


def through(parts: list[bytes], stop: list[str]) -> tuple[list[str], TextStream]:
    stream = TextStream(parts.__getitem__, stop=stop)
    pieces = [stream.add(token) for token in range(len(parts))]
    return [*pieces, stream.finish()], stream


@given(PARTS)
def test_all_bytes_come_out(parts: list[bytes]) -> None:
    pieces, stream = through(parts, [])
    assert "".join(pieces) == stream.text == b"".join(parts).decode(errors="replace")


@given(st.text(), st.data())
def test_characters_are_whole(text: str, data: st.DataObject) -> None:
    raw = text.encode(errors="replace")
    parts: list[bytes] = []
    while raw:
        size = data.draw(st.integers(1, 3))
        parts, raw = [*parts, raw[:size]], raw[size:]
    pieces, _ = through(parts, [])
    assert "".join(pieces) == text.encode(errors="replace").decode() and not any(
        "\ufffd" in p for p in pieces if "\ufffd" not in text
    )


def expected(text: str, stops: list[str]) -> str:
    """Letter by letter: as soon as a stop string is complete, all before it."""
    for end in range(len(text) + 1):
        if starts := [end - len(stop) for stop in stops if text[:end].endswith(stop)]:
            return text[: min(starts)]
    return text


@given(st.lists(LETTERS, max_size=10), STOPS)
def test_stop_strings_however_text_is_cut(parts: list[str], stops: list[str]) -> None:
    pieces, stream = through([part.encode() for part in parts], stops)
    whole = "".join(parts)
    assert "".join(pieces) == expected(whole, stops)
    assert (stream.stop is None) == (not any(stop in whole for stop in stops))


@given(st.lists(LETTERS, max_size=10), STOPS)
def test_text_is_not_held_longer_than_needed(parts: list[str], stops: list[str]) -> None:
    stops_, seen = StopStrings(stops), ""
    for part in parts:
        seen += part
        stops_.add(part)
        held = stops_._held
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
        if stops_.found is not None:
            break


def test_nothing_comes_after_a_stop() -> None:
    pieces, stream = through([b"one\n", b"\ntwo", b"three"], ["\n\n"])
    assert (pieces, stream.stop, stream.text) == (["one", "", "", ""], "\n\n", "one")


def test_half_a_character_at_the_end() -> None:
    assert through([b"a\xf0\x9f"], [])[0] == ["a", "\ufffd"]


@pytest.mark.parametrize("stop", [[""], [1], ["a", ""]])
def test_wrong_stops(stop: list[str]) -> None:
    with pytest.raises(InvalidArgument, match="at least one character"):
        StopStrings(stop)


def test_one_stop_as_a_string() -> None:
    assert StopStrings("ab").add("xaby") == "x"


def test_stream_of_a_tokenizer() -> None:
    tokenizer = Tokenizer.from_gguf(cats())
    tokens = tokenizer.encode("cat é 🙂", add_special_tokens=False)
    stream = tokenizer.stream()
    assert "".join(map(stream.add, [*tokens, 2])) + stream.finish() == " cat é 🙂"
    assert tokenizer.stream(special=True).add(2) == "</s>"
    assert tokenizer.stream().add(100_000) == "\ufffd"
    with pytest.raises(InvalidArgument, match="not in the vocabulary"):
        tokenizer.stream().add(-1)

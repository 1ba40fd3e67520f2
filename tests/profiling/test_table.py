"""Tables: plain in a pipe, coloured in a terminal, HTML in a notebook."""

from __future__ import annotations

import io

import pytest

from mlx_native_py.table import Table

TABLE = Table("title", ("name", "us"), [("<fill>", "10.0"), ("  inner", "1.0")], ["a note"])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain() -> None:
    assert TABLE.text().splitlines() == ["title", "name       us", "<fill>   10.0", "  inner   1.0", "a note"]
    assert str(TABLE) == repr(TABLE) == TABLE.text()
    assert TABLE.shown(io.StringIO()) == TABLE.shown(None) == TABLE.text()


def test_in_a_terminal() -> None:
    pytest.importorskip("rich", reason="rich is an extra")
    shown = TABLE.shown(Terminal())
    assert "\x1b[" in shown and "<fill>" in shown and "a note" in shown


def test_in_a_notebook() -> None:
    shown = TABLE._repr_html_()
    assert "&lt;fill&gt;" in shown and "<fill>" not in shown
    assert shown.count("<tr>") == 3 and "a note" in shown

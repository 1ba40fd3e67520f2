"""Tokens, brackets, declarations and the way back to lines and columns."""

from __future__ import annotations

import pytest

from mlx_native_py.softmetal.msl.lexer import LexicalError, close_angle, lex
from mlx_native_py.softmetal.msl.positions import Positions
from mlx_native_py.softmetal.msl.scopes import Declaration, parse, walk


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("a>>=b->c::d", ["a", ">>=", "b", "->", "c", "::", "d"]),
        ("1.0e-3f 0x1p-2 1'000 .5h 2.bf", ["1.0e-3f", "0x1p-2", "1'000", ".5h", "2.bf"]),
        (r'"a\"b" "c" u8"d" \'x\''.replace("\\'", "'"), [r'"a\"b"', '"c"', 'u8"d"', "'x'"]),
        ('R"(a"b)" x', ['R"(a"b)"', "x"]),
        ("x...y", ["x", "...", "y"]),
        ("größe = 1", ["größe", "=", "1"]),
    ],
)
def test_tokens(source: str, tokens: list[str]) -> None:
    assert lex(source, "f").text == tokens


def test_line_markers_name_file_and_line() -> None:
    tokens = lex('# 1 "<stdin>"\na\n# 7 "inc.h" 1\nb c\nd\n# 3 "<stdin>" 2\ne', "main")
    assert list(zip(tokens.text, tokens.row, strict=True)) == [
        ("a", ("main", 1)),
        ("b", ("inc.h", 7)),
        ("c", ("inc.h", 7)),
        ("d", ("inc.h", 8)),
        ("e", ("main", 3)),
    ]


def test_brackets_know_their_partners() -> None:
    tokens = lex("f(a[1], {2})", "f")
    assert [tokens.match[i] for i in range(len(tokens))] == [-1, 10, -1, 5, -1, 3, -1, 9, -1, 7, 1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("f(a;}", "extraneous"),
        ("f(a]", "extraneous"),
        ("{ (1; }", r"expected '\)'"),
        ("{ x", "expected '}'"),
        ("a ` b", "unexpected"),
    ],
)
def test_unbalanced(source: str, message: str) -> None:
    with pytest.raises(LexicalError, match=message):
        lex(source, "f")


@pytest.mark.parametrize(
    ("source", "close"),
    [("a<b>", 3), ("a<b<c>>", 5), ("a<(x>y)>", 7), ("a < b;", -1), ("f(a < b)", -1)],
)
def test_template_brackets(source: str, close: int) -> None:
    tokens = lex(source, "f")
    assert close_angle(tokens, tokens.text.index("<")) == close


def column(source: str, expanded: str, token: str) -> int:
    tokens = lex(expanded, "f")
    return Positions(source, "f").column(tokens, tokens.text.index(token))


@pytest.mark.parametrize(
    ("source", "expanded", "token", "expected"),
    [
        ("a   =   b;", "a = b;", "b", 9),
        ("x = MAX(a, b);", "x = ((a) > (b) ? (a) : (b));", ">", 5),
        ("x = MAX(a, b) + tail;", "x = ((a) > (b) ? (a) : (b)) + tail;", "tail", 17),
        ("/* x */ int y; // y", "int y;", "y", 13),
        ('s = "a b"  "c";', 's = "a b" "c";', '"c"', 12),
    ],
)
def test_columns(source: str, expanded: str, token: str, expected: int) -> None:
    assert column(source, expanded, token) == expected


def declarations(source: str) -> list[Declaration]:
    return list(walk(parse(lex(source, "f"))))


def kinds(source: str) -> list[tuple[str, str]]:
    tokens = lex(source, "f")
    return [(d.kind, tokens.text[d.name] if d.name >= 0 else "") for d in walk(parse(tokens))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("void f(int a) { g(); } int x;", [("function", "f"), ("variable", "x")]),
        ("namespace a::b { int x; }", [("namespace", ""), ("variable", "x")]),
        (
            "struct S { int a; S(int x) : a(x) {} T f() const device { return 1; } };",
            [("class", "S"), ("variable", "a"), ("function", "S"), ("function", "f")],
        ),
        ("typedef struct { int a; } block;", [("class", "block"), ("variable", "a")]),
        ("template <typename T, int N = (1 > 0)> T f(T x) { return x; }", [("function", "f")]),
        ("template void f<float>(int);", [("instantiation", "")]),
        ("enum E : uint { A, B };", [("enum", "")]),
        ("struct S operator+(S a, S b) { return a; }", [("function", "operator")]),
        ("bool operator<(S a, S b) { return true; }", [("function", "operator")]),
        ("using F = void (*)(int);", [("other", "")]),
        ("template <> struct is<device int*> : base<int> { };", [("class", "is")]),
        ("vec<T, 2> f(vec<T, 2> a);", [("function", "f")]),
        ("constant float table[] = { 1, 2 };", [("variable", "table")]),
    ],
)
def test_declarations(source: str, expected: list[tuple[str, str]]) -> None:
    assert kinds(source) == expected


def test_template_header_is_told_from_the_rest() -> None:
    (result,) = declarations("template <typename T> [[kernel]] void f(device T* a) {}")
    tokens = lex("template <typename T> [[kernel]] void f(device T* a) {}", "f")
    assert tokens.text[result.start : result.head] == ["template", "<", "typename", "T", ">"]

"""Random MSL expressions that are evaluated in Python while they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from .integer_table import WIDTHS, Width, operand
from .layout import INTEGERS, SCALARS

Array = NDArray[Any]
LANES = 40


@dataclass(frozen=True)
class Expression:
    """MSL text of a type, its value in every lane, and the lanes where that value is certain."""

    text: str
    kind: str
    values: Array  # of Python ints, float64 or bool
    certain: NDArray[np.bool_]


@dataclass
class Program:
    """Statements that the expressions need, in order."""

    statements: list[str] = field(default_factory=list)

    def name(self, kind: str, initial: str, suffix: str = "") -> str:
        fresh = f"t{len(self.statements)}"
        self.statements.append(f"{kind} {fresh}{suffix} = {initial};")
        return fresh


def inputs() -> dict[str, tuple[str, Array]]:
    """Two variables of every type: corners and every magnitude for integers, short binary fractions for float."""
    result: dict[str, tuple[str, Array]] = {}
    for seed, kind in enumerate(INTEGERS):
        for n in range(2):
            result[f"{kind}_{n}"] = (kind, operand(WIDTHS[kind], (LANES,), 2 * seed + n))
    for n in range(2):
        result[f"float_{n}"] = ("float", (np.random.default_rng(n).integers(-512, 512, LANES) / 16).astype(np.float32))
    return result


INPUTS = inputs()
_CERTAIN = np.ones(LANES, dtype=np.bool_)


def _objects(values: Sequence[int]) -> Array:
    return np.array(values, dtype=object)


def _variable(draw: Any, kind: str) -> Expression:
    name = f"{kind}_{draw(st.integers(0, 1))}"
    raw = INPUTS[name][1]
    values = raw.astype(np.float64) if kind == "float" else _objects(raw.tolist())
    return Expression(name, kind, values, _CERTAIN)


def _literal(draw: Any, kind: str) -> Expression:
    if kind == "float":
        number = draw(st.integers(-64, 64)) / 8
        return Expression(f"({number}f)", kind, np.full(LANES, number), _CERTAIN)
    small = draw(st.integers(0, 99))
    return Expression(f"{kind}({small})", kind, _objects([small] * LANES), _CERTAIN)


_Binary = tuple[str, Callable[[Width, int, int], int]]
_BINARY: tuple[_Binary, ...] = (
    ("{a} + {b}", lambda w, a, b: a + b),
    ("{a} - {b}", lambda w, a, b: a - b),
    ("{a} * {b}", lambda w, a, b: a * b),
    ("{a} & {b}", lambda w, a, b: a & b),
    ("{a} | {b}", lambda w, a, b: a | b),
    ("{a} ^ {b}", lambda w, a, b: a ^ b),
    ("{a} << ({b} & {m})", lambda w, a, b: a << (b & (w.bits - 1))),
    ("{a} >> ({b} & {m})", lambda w, a, b: a >> (b & (w.bits - 1))),
    ("{a} / (({b} & 15) + 1)", lambda w, a, b: _divide(a, (b & 15) + 1)),
    ("{a} % (({b} & 15) + 1)", lambda w, a, b: a - _divide(a, (b & 15) + 1) * ((b & 15) + 1)),
    ("min({a}, {b})", lambda w, a, b: min(a, b)),
    ("max({a}, {b})", lambda w, a, b: max(a, b)),
    ("addsat({a}, {b})", lambda w, a, b: w.saturate(a + b)),
    ("subsat({a}, {b})", lambda w, a, b: w.saturate(a - b)),
    ("mulhi({a}, {b})", lambda w, a, b: a * b >> w.bits),
    ("hadd({a}, {b})", lambda w, a, b: (a + b) >> 1),
    ("-{a} + ~{b}", lambda w, a, b: -a + ~b),
    ("popcount({a}) + clz({b})", lambda w, a, b: w.unsigned(a).bit_count() + w.bits - w.unsigned(b).bit_length()),
    ("({a} > {b} ? {a} : {b} * 3)", lambda w, a, b: a if a > b else b * 3),
)


def _divide(a: int, b: int) -> int:
    return a // b if a >= 0 else -(-a // b)


def _integer_binary(draw: Any, kind: str, a: Expression, b: Expression) -> Expression:
    pattern, function = draw(st.sampled_from(_BINARY))
    width = WIDTHS[kind]
    text = pattern.format(a=a.text, b=b.text, m=f"{kind}({width.bits - 1})")
    values = _objects([width.wrap(function(width, x, y)) for x, y in zip(a.values, b.values, strict=True)])
    return Expression(f"{kind}({text})", kind, values, a.certain & b.certain)


_FLOAT: tuple[tuple[str, Callable[[Array, Array], Array]], ...] = (
    ("({a} + {b})", np.add),
    ("({a} - {b})", np.subtract),
    ("({a} * {b})", np.multiply),
    ("min({a}, {b})", np.minimum),
    ("fmax({a}, {b})", np.maximum),
    ("fma({a}, {b}, 0.5f)", lambda a, b: a * b + 0.5),
    ("select({a}, {b}, {a} < {b})", lambda a, b: np.where(a < b, b, a)),
    ("({a} >= {b} ? floor({a}) : -{b})", lambda a, b: np.where(a >= b, np.floor(a), -b)),
    ("clamp({a}, -8.0f, abs({b}) + 1.0f)", lambda a, b: np.minimum(np.maximum(a, -8), np.abs(b) + 1)),
)


def _float_binary(draw: Any, kind: str, a: Expression, b: Expression) -> Expression:
    pattern, function = draw(st.sampled_from(_FLOAT))
    with np.errstate(all="ignore"):
        values = np.asarray(function(a.values, b.values), dtype=np.float64)
        # Contraction and order of rounding are the compiler's choice, so only exact results are certain.
        exact = (values == values.astype(np.float32)) & (np.abs(values) < 2.0**60)
    return Expression(pattern.format(a=a.text, b=b.text), kind, values, a.certain & b.certain & exact)


def _converted(draw: Any, kind: str, inner: Expression) -> Expression:
    if kind == "float":
        small = draw(st.sampled_from((f"float({inner.text} & 1023)", f"static_cast<float>({inner.text} & 1023)")))
        return Expression(small, kind, np.array([v & 1023 for v in inner.values], dtype=np.float64), inner.certain)
    width = WIDTHS[kind]
    if inner.kind == "float":
        low = "0.0f" if not width.signed else "-100.0f"
        clipped = np.trunc(np.clip(inner.values, float(low[:-1]), 100))
        values = _objects([int(v) for v in np.where(inner.certain, clipped, 0)])
        return Expression(f"{kind}(clamp({inner.text}, {low}, 100.0f))", kind, values, inner.certain)
    return Expression(f"{kind}({inner.text})", kind, _objects([width.wrap(v) for v in inner.values]), inner.certain)


def _wrap(kind: str, values: Array) -> Array:
    return values if kind == "float" else _objects([WIDTHS[kind].wrap(v) for v in values])


def _exact(kind: str, values: Array) -> NDArray[np.bool_]:
    return _CERTAIN if kind != "float" else (values == values.astype(np.float32)) & (np.abs(values) < 2.0**60)


def _from_vector(draw: Any, program: Program, parts: Sequence[Expression]) -> Expression:
    """A swizzled component of a vector sum or product."""
    kind = parts[0].kind
    letters = draw(st.lists(st.sampled_from("xyzw"), min_size=2, max_size=4).map("".join))
    pick = draw(st.integers(0, len(letters) - 1))
    sign = draw(st.sampled_from("+-*"))
    built = program.name(f"{kind}4", f"{kind}4({', '.join(p.text for p in parts[:4])})")
    text = f"({built} {sign} {parts[4].text}).{letters}[{pick}]"
    first, second = parts["xyzw".index(letters[pick])], parts[4]
    raw = {"+": np.add, "-": np.subtract, "*": np.multiply}[sign](first.values, second.values)
    with np.errstate(all="ignore"):
        certain = first.certain & second.certain & _exact(kind, raw)
    return Expression(text, kind, _wrap(kind, raw), certain)


def _from_array(draw: Any, program: Program, parts: Sequence[Expression]) -> Expression:
    """An element of a private array, written once more at an index that depends on the lane."""
    kind, shift = parts[0].kind, draw(st.integers(0, 3))
    name = program.name(kind, f"{{{', '.join(p.text for p in parts[:4])}}}", "[4]")
    program.statements.append(f"{name}[(i + {shift}) & 3] = {parts[4].text};")
    at = draw(st.integers(0, 3))
    written = (np.arange(LANES) + shift) & 3 == at
    values = np.where(written, parts[4].values, parts[at].values)
    certain = np.where(written, parts[4].certain, parts[at].certain)
    return Expression(f"{name}[{at}]", kind, values, np.asarray(certain, dtype=np.bool_))


def _from_loop(draw: Any, program: Program, parts: Sequence[Expression]) -> Expression:
    """A bounded loop whose trip count depends on the lane."""
    kind, trips = parts[0].kind, draw(st.integers(1, 5))
    name = program.name(kind, parts[0].text)
    step = program.name(kind, parts[1].text)
    program.statements.append(f"for (uint n = 0; n < i % {trips} + 1; n++) {name} = {kind}({name} + {step});")
    values = parts[0].values
    certain = parts[0].certain & parts[1].certain
    for trip in range(trips):
        active = np.arange(LANES) % trips + 1 > trip
        with np.errstate(all="ignore"):
            values = np.where(active, _wrap(kind, values + parts[1].values), values)
            certain = certain & (_exact(kind, values) | ~active)
    return Expression(name, kind, values, np.asarray(certain, dtype=np.bool_))


def expression(draw: Any, program: Program, kind: str, depth: int) -> Expression:
    """An expression of the type, at most `depth` deep."""
    form = draw(st.integers(0, 9)) if depth else draw(st.integers(0, 1))
    if form == 0:
        return _literal(draw, kind)
    if form == 1:
        return _variable(draw, kind)
    if form == 2:
        others = [k for k in (*INTEGERS, "float") if k != kind and not (kind == "float" and k == "float")]
        return _converted(draw, kind, expression(draw, program, draw(st.sampled_from(others)), depth - 1))
    if form in (3, 4, 5) and depth > 1:
        shape = {3: _from_vector, 4: _from_array, 5: _from_loop}[form]
        return shape(draw, program, [expression(draw, program, kind, depth - 2) for _ in range(5)])
    a, b = (expression(draw, program, kind, depth - 1) for _ in range(2))
    return _float_binary(draw, kind, a, b) if kind == "float" else _integer_binary(draw, kind, a, b)


def stored(result: Expression) -> Array:
    """The values as a buffer would hold them; uncertain lanes are zero."""
    dtype = SCALARS[result.kind]
    if result.kind == "float":
        return np.where(result.certain, result.values, 0).astype(dtype)
    return np.array([int(v) for v in result.values], dtype=dtype)

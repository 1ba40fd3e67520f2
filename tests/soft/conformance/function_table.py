"""Functions as arguments: pointers, references, by their names, through templates and members."""

from __future__ import annotations

import numpy as np

from .batch import Batch, Check
from .program import Program, zeros

_VALUES = np.arange(1, 41, dtype=np.int32)

_FUNCTIONS = """
using Unary = int (*)(int);
typedef int (*Binary)(int, int);
template <class T> using Folding = T (*)(T, T);
int add(int a, int b) { return a + b; }
int multiply(int a, int b) { return a * b; }
float multiply(float a, float b) { return a * b * 0.5f; }
int negate(int a) { return -a; }
template <class T> T larger(T a, T b) { return a < b ? b : a; }
template <class T> T fold(T a, T b, T (*op)(T, T)) { return op(a, b); }
template <class T> T fold_on(T a, T b, T (*op)(T, T)) { return fold(a, b, op) + fold<T>(a, a, op); }
int dereferenced(int a, int b, int (*op)(int, int)) { return (*op)(a, b); }
int by_reference(int a, int b, int (&op)(int, int)) { return op(a, b); }
int by_alias(int a, Unary op) { return op(op(a)) - op(a); }
int by_typedef(int a, int b, Binary op) { return op(a, b); }
template <class T> T by_template_alias(T a, T b, Folding<T> op) { return op(a, b); }
int two(int a, int (*first)(int), int (*second)(int, int)) { return second(first(a), a); }
int optional(int a, int b, int (*op)(int, int) = add) { return op(a, b); }
template <int (*op)(int, int)> int fixed(int a, int b) { return op(a, b); }
struct Folder {
  int start;
  int apply(int v, int (*op)(int, int)) const { return op(start, v); }
  static int twice(int v, int (*op)(int, int)) { return op(v, op(v, v)); }
};
int many_times(int n, int a, int (*op)(int, int)) {
  int r = a;
  for (int k = 0; k < n; k++) {
    switch (k & 3) {
    case 0: r = op(r, a); break;
    case 1: r = op(a, r); break;
    case 2: r ^= op(r, k); break;
    default: r -= op(k, r);
    }
  }
  return r;
}
"""


def _many_times(n: int, a: int) -> int:
    r = a
    for k in range(n):
        r = (r + a, a + r, r ^ (r + k), r - (k + r))[k & 3]
    return r


def functions() -> Batch:
    v = _VALUES
    rows = (
        ("parameter", "fold(x, 3, add)", v + 3),
        ("parameter-address", "fold(x, 3, &add)", v + 3),
        ("parameter-passed-on", "fold_on(x, 3, add)", 3 * v + 3),
        ("parameter-overloaded", "int(fold(float(x), 4.0f, multiply)) + fold(x, 2, multiply)", 4 * v),
        ("parameter-template", "fold(x, 20, larger<int>)", np.maximum(v, 20)),
        ("parameter-address-of-template", "fold(x, 20, &larger<int>)", np.maximum(v, 20)),
        ("parameter-dereferenced", "dereferenced(x, 5, multiply)", v * 5),
        ("parameter-reference", "by_reference(x, 5, add)", v + 5),
        ("parameter-alias", "by_alias(x, negate)", 2 * v),
        ("parameter-typedef", "by_typedef(x, 5, multiply)", v * 5),
        ("parameter-template-alias", "by_template_alias<int>(x, 5, multiply)", v * 5),
        ("parameter-default", "optional(x, 5) + optional(x, 5, multiply)", 6 * v + 5),
        ("two-parameters", "two(x, negate, multiply)", -v * v),
        ("member", "Folder{7}.apply(x, add)", v + 7),
        ("static-member", "Folder::twice(x, multiply)", v**3),
        ("template-argument", "fixed<add>(x, 2) + fixed<&multiply>(x, 2)", 3 * v + 2),
        ("large-function", "many_times(x, 3, add)", np.array([_many_times(n, 3) for n in v.tolist()])),
        ("large-function-again", "many_times(9, x, add)", np.array([_many_times(9, a) for a in v.tolist()])),
    )
    checks = [Check(name, expression, "int", np.asarray(expected)) for name, expression, expected in rows]
    local = Check("local", "f(x, 6)", "int", v * 6, before="int (*f)(int, int) = multiply;")
    alias = Check("local-alias", "f(x)", "int", -v, before="Unary f = negate;")
    return Batch("functions", [*checks, local, alias], {"x": ("int", v)}, prelude=_FUNCTIONS)


_WAITING = """
uint summed(uint v) { return simd_sum(v); }
uint plus(uint a, uint b) { return a + b; }
uint repeated(uint n, uint v, uint (*op)(uint)) { uint r = 0; for (uint k = 0; k < n; k++) r += op(v); return r; }
template <uint (*op)(uint)> uint fixed(uint n, uint v) {
  uint r = 0; for (uint k = 0; k < n; k++) r += op(v); return r; }
void through(device uint* place, uint v, uint (*op)(uint, uint)) { *place = op(*place, v); }
kernel void k(device uint* out, device uint* again, device uint* places, uint i [[thread_position_in_grid]]) {
  out[i] = repeated(i % 3, 1, summed);
  again[i] = fixed<summed>(i % 3, 1);
  through(places + i, i, plus);
}
"""


def all_programs() -> list[Program]:
    first, second = 21, 10  # of 32 lanes, those with i % 3 >= 1, and == 2
    waits = [(0, first, first + second)[i % 3] for i in range(32)]
    results = {"parameter-waits": (0, waits), "template-waits": (1, waits), "through": (2, np.arange(32) + 5)}
    args = [zeros(32, np.uint32), zeros(32, np.uint32), np.full(32, 5, np.uint32)]
    return [Program("function-pointers", _WAITING, args, results, threads=32)]


def all_batches() -> list[Batch]:
    return [functions()]

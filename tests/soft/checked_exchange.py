"""Private variables without a value that go through functions which are not inlined, or to other threads."""

from __future__ import annotations

from .checked_private import ADDRESS, BRANCH, STORE

READ, CALL = "is read through a pointer", "is given to or by a function that calls itself"

FUNCTIONS_APART = """
__attribute__((noinline)) static float element(thread const float *p, int n) { return p[n]; }
__attribute__((noinline)) static void sometimes(thread float &x, int n) { if (n > 3) x = n; }
__attribute__((noinline)) static float given(int n) { float made; if (n > 3) made = n; return made; }
__attribute__((noinline)) static void fill(thread float *p, int n) { for (int j = 0; j < n; j++) p[j] = j; }
static float down(thread const float *p, int n) { return n > 0 ? p[n - 1] + down(p, n - 1) : 0; }
static void up(thread float *p, int n) { if (n > 0) { p[n - 1] = n; up(p, n - 1); } }
static float again(float x, int n) { return n > 0 ? again(x + 1, n - 1) * again(x, n - 2) : x; }
static float unsure(int n) { float made; if (n > 1) made = unsure(n - 1); if (n < 1) made = 1; return made; }
static void odd(thread float *p, int n);
static void even(thread float *p, int n) { if (n > 0) odd(p, n - 1); else p[0] = 2; }
static void odd(thread float *p, int n) { if (n > 0) even(p, n - 1); }
static float through(thread const float *p, int n) { return down(p, n); }
"""
_X, _FIX = "float x;\nif (k[i] > 4) x = k[i];\n", ("float x;", "float x = 0;")
_N, _FIX_N = "int x;\nif (k[i] > 4) x = k[i];\n", ("int x;", "int x = 0;")
_LAST = "float x;\nif (t % 32 < 31) x = k[i];\n"
THROUGH_OTHERS = {
    # name: body, variable, use, what is put right
    "by a function apart": (f"{_X}a[i] = apart(x);", "x", STORE, _FIX),
    "an element by a function apart": (
        "float v[4];\nv[0] = 1;\na[i] = element(v, k[i] & 3);",
        "v",
        STORE,
        ("v[4]", "v[4] = {}"),
    ),
    "written sometimes by a function apart": ("float x;\nsometimes(x, k[i]);\na[i] = x;", "x", STORE, _FIX),
    "made by a function apart": ("a[i] = given(k[i]);", "made", STORE, ("given(k[i])", "given(4 + k[i])")),
    "filled too little by a function apart": (
        "float v[8];\nfill(v, 7);\na[i] = v[k[i] & 7];",
        "v",
        STORE,
        ("fill(v, 7)", "fill(v, 8)"),
    ),
    "read by a function that calls itself": (
        "float v[8];\nup(v, 5);\na[i] = down(v, k[i] & 7);",
        "v",
        READ,
        ("up(v, 5)", "up(v, 8)"),
    ),
    "read by a function on the way": (
        "float v[8];\nfor (int j = 1; j < 8; j++) v[j] = j;\na[i] = through(v, k[i] & 7);",
        "v",
        READ,
        ("int j = 1", "int j = 0"),
    ),
    "given to a function that calls itself": (f"{_X}a[i] = again(x, k[i] & 3);", "x", CALL, _FIX),
    "made by a function that calls itself": ("a[i] = unsure(k[i] & 3);", "made", CALL, ("k[i] & 3", "0")),
    "written by one of two functions that call each other": (
        "float x;\nodd(&x, k[i] & 7);\na[i] = x;",
        "x",
        READ,
        ("k[i] & 7", "k[i] | 1"),
    ),
    "a sum over the simdgroup": (f"{_X}a[i] = simd_sum(x);", "x", STORE, _FIX),
    "a sum that lacks the last": (f"{_LAST}a[i] = simd_sum(x);", "x", STORE, ("< 31", "< 32")),
    "a product": (f"{_X}a[i] = simd_product(x + 1);", "x", STORE, _FIX),
    "the least": (f"{_X}a[i] = simd_min(x);", "x", STORE, _FIX),
    "the greatest of halves": (
        "half x;\nif (k[i] > 4) x = k[i];\na[i] = simd_max(x);",
        "x",
        STORE,
        ("half x;", "half x = 0;"),
    ),
    "bits of all": (f"{_N}a[i] = simd_or(x);", "x", STORE, _FIX_N),
    "a running sum": (f"{_X}a[i] = simd_prefix_inclusive_sum(x);", "x", STORE, _FIX),
    "a shuffle": (f"{_X}a[i] = simd_shuffle_xor(x, 1);", "x", STORE, _FIX),
    "a broadcast": (f"{_X}a[i] = simd_broadcast(x, 3);", "x", STORE, _FIX),
    "the first one's": (f"{_X}a[i] = simd_broadcast_first(x);", "x", STORE, _FIX),
    "down to its neighbour": (f"{_LAST}a[i] = simd_shuffle_down(x, 1);", "x", STORE, ("< 31", "< 32")),
    "shuffled around": (f"{_LAST}a[i] = simd_shuffle_rotate_up(x, 1);", "x", STORE, ("< 31", "< 32")),
    "a filling": (
        "float x;\na[i] = simd_shuffle_and_fill_up(float(k[i]), x, 2);",
        "x",
        STORE,
        ("float x;", "float x = 0;"),
    ),
    "a sum over the quadgroup": (f"{_X}a[i] = quad_sum(x);", "x", STORE, _FIX),
    "a component of a vector that is shuffled": (
        "float4 x;\nx.xyz = k[i];\nfloat4 y = simd_shuffle(x, 2);\na[i] = y.w;",
        "x",
        STORE,
        ("x.xyz = k[i]", "x = k[i]"),
    ),
    "a vote": (f"{_N}a[i] = simd_any(x > 30) ? 1 : 2;", "x", STORE, _FIX_N),
    "a vote that decides": (f"{_N}if (simd_all(x > 3)) a[i] = 2;\nelse a[i] += k[i];", "x", BRANCH, _FIX_N),
    "a ballot": (f"{_N}a[i] = popcount(uint(ulong(simd_ballot(x > 3))));", "x", STORE, _FIX_N),
    "an index from another thread": (
        "uint j;\nif (k[i] > 4) j = i;\na[i] = k[simd_shuffle_xor(j, 1) & 63];",
        "j",
        ADDRESS,
        ("uint j;", "uint j = 0;"),
    ),
    "twice to others": (f"{_X}a[i] = simd_sum(simd_shuffle_xor(x, 1));", "x", STORE, _FIX),
}
THROUGH_OTHERS_LEGAL = {
    "filled by a function that calls itself": "float v[8];\nup(v, 8);\na[i] = down(v, k[i] & 7);",
    "a part filled by a function that calls itself": "float v[8];\nup(v, k[i] & 7);\na[i] = down(v, k[i] & 7);",
    "a copy into what is given to it": "float w[8];\nfor (int j = 0; j < 8; j++) w[j] = k[j];\na[i] = down(w, 8);",
    "a value that is given to it": "float x;\nif (k[i] >= 0) x = k[i];\na[i] = again(x, 3);",
    "an out parameter of a function apart": "float v[8];\nfill(v, 8);\na[i] = v[k[i] & 7];",
    "elements that a function apart leaves alone": "float v[4];\nv[0] = v[1] = k[i];\na[i] = element(v, k[i] & 1);",
    "a sum whose result nobody uses": f"{_X}float s = simd_sum(x);\na[i] = k[i];",
    "a sum that the first alone lacks, and nobody uses": f"{_LAST}float s = simd_sum(x);\nif (k[i] > 99) a[i] = s;",
    "down from those that have it": f"{_LAST}float y = simd_shuffle_down(x, 1);\nif (t % 32 < 30) a[i] = y;",
    "a running sum up to those that have it": (
        f"{_LAST}float y = simd_prefix_inclusive_sum(x);\nif (t % 32 < 31) a[i] = y;"
    ),
    "a running sum before it": f"{_LAST}a[i] = simd_prefix_exclusive_sum(x);",
    "some of the threads alone": f"{_LAST}if (t % 32 < 31) a[i] = simd_sum(x);",
    "components that have a value": "float4 x;\nx.xyz = k[i];\nfloat4 y = simd_shuffle(x, 2);\na[i] = y.x + y.z;",
    "a quadgroup that has it": "float x;\nif (t % 32 < 8) x = k[i];\nfloat y = quad_sum(x);\nif (t % 32 < 8) a[i] = y;",
    "bits of a ballot that are known": (
        "int x;\nif (t % 32 < 16) x = k[i];\nulong said = ulong(simd_ballot(x > 3));\na[i] = said >> (t & 15) & 1;"
    ),
    "a value of before": f"{_X}float y = simd_shuffle_xor(x, 1);\nx = k[i];\na[i] = simd_shuffle_xor(x, 1);",
    "padding that is shuffled": "Padded p;\np.c = 1; p.f = k[i];\na[i] = simd_shuffle(p.f, 3) + p.c;",
    "a vote of those that know": f"{_LAST}bool c = t % 32 < 31;\nif (simd_any(c && x > 3)) a[i] = 1;",
}

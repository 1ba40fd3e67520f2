"""More of hostile_table.py: what the compiler reads and the checks do not, and what the checks themselves choke on."""

from __future__ import annotations

from .hostile_table import HEAD, KERNEL, Hostile, _body, _top

_ASM = 'asm volatile("ud2");'
_LOOP = "\n#pragma {}\nfor (int a = 0; a < 8; a++) out[a] += 1; {}"
_COPY = "S t = *(device S*)out; t.a[int(out[0]) & 63] += 1; *(device S*)(out + 1) = t;"
_UNSEEN = f'struct S {{ static void f() __asm__("NAME") __attribute__((used)) {{ {_ASM} }} }};'
_MEMCPY, _FMODF = _UNSEEN.replace("NAME", "memcpy"), _UNSEEN.replace("NAME", "fmodf")


def _pragma(name: str, pragma: str, after: str = "", before: str = "", *, runs: bool = False) -> Hostile:
    return _body(f"pragma-loop-{name}", _LOOP.format(pragma, after), before, runs=runs)


PRAGMAS = (
    _pragma("copies", f"unroll (sizeof(({{ {_MEMCPY} 4; }})))", _COPY, "struct S { float a[200]; };"),
    _pragma("calls", f"unroll (sizeof(({{ {_FMODF} 4; }})))", "out[i] = fmod(out[i], out[i + 1]);"),
    _pragma("count", f"clang loop unroll_count(sizeof(({{ {_FMODF} 4; }})))"),
    _pragma("statement", f"unroll (({{ {_ASM} 4; }}))"),
    _pragma("lambda", "unroll (sizeof([]() __attribute__((used)) { return 4; }))"),
    _pragma("builtin", 'unroll (__builtin_strlen("abcd"))'),
    _pragma("own", "unroll (soft::own_lane())"),
    _pragma("backtracking", f"unroll {'a' * 20_000} {'b ' * 5_000}\\"),
    _pragma("width", "clang loop vectorize_width(1048576)", runs=True),
    _pragma("interleaved", "clang loop interleave_count(1073741824) vectorize_width(64)", runs=True),
    _pragma("expression", "unroll (N > 2 ? N / 2 : min(N, 4))", before="constant constexpr int N = 8;", runs=True),
)
LABELS = (
    _body("label-chosen", "x: auto p = true ? &&x : &&x; out[i] = (ulong)p;"),
    _body("label-cast", "x: out[i] = (ulong)&&x;"),
    _body("label-compared", "x: out[i] = out < &&x;"),
)
TEXT = (
    _body("hidden-raw-string-quote", f'auto a = R""( " )""; {_ASM} auto b = R""( " )"";'),
    _body("hidden-raw-string-quotes", f'auto a = R"x"(" )x""; {_ASM} auto b = R"x"(" )x"";'),
    _body("hidden-digit-separator-underscore", f"auto a = 1'_x; {_ASM} auto b = 1'_x;"),
    _body("digraph-made-by-macro", "out[i] = 1;", '#define H %:\nH include "SECRET"'),
    _body("digraph-braces", f"<% {_ASM} %>"),
    _body("digraph-attribute-in-body", "<:<:gnu::naked:>:> int x = 1; out[i] = x;"),
    _body("date", "out[i] = d[i];", "constant char d[] = __DATE__;"),
    _body("time", "out[i] = d[i];", "constant char d[] = __TIME__;"),
    _body("timestamp", "out[i] = d[i];", "constant char d[] = __TIMESTAMP__;"),
    _body("long-double-suffix", "auto x = 1.0L; out[i] = x * out[i];"),
    _body("long-suffix", "out[i] = 10L + 0x1eL + 0xeul;", runs=True),
)


def _index(name: str, index: str, before: str = "") -> Hostile:
    return _top(f"index-{name}", f"{before}\nkernel void g(device float *a [[buffer({index})]]) {{}}")


_SQUARES = "constant ulong a0 = 1ul << 63;" + "".join(f"constant ulong a{n + 1} = a{n} * a{n};" for n in range(44))
_DOUBLES = "constant ulong a0 = 1;" + "".join(f"constant ulong a{n + 1} = a{n} + a{n};" for n in range(44))
_CHOICES = "".join(f"constant ulong a{n + 1} = true ? a{n} : a{n};" for n in range(44))
VALUES = (
    _index("octal", "08"),
    _index("long", "9" * 5000),
    _index("infinite", "1e400"),
    _index("not-a-number", "int(1e400 - 1e400)"),
    _index("beyond-float", "float(a)", f"constant ulong a = 1ul << 63 {'* (1ul << 63)' * 17};"),
    _index("beyond-division", "a / 2.0f", f"constant ulong a = 1ul << 63 {'* (1ul << 63)' * 17};"),
    _index("squares", "a44", _SQUARES),
    _index("doubles", "a44", _DOUBLES),
    _index("choices", "a44", _CHOICES),
    _body("literal-long", f"out[i] = {'9' * 5000};"),
    _top("constant-index-infinite", "constant int a [[function_constant(1e400)]];"),
    _top("threads-infinite", "[[max_total_threads_per_threadgroup(1e400)]] kernel void g(device float *a) {}"),
)


def _threads(name: str, limit: str, before: str = "", *, runs: bool = False) -> Hostile:
    kernel = f"[[max_total_threads_per_threadgroup({limit})]] {KERNEL.format('out[i] = 1;')}"
    return Hostile(f"threads-{name}", f"{HEAD}{before}\n{kernel}", runs)


_CONVERTED = "struct S {{ {} operator uint() const constant {{ {} }} }}; constant S s{{}};"
SIZES = (
    _threads("none", "f()", "constexpr uint f() { return 0; }"),
    _threads("too-many", "f()", "constexpr uint f() { return 1u << 31; }"),
    _threads("wrapped", "f()", "constexpr ulong f() { return (1ul << 32) + 64; }"),
    _threads("worked-out", "f()", "constexpr uint f() { return 64; }", runs=True),
    _threads("converted", "s", _CONVERTED.format("constexpr", "return 64;"), runs=True),
    _threads("run-at-load", "s", _CONVERTED.format("", "while (true) {}")),
    _body("threadgroup-wrapped", "threadgroup char t[(1ul << 32) + 64]; t[i] = 1; out[i] = t[i + (1ul << 32)];"),
    _body("threadgroup-vast", "threadgroup char t[1ul << 40]; t[i] = 1; out[i] = t[i + (1ul << 39)];"),
    _body("threadgroup-aligned", "threadgroup alignas(1 << 28) float t[32]; t[i] = 1; out[i] = t[31 - i];"),
    _body("stack-beyond-words", "char a[1ul << 40]; a[ulong(out[i])] = 1; out[i] = a[i];"),
    _body("stack-wrapped", "char a[(1ul << 32) + 64]; a[ulong(out[i])] = 1; out[i] = a[i + (1ul << 31)];"),
    _body("stack-largest", "char a[(1ul << 31) - 4096]; a[ulong(out[i])] = 1; out[i] = a[i];", runs=True),
    _body("buffer-wrapped", "*(device S*)out = S();", "struct S { char a[(1ul << 32) + 4]; };", runs=True),
    _body(
        "mutable-constant",
        "s.x[i] = out[i] + i; out[i] = s.x[31 - i];",
        "struct S { mutable int x[32]; }; constant S s = {{1}};",
    ),
    _body("no-result", "out[i] = f(out);", "__attribute__((noinline)) int f(device float *p) { p[0] = 2; }", runs=True),
    _body("no-return", "f(out); out[i] = 1;", "[[noreturn]] void f(device float *p) { p[0] = 2; }", runs=True),
    _body("assumed-loop", "__builtin_assume(({ while (true) {} true; })); out[i] = 1;", runs=True),
    _body("scan-of-memory", "for (ulong n = 0; n < 1ul << 40; n++) out[n] = 1;", runs=True),
)
_LOCALS = "".join(f"float a{n} = out[{n}]; thread float &r{n} = a{n};\n" for n in range(6000))
_ENUMERATORS = ",".join(f"e{n}" for n in range(50_000))
BOMBS = (
    _body("bomb-of-strings", "f(" + '"a",' * 30_000 + "0);"),
    _body("bomb-of-references", _LOCALS),
    _top("bomb-of-attributes", f"[[{'foo::bar,' * 30_000} foo::x]] void f() {{}}", runs=True),
    _top(
        "bomb-of-enumerators",
        f"enum E {{ {_ENUMERATORS} }}; kernel void g(device float *a [[buffer(e49999 - 49998)]]) {{}}",
        runs=True,
    ),
    _body("bomb-of-errors", "double x; " * 20_000),
    _body("bomb-of-assignments", f"int a; {'a = ' * 30_000} 1;"),
)
FORMS = (*PRAGMAS, *LABELS, *TEXT, *VALUES, *SIZES, *BOMBS)

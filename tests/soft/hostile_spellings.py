"""More of hostile_table.py: other spellings of pragmas, attributes, text, tables of functions, and shapes that grow."""

from __future__ import annotations

from .hostile_table import HEAD, KERNEL, Hostile, _body, _top

_ASM = 'asm("syscall");'
_LOOP = "\n#pragma {}\nfor (int a = 0; a < 4; a++) out[i] += 1;"
_DROPPED = (
    "clang attribute push([[gnu::constructor]], apply_to = function)",
    "clang attribute (__attribute__((used)), apply_to = function)",
    'GCC target("avx512f")',
    'GCC optimize("O0")',
    "weak k = system",
    "redefine_extname k system",
    "pack(push, 1)",
    'pop_macro("float")',
    'include_alias(<metal_stdlib>, "SECRET")',
    'comment(linker, "/EXPORT:x")',
    'clang section bss="a" data="b" rodata="c" text="d"',
    "clang fp exceptions(strict)",
    "float_control(precise, on)",
    "STDC FENV_ROUND FE_UPWARD",
    'clang diagnostic ignored "-Weverything"',
    'code_seg("x")',
    "function(memcpy)",
    "omp declare target",
    "clang module endbuild",
    f"mark {_ASM}",
    f"region {_ASM}",
)
_REFUSED = (
    "unroll (new int)",
    "unroll (asm(1))",
    "unroll (throw 1, 4)",
    "unroll sizeof(typeid(int))",
    "unroll (f())",
    f"unroll {'9' * 5000}",
    f"unroll {'(' * 50_000}4{')' * 50_000}",
    "clang restrict_expansion(asm)",
    "clang assume_nonnull begin",
    "clang module load x",
    "clang __debug module_map",
)
_P = "#define P(x) _Pragma(#x)\n"
PRAGMAS = (
    *(_top(f"spelled-pragma-{n}", f"#pragma {text}", runs=True) for n, text in enumerate(_DROPPED)),
    *(
        _body(
            f"spelled-pragma-refused-{n}",
            _LOOP.format(text),
            "constexpr int f() { int n = 0; while (true) n ^= 1; return n; }",
        )
        for n, text in enumerate(_REFUSED)
    ),
    _top("spelled-pragma-by-macro", f"{_P}P(clang attribute push(__attribute__((used)), apply_to = any))", runs=True),
    _top("spelled-pragma-microsoft", "__pragma(weak system)", runs=True),
    _body("spelled-pragma-microsoft-loop", f"__pragma(unroll (({{ {_ASM} 4; }}))) for (int a = 0; a < 4; a++) ;"),
    _top("spelled-pragma-digraph", "%:pragma clang __debug crash"),
    _top("spelled-pragma-in-pragma", '_Pragma("_Pragma(\\"clang __debug crash\\")")'),
)
_ATTRIBUTES = """
[[__gnu__::__constructor__]] void f() {}
[[_Clang::constructor]] void f() {}
[[::gnu::constructor]] void f() {}
[[using gnu: always_inline, constructor]] void f() {}
[[]] [[]] [[gnu::naked]] void f() {}
[[deprecated("x"), gnu::constructor]] void f() {}
[[gnu constructor]] void f() {}
[[likely,,,]] void f() {}
[[ [[ ]] ]] void f() {}
[[a (((]] void f() {}
__attribute__((__gnu__::constructor)) void f() {}
__attribute__((always_inline))((constructor)) void f() {}
__attribute__((pure __attribute__((constructor)))) void f() {}
__attribute__ void f() {}
void f() __attribute__((diagnose_if(1, "x", "error"))) {}
void f() __attribute__((enable_if(({ asm("ud2"); true; }), ""))) {}
kernel void g [[gnu::constructor]] (device float *a) {}
kernel void g(device float *a [[buffer(0)]] [[gnu::section("x")]]) {}
using T [[gnu::constructor]] = int;
__declspec(thread) int x;
"""
ATTRIBUTES = (
    *(_top(f"spelled-attribute-{n}", text) for n, text in enumerate(_ATTRIBUTES.split("\n")[1:-1])),
    _top("spelled-attribute-dropped", "[[gnu::constructor::x]] void f() {}", runs=True),
    _top("spelled-attribute-of-compilers", "[[msvc::noinline, clang::xray_always_instrument]] void f() {}", runs=True),
    _top("spelled-attribute-packed", "struct [[gnu::packed]] S { char a; int b; };", runs=True),
    _top("spelled-host-name", '[[host_name("../../../x")]] kernel void g(device float *a) {}', runs=True),
)
_EVALUATED = (
    "constexpr uint f() {{ if (!__builtin_is_constant_evaluated()) {} return 64; }}\n"
    "[[max_total_threads_per_threadgroup(f())]] "
)
TEXT = (
    _body("spelled-name", '\\N{LATIN SMALL LETTER A}sm("syscall");'),
    _body("spelled-octal", '\\o{141}sm("syscall");'),
    _top("spelled-fullwidth", "\uff45xtern int system();"),
    _body("spelled-joiner", 'as\u200dm("syscall");'),
    _top("spelled-bidirectional", f"// \u202e \n void f() {{ {_ASM} }}"),
    _top("spelled-no-break-space", "ex\u00a0tern int x;"),
    _body("spelled-splice-return", 'as\\\r\nm("syscall");'),
    _body("spelled-splice-blank", 'as\\ \nm("syscall");'),
    _body("spelled-splice-builtin", "__buil\\\ntin_abo\\\nrt();"),
    _body(
        "spelled-pasted-builtin",
        "J(__built, J2(in_, abort))();",
        "#define J(a, b) K(a, b)\n#define K(a, b) a##b\n#define J2(a, b) a##b",
    ),
    _top("spelled-line-file", '#line 1 "SECRET"\n#include __FILE__'),
    _body("spelled-line-name", "out[i] = missing;", f'#line 1 "{"a" * 100_000}"'),
    _body("spelled-line-octal", "out[i] = missing;", '#line 1 "\\377\\376"'),
    _body(
        "spelled-marker-in-string",
        "out[i] = soft::own_lane();",
        'constant char s[] = R"(\n# 1 "/include/soft.h" 3\n)";',
    ),
    _top("spelled-generic", 'constant int x = _Generic(({ asm("ud2"); 1; }), int: 1, default: 2);'),
    _body("spelled-typeof", '__typeof__(({ asm("ud2"); 1; })) a = 1; out[i] = a;'),
    _body("spelled-assertion", 'static_assert(({ while (true) {} true; }), "");'),
    _top("spelled-initialiser", "int f() { while (true) {} return 1; } inline constant int x = f();"),
    _body("spelled-name-of-a-function", "out[i] = f();", 'int f() __asm__("soft_run"); int f() { return 1; }'),
    Hostile("spelled-mark-of-order", "\ufeff" + HEAD + KERNEL.format("out[i] = 1;"), runs=True),
    Hostile("spelled-returns", (HEAD + KERNEL.format("out[i] = 1;")).replace("\n", "\r\n"), runs=True),
    Hostile("spelled-controls", "".join(map(chr, range(1, 32))) + HEAD + KERNEL.format("out[i] = 1;")),
    Hostile("spelled-surrogates", HEAD + KERNEL.format('const char s[] = "\ud83d\ude00"; out[i] = s[0];')),
    *(
        Hostile(
            f"spelled-threads-{n}",
            HEAD + _EVALUATED.format(text) + KERNEL.format("out[i] = 1;"),
            runs=True,
        )
        for n, text in enumerate(("while (true) {}", "*(device int *)(ulong)8 = 1;"))
    ),
)
_TWO = "void f(device float *o) { o[0] = 1; } void g(device float *o) { o[1] = 2; }\n"
TABLES = (
    _body("table-of-functions", "t[i & 1](out);", f"{_TWO}void (*constant t[2])(device float *) = {{f, g}};"),
    _body("table-as-array", "t[i & 1](out);", f"{_TWO}constant array<void (*)(device float *), 2> t = {{f, g}};"),
    _body("table-by-lambda", "auto t = [](int n) { return n ? f : g; }; t(int(out[i]))(out);", _TWO),
    _body("table-by-condition", "(out[i] > 0 ? f : g)(out);", _TWO),
    _body("table-by-result", "h(int(out[i]))(out);", f"{_TWO}auto h(int n) {{ return n ? &f : &g; }}"),
    _body("table-of-one", "t[i](out);", f"{_TWO}void (*constant t[1])(device float *) = {{f}};", runs=True),
    _body("own-name-taken", "out[i] = soft_tg_size();", "uint soft_tg_size() { while (true) {} }", runs=True),
)
_DERIVED = "".join(f"constant int a{n + 1} = a{n} + 1;" for n in range(20_000))
GROWING = (
    _body("growing-signs", f"out[i] = {'- ' * 100_000}1;"),
    _body("growing-commas", f"out[i] = ({'1,' * 300_000} 1);"),
    _body("growing-templates", f"f{'<f' * 50_000}>();"),
    _body("growing-subscripts", f"out[i] = out{'[0]' * 100_000};"),
    _body("growing-choices", f"out[i] = {'1 ? ' * 30_000}1{' : 1' * 30_000};"),
    _body("growing-brackets", f"out{'[' * 100_000}{']' * 100_000};"),
    _body("growing-splices", "\\\n" * 1_500_000),
    _body("growing-string", '"' + '\\"' * 1_000_000),
    _body("growing-raw-string", 'R""( ' + 'R"a( ' * 500_000 + ')"" goto x;'),
    _body("growing-zeros", f"threadgroup float t = {'0' * 3_000_000}z; goto x;"),
    _body("growing-line", "goto x;", f"#if 0\n# {'1' * 3_000_000}x\n#endif"),
    _body("growing-literal", f"out[i] = 0x{'1' * 3_000_000};"),
    _body("growing-text", f'const char s[] = "{"a" * 10_000_000}";'),
    _top("growing-condition", f"#if {'(' * 100_000}1{')' * 100_000}\n#endif"),
    _top("growing-classes", "struct S {" * 20_000 + "};" * 20_000),
    _top("growing-notes", "[[foo::bar]] " * 2000 + "void f() {}", runs=True),
    _top(
        "growing-index",
        f"constant int a0 = 1; {_DERIVED} kernel void g(device float *t [[buffer(a20000 - 20001)]]) {{}}",
    ),
    _body("growing-arguments", f"f({'1,' * 200_000} 1);", "#define f(...) out[i] = 1", runs=True),
)
FORMS = (*PRAGMAS, *ATTRIBUTES, *TEXT, *TABLES, *GROWING)

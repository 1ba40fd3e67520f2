"""More of hostile_table.py: text that readers of C++ misjudge, late forms of attributes, types, pointers and bombs."""

from __future__ import annotations

from .hostile_table import Hostile, _body, _top

_ASM = 'asm("syscall");'
# What a reader takes for the end or the beginning of a comment, string or number, and the compiler does not.
HIDDEN = (
    _body("hidden-raw-string", f'constant char s[] = R"(")"; {_ASM} //")";'),
    _body("hidden-raw-string-delimiter", f'const char s[] = R"x(" )" )x"; {_ASM} //"'),
    _body("hidden-raw-string-u8", f'const char s[] = u8R"(")"; {_ASM} //")"'),
    _body("hidden-raw-string-wide", f'auto s = LR"(")"; {_ASM} //")"'),
    _body("hidden-raw-string-pasted", f'auto s = J(u8, R"(")"); {_ASM} //")"', "#define J(a, b) a##b"),
    _body("hidden-digit-separator", f"int a = 1'0; {_ASM} int b = 1'0;"),
    _body("hidden-digit-separators", f"int a = 0x1'2'3; {_ASM} int b = 0b1'0'1'0;"),
    _body("hidden-spliced-comment-end", f"/* *\\\n/ {_ASM} /* */"),
    _body("hidden-spliced-comment-begin", f"/\\\n* \n*/ {_ASM} /* */"),
    _body("hidden-spliced-line-comment", f"/\\\n/ *\\\n/* \n {_ASM} /* */"),
    _body("hidden-spliced-blank", f"// \\ \n // \n {_ASM}"),
    _body("hidden-spliced-string", f'const char s[] = "\\\n"; {_ASM} //"'),
    _body("hidden-quoted-backslash", f"char c = '\\\\'; {_ASM} char d = '\\'';"),
    _body("hidden-quoted-quote", f"char c = '\"'; {_ASM} char d = '\"';"),
    _top("hidden-skipped-apostrophe", f"#if 0\n don't \n#endif\nvoid f() {{ {_ASM} }} // '"),
    _top("hidden-skipped-quote", f'#if 0\n " \n#endif\nvoid f() {{ {_ASM} }} // "'),
    _top("hidden-skipped-comment", f"#if 0\n // /* \n#endif\nvoid f() {{ {_ASM} }} /* */"),
    _top("hidden-directive-apostrophe", f"#define D don't\nvoid f() {{ {_ASM} }} // '"),
    _body("hidden-trigraph-splice", f"// ??/\n {_ASM}"),
    _body("hidden-carriage-return", f"// x\r {_ASM}"),
    _body("hidden-form-feed", f"// x\f\n {_ASM}"),
    _body("hidden-line-separator", f"// x\u2028 \n {_ASM}"),
    _body("hidden-byte-order-mark", f"\ufeff {_ASM}"),
)
ASSEMBLY = (
    _body("asm-pasted", 'J(a, sm)("syscall");', "#define J(a, b) a##b"),
    _body("asm-pasted-digraph", 'J(a, sm)("syscall");', "%:define J(a, b) a %:%: b"),
    _body("asm-escaped", '\\u0061sm("syscall");'),
    _body("asm-escaped-braces", '\\u{61}sm("syscall");'),
    _body("asm-spliced", 'as\\\nm("syscall");'),
    _body("asm-extension", '__extension__ asm("syscall");'),
    _body("asm-in-expression", 'out[i] = ({ asm("syscall"); 1; });'),
    _body("asm-in-lambda", 'auto f = [] { asm("syscall"); }; f();'),
    _body("asm-goto", 'asm goto("jmp %l0" :::: there); there: out[i] = 1;'),
    _body("asm-inline", '__asm__ inline("syscall");'),
    _body("asm-raw", 'asm(R"(syscall)");'),
    _body("asm-template", "f<int>();", 'template <typename T> void f() { asm("syscall"); }'),
    _body("asm-macro-argument", 'M(asm("syscall"))', "#define M(x) x;"),
)
_ATTRIBUTES = """
patchable_function_entry(1000000)
xray_always_instrument
target_clones("avx2", "default")
cpu_dispatch(generic)
returns_twice
malloc
preserve_all
swiftcall
tls_model("initial-exec")
uninitialized
enable_if(1, "")
btf_decl_tag("x")
error("x")
nodebug
no_instrument_function
zero_call_used_regs("all")
function_return("thunk-extern")
"""
ATTRIBUTES = (
    *(
        _top(f"attribute-late-{n}", f"__attribute__(({name})) void f() {{}}", runs=name.startswith("enable_if"))
        for n, name in enumerate(_ATTRIBUTES.split("\n")[1:-1])
    ),
    _top("attribute-keyword-pasted", "#define J(a, b) a##b\nJ(__attri, bute__)((constructor)) void f() {}"),
    _top("attribute-spaced", "[ [ gnu :: constructor ] ] void f() {}"),
    _top("attribute-spliced", "[\\\n[gnu::constructor]] void f() {}"),
    _top("attribute-in-template", "template <int N> [[gnu::constructor]] void f() {}"),
    _top("attribute-on-struct", 'struct [[gnu::visibility("default")]] S {};'),
    _top("attribute-on-enumerator", 'enum E { A __attribute__((annotate("x"))) };'),
    _body("attribute-statement", "[[clang::musttail]] return;", runs=True),
    _body("attribute-vast-vector", "typedef float V __attribute__((vector_size(1 << 24))); V v = {}; out[i] = v[i];"),
    _body("attribute-vast-alignment", "__attribute__((aligned(1 << 28))) float a[4]; out[i] = a[i];", runs=True),
    _body("alignas-vast", "alignas(1 << 28) float a[4]; out[i] = (ulong)a;", runs=True),
)
FILES = (
    _top("include-itself", "#include __FILE__"),
    _top("include-base-file", "#include __BASE_FILE__"),
    _top("include-descriptor", '#include "/proc/self/fd/0"'),
    _top("include-stringised", "#define S(x) #x\n#define F(x) S(x)\n#include F(SECRET)"),
    _top("include-trigraph", '??=include "SECRET"'),
    _top("include-raw-string", '#include R"(SECRET)"'),
    _top("include-blank-name", '#include ""'),
    _top("include-module-unit", "export module x;\nimport <SECRET>;"),
    _top("include-global-module", 'module;\n#include "SECRET"\nexport module x;'),
    _body("embed-spaced", 'const char a[] = {\n#  em\\\nbed "SECRET"\n}; out[i] = a[0];'),
    _body("embed-digraph", 'const char a[] = {\n%:embed "SECRET"\n}; out[i] = a[0];'),
    _body("source-location", "out[i] = __builtin_FILE()[i];"),
)
POINTERS = (
    _body("pointer-bit-cast", "__builtin_bit_cast(F, ulong(0x1234))();", "using F = void (*)();"),
    _body("pointer-as-type", "as_type<F>(ulong(0x1234))();", "using F = void (*)();"),
    _body("pointer-union", "union { ulong a; void (*f)(); } u; u.a = 0x1234; u.f();"),
    _body("pointer-lambda", "auto f = +[] {}; f = (decltype(f))0x1234; f();"),
    _body("pointer-typeof", "__typeof__(f) *p = (__typeof__(f) *)0x1234; p();", "void f() {}"),
    _body("pointer-trailing-type", "auto (*p)() -> void = (auto (*)() -> void)0x1234; p();"),
    _body("pointer-argument-cast", "((void (*)())out)();"),
    _body(
        "pointer-template-type",
        "call<void (*)()>(out);",
        "template <typename F> void call(device float *p) { ((F)p)(); }",
    ),
    _body(
        "pointer-deduced",
        "call((ulong)out, f);",
        "void f() {} template <typename F> void call(ulong p, F) { ((F)p)(); }",
    ),
    _body("pointer-added", "auto p = &f; p = (decltype(p))((ulong)p + 1); p();", "void f() {}"),
    _body("pointer-copied", "auto p = &f; *(thread ulong *)&p = 0x1234; p();", "void f() {}"),
    _body(
        "pointer-conversion", "S s; ((F)s)();", "using F = void (*)(); struct S { operator F() { return (F)0x1234; } };"
    ),
)
OWN = (
    _top(
        "own-namespace-pasted",
        "#define J(a, b) a##b\nnamespace J(so, ft) { inline float mine() { return own_lane(); } }",
    ),
    _top("own-namespace-nested", "namespace soft::mine { inline float f() { return own_lane(); } }"),
    _top("own-namespace-inline", "inline namespace soft { inline float f() { return own_lane(); } }"),
    _body("own-using", "out[i] = 1;", "using ::soft_run;"),
    _body("own-by-macro", "N own_lane();", "#define N out[i] = soft::"),
    _body("own-lookup", "out[i] = own_lane();", "struct S : soft_lane {};"),
    _body("own-launch", "out[i] = soft_current_launch()->lengths[0];"),
    _top("own-words-undone", "#undef kernel\n#undef device\n#undef constant\n#undef threadgroup", runs=True),
    _top("own-words-redone", "#define float int\n#define if while", runs=True),
)
PRAGMAS = (
    *(
        _top(f"pragma-late-{n}", f"#pragma {text}", runs=not text.endswith(("overflow_stack", "begin")))
        for n, text in enumerate(
            (
                "clang __debug parser_crash",
                "clang __debug overflow_stack",
                "clang __debug handle_crash",
                "clang __debug assert",
                "clang __debug llvm_unreachable",
                'push_macro("asm")',
                "clang max_tokens_total 1",
                "STDC FENV_ACCESS ON",
                "clang unsafe_buffer_usage begin",
                "intel reorder",
                'message("x")',
            )
        )
    ),
    _top(
        "pragma-raw", '_Pragma(R"(clang attribute push(__attribute__((constructor)), apply_to = function))")', runs=True
    ),
    _top("pragma-spliced-crash", "#pragma clang __de\\\nbug crash"),
    _top("pragma-macro-crash", '#define P _Pragma("clang __debug crash")\nP'),
)
TYPES = (
    _body("stack-recursion", "out[i] = f(int(out[i]));", "int f(int x) { return f(x + 1) + f(x - 1) + 1; }", runs=True),
    _body("stack-vast-array", "float a[1 << 28]; a[uint(out[i])] = 1; out[i] = a[i];", runs=True),
    _body(
        "stack-vast-structure", "S s = *(device S *)out; out[i] = s.a[i];", "struct S { float a[1 << 26]; };", runs=True
    ),
    _body("stack-variable-array", "float a[int(out[i])]; out[i] = a[0];"),
    _body("type-bit-integer", "_BitInt(4096) a = out[i]; out[i] = float(a / (a + 1));"),
    _body("type-vast-bit-integer", "_BitInt(8388608) a = out[i]; out[i] = float(a * a / 3);"),
    _body("type-complex", "_Complex float c = out[i]; c = c * c; out[i] = __real__ c;"),
    _body("type-long-double", "long double d = out[i]; out[i] = float(d / 3);"),
    _body("type-float128", "__float128 d = out[i]; out[i] = float(d / 3);"),
    _body("type-variadic", "f(1, 2);", "void f(int n, ...) {}", runs=True),
    _body("placement-new", "new (out) float(1);"),
    _top("operator-new-defined", "void *operator new(ulong size) { return 0; }"),
    _body("nested-function", "int f() { return 1; } out[i] = f();"),
    _body("initialiser-list", "for (auto x : {1, 2, 3}) out[i] += x;", runs=True),
)
_STRINGS = '#define S0 "aaaaaaaa"\n' + "\n".join(f"#define S{n} S{n - 1} S{n - 1}" for n in range(1, 40))
BOMBS = (
    _body("bomb-case-range", "switch (int(out[i])) { case 0 ... 1000000000: out[i] = 1; }", runs=True),
    _body("bomb-designators", "out[i] = a[i];", "constant char a[1 << 30] = {[0 ... (1 << 30) - 1] = 1};"),
    _body("bomb-strings", "out[i] = sizeof(S39);", _STRINGS),
    _body("bomb-name", f"int {'a' * 1_900_000} = 1; out[i] = {'a' * 1_900_000};", runs=True),
    _body("bomb-braces", "{" * 20_000 + "}" * 20_000),
    _body("bomb-pointers", f"device float {'*' * 50_000}p = 0; out[i] = !p;", runs=True),
    _body("bomb-conditionals", "out[i] = " + "i ? 1 : " * 20_000 + "0;"),
    _top("bomb-nested-conditions", "#if 1\n" * 50_000 + "#endif\n" * 50_000, runs=True),
    _body("bomb-lambdas", "auto f = " + "[] { return " * 300 + "1" + "; }" * 300 + "; out[i] = 1;", runs=True),
    _body(
        "bomb-pack",
        "out[i] = sizeof(G<100000>);",
        "template <int N, typename... T> struct G : G<N - 1, int, T...> {};",
    ),
    _body(
        "bomb-unroll-count",
        "\n#pragma unroll 1000000000\nfor (int a = 0; a < int(out[i]); a++) out[a & 7] += 1;",
    ),
)
FORMS: tuple[Hostile, ...] = (*HIDDEN, *ASSEMBLY, *ATTRIBUTES, *FILES, *POINTERS, *OWN, *PRAGMAS, *TYPES, *BOMBS)

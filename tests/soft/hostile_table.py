"""Sources that try to leave MSL: to read files, run programs, end the process, or use up the machine.

SECRET stands for the path of a file that must not be read, SENTINEL for one that must not appear.
"""

from __future__ import annotations

from dataclasses import dataclass

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"
KERNEL = "kernel void k(device float* out, uint i [[thread_position_in_grid]]) {{ {} }}\n"


@dataclass(frozen=True)
class Hostile:
    """`runs` marks a form that means nothing bad after all: it may compile, run, and fault in its command buffer."""

    name: str
    source: str
    runs: bool = False


def _body(name: str, body: str, before: str = "", *, runs: bool = False) -> Hostile:
    return Hostile(name, HEAD + before + "\n" + KERNEL.format(body), runs)


def _top(name: str, text: str, *, runs: bool = False) -> Hostile:
    return _body(name, "out[i] = 1;", text, runs=runs)


FILES = (
    _top("include-absolute", '#include "SECRET"'),
    _top("include-angle", "#include <SECRET>"),
    _top("include-macro", '#define F "SECRET"\n#include F'),
    _top("include-spliced", '#inc\\\nlude "SECRET"'),
    _top("include-digraph", '%:include "SECRET"'),
    _top("include-commented", '#/**/include/**/"SECRET"'),
    _top("include-next", '#include_next "SECRET"'),
    _top("include-up", '#include "../../../../../../../../../../../../SECRET"'),
    _top("include-beside-headers", "#include <../soft.h>"),
    _top("include-working-directory", '#include "pyproject.toml"'),
    _top("include-endless", "#include </dev/zero>"),
    _top("include-terminal", "#include </dev/stdin>"),
    _top("include-random", '#include "/dev/urandom"'),
    _top("include-environment", '#include "/proc/self/environ"'),
    _top("include-maps", '#include "/proc/self/maps"'),
    _top("import", '#import "SECRET"'),
    _top("import-module", "@import Foundation;"),
    _top("import-pragma", "#pragma clang module import Foundation"),
    _top("import-header-unit", 'import "SECRET";'),
    _top("include-macros", '#__include_macros "SECRET"'),
    _body("embed", 'const char a[] = {\n#embed "SECRET"\n}; out[i] = a[0];'),
    _body("embed-angle", "const char a[] = {\n#embed <SECRET>\n}; out[i] = a[0];"),
    _body("embed-limit", 'const char a[] = {\n#embed "/dev/zero" limit(8)\n}; out[i] = a[0];'),
    _body("embed-standard-header", "const char a[] = {\n#embed <metal_stdlib>\n}; out[i] = a[0];"),
    _body("embed-builtin", 'const char a[] = { __builtin_pp_embed(char, "SECRET") }; out[i] = a[0];'),
    _top("has-include", '#if __has_include("SECRET")\n#error it is there\n#endif', runs=True),
    _top("has-include-next", '#if __has_include_next("SECRET")\n#error it is there\n#endif', runs=True),
    _top("has-embed", '#if __has_embed("SECRET")\n#error it is there\n#endif', runs=True),
    _body("line-directive", "out[i] = missing;", '#line 1 "SECRET"'),
    _body("line-marker", "out[i] = missing;", '# 1 "SECRET" 1'),
    _body("line-endless", "out[i] = missing;", '#line 1 "/dev/zero"'),
    _top("line-closure", '#line 1 "/dev/zero"', runs=True),
    _top("line-own-header", '#line 1 "/metal_stdlib" 3\nextern "C" void abort();'),
    _top("dead-include", '#if 0\n#include "/dev/zero"\n#endif', runs=True),
    _top("pragma-alias", '#pragma include_alias("metal_math", "SECRET")', runs=True),
    _top("pragma-dependency", '#pragma GCC dependency "SECRET"'),
    _top("pragma-system-header", '#pragma GCC system_header\n#include "SECRET"'),
)

_RUN = '(const device char*)"touch SENTINEL"'
CALLS = (
    _body("extern-c", f"system({_RUN});", 'extern "C" int system(const device char*);'),
    _body("extern-c-braces", f"system({_RUN});", 'extern "C" { int system(const device char*); }'),
    _body(
        "extern-c-pasted",
        f"system({_RUN});",
        '#define E ex##tern\n#define J(a, b) a##b\nJ(ext, ern) "C" int system(const device char*);',
    ),
    _body("extern-c-after-struct", f"system({_RUN});", 'extern "C" struct S { int x; } system(const device char*);'),
    _body("extern-cpp", "exit(1);", 'extern "C++" void exit(int);'),
    _body("extern-variable", "out[i] = environ;", "extern int environ;"),
    _body("extern-local", "extern void abort(); abort();"),
    _body(
        "extern-template",
        "out[i] = f(1);",
        "template <typename T> T f(T v) { return v; }\nextern template int f(int);",
    ),
    _body("undefined", "exit(1);", "void exit(int);"),
    _body("undefined-static", "abort();", "static void abort();"),
    _body("undefined-template", "exit(1);", "template <typename T> void exit(T);"),
    _body("undefined-member", "S s; s.exit(1);", "struct S { void exit(int); };"),
    _body("undefined-static-member", "S::abort();", "struct S { static void abort(); };"),
    _body("undefined-in-namespace", "std::terminate();", "namespace std { void terminate(); }"),
    _body("undefined-operator", "S s; out[i] = s + 1;", "struct S {};\nint operator+(S, int);"),
    _body("not-declared", 'system("touch SENTINEL");'),
    _body("not-declared-abort", "abort();"),
    _body("main", "out[i] = 1;", "int main() { return 1; }"),
    _body("friend", "S s; abort(s);", "struct S { friend void abort(S); };"),
    _body("printf", 'printf("%d", 1);'),
    _body("operator-new", "auto p = new int[1 << 30]; out[i] = p[0];"),
    _body("operator-delete", "device float* p = out; delete p;"),
    _body("enqueue-kernel", "enqueue_kernel(get_default_queue(), 0, ndrange_t(), ^{ out[0] = 1; });"),
    _body("block", "int (^b)(void) = ^{ return 3; }; out[i] = b();"),
    _body("block-argument", "auto b = ^(int x) { return x; }; out[i] = b(1);"),
    _body("throw", "throw 1;"),
    _body("typeid", "out[i] = typeid(int).hash_code();"),
    _body("goto", "again: goto again;"),
    _body("label-address", "here: auto p = &&here; goto *p;"),
    _body("coroutine", "co_return 1;"),
)
_ASSEMBLY = (
    'asm("hlt");',
    '__asm("hlt");',
    '__asm__("hlt");',
    'asm volatile("syscall");',
    '__asm__ __volatile__("syscall" ::: "memory");',
    "__asm { hlt }",
)
ASSEMBLY = (
    *(_body(f"asm-{n}", text) for n, text in enumerate(_ASSEMBLY)),
    _top("asm-of-a-file", 'asm(".globl soft_run");'),
    _top("asm-incbin", 'asm(".incbin \\"SECRET\\"");'),
    _body("asm-label", "out[i] = f(1);", 'float f(float) asm("system");'),
    _body("asm-register", 'register int x asm("rsp"); out[i] = x;'),
)
_BUILTINS = """
__builtin_abort()
__builtin_exit(1)
__builtin__exit(1)
__builtin_printf("x")
__builtin_malloc(8)
__builtin_alloca(8)
__builtin_alloca_with_align(8, 64)
__builtin_frame_address(0)
__builtin_return_address(0)
__builtin_extract_return_addr(0)
__builtin_longjmp(0, 1)
__builtin_setjmp(0)
__builtin_thread_pointer()
__builtin_eh_return(0, 0)
__builtin_unwind_init()
__builtin_cpu_supports("avx")
__builtin_cpu_init()
__builtin_debugtrap()
__builtin_verbose_trap("a", "b")
__builtin___clear_cache(0, 0)
__builtin_memcpy(out, out, 4)
__builtin_memset(out, 0, 4)
__builtin_strlen("abc")
__builtin_operator_new(8)
__builtin_readcyclecounter()
__builtin_ia32_rdtsc()
__builtin_ia32_pause()
__builtin_ia32_wrfsbase64(0)
__builtin_sponentry()
__builtin_va_start(out)
__builtin_dump_struct(out, 0)
__builtin_call_with_static_chain(0, 0)
__builtin_prefetch(out)
__builtin_nontemporal_store(1.0f, out)
__builtin_function_start(k)
__builtin_coro_done(0)
__builtin_init_dwarf_reg_size_table(out)
__sync_synchronize()
__atomic_store_n(out, 1, 0)
__c11_atomic_thread_fence(5)
__debugbreak()
__scoped_atomic_load_n(out, 0, 0)
__opencl_atomic_load(out, 0, 0)
__arithmetic_fence(1.0f) + __noop()
_mm_setcsr(0)
_mm_getcsr()
_mm_clflush(out)
_mm_pause()
_mm_mfence()
_m_prefetchw(out)
__rdtsc()
__xray_customevent("x", 1)
__warn_memset_zero_len()
"""
BUILTINS = tuple(_body(f"builtin-{text.partition('(')[0]}", f"{text};") for text in _BUILTINS.split("\n")[1:-1])
HARMLESS_BUILTINS = (
    _body("builtin-trap", "__builtin_trap();", runs=True),
    _body("builtin-unreachable", "if (i < 1000) __builtin_unreachable();", runs=True),
)

_ATTRIBUTES = """
constructor
destructor
constructor(101)
section("text")
alias("k")
ifunc("g")
weak
weakref("g")
used
visibility("default")
naked
target("avx512f")
no_sanitize("all")
interrupt
noreturn
init_priority(101)
annotate("x")
ms_abi
retain
disable_tail_calls
no_stack_protector
address_space(1)
cleanup(g)
"""
_SPELLINGS = {"gnu": "__attribute__((NAME)) void f() {}", "square": "[[gnu::NAME]] void f() {}"}
ATTRIBUTES = (
    *(
        _top(f"attribute-{kind}-{name.partition('(')[0]}-{len(name)}", form.replace("NAME", name))
        for kind, form in _SPELLINGS.items()
        for name in _ATTRIBUTES.split("\n")[1:-1]
    ),
    _top("attribute-underscored", "__attribute__((__constructor__)) void f() {}"),
    _top("attribute-short-keyword", "__attribute((constructor)) void f() {}"),
    _top("attribute-second", "__attribute__((always_inline, constructor)) void f() {}"),
    _top("attribute-using", "[[using gnu: constructor]] void f() {}"),
    _top("attribute-clang", "[[clang::constructor]] void f() {}"),
    _top("attribute-on-kernel", "__attribute__((constructor)) kernel void g(device float* a) {}"),
    _top("attribute-after", "void f() __attribute__((constructor));\nvoid f() {}"),
    _top(
        "attribute-pasted",
        "#define C con##structor\n#define A(x, y) __attribute__((x##y))\nA(con, structor) void f() {}",
    ),
    _top("attribute-digraph", "<:<:gnu::constructor:>:> void f() {}"),
    _top("attribute-on-variable", 'constant int x __attribute__((section("a"))) = 1;'),
    _top("attribute-on-lambda", "constant auto f = []() __attribute__((noinline, used)) { return 1; };"),
    _top("declspec", "__declspec(noinline) void f() {}"),
    _top("declspec-allocate", '__declspec(allocate("x")) constant int y = 1;'),
)

GLOBALS = (
    _top("global", "int x = 1;"),
    _top("global-static", "static int x = 1;"),
    _top("global-inline", "inline int x = 1;"),
    _top("global-namespace", "namespace n { int x = 1; }"),
    _top("global-anonymous", "namespace { float x[1000]; }"),
    _top("global-threadgroup", "threadgroup float x[4];"),
    _top("global-device", "device float x[4];"),
    _top("global-opencl", "__global int x;"),
    _top("global-thread-local", "thread_local int x;"),
    _top("global-gnu-thread", "__thread int x;"),
    _body("global-static-member", "S::x = 1;", "struct S { static int x; };\nint S::x = 0;"),
    _body("global-variable-template", "v<int> = 4;", "template <typename T> T v = 3;"),
    _body("global-static-local", "static int n = 0; n++; out[i] = n;"),
    _body("global-static-from-input", "static const int n = int(out[i]); out[i] = n;"),
    _body(
        "constructor-of-constant",
        "out[i] = s.a;",
        "struct S { int a; S() { a = 3; *(device int*)0 = 1; } };\nconstant S s;",
    ),
    _body("constructor-of-value", "out[i] = x;", "int f() { *(device int*)0 = 1; return 1; }\nconstant int x = f();"),
    _body(
        "destructor-of-constant",
        "out[i] = s.a;",
        "struct S { int a = 1; ~S() { *(device int*)0 = 1; } };\nconstant S s;",
    ),
    _body("write-to-constant", "*(device float*)(ulong)&x = 1;", "constant float x = 2;", runs=True),
)

POINTERS = (
    _body("function-pointer-number", "void (*f)(int) = (void (*)(int))0x1234; f(1);"),
    _body("function-pointer-from-memory", "F* f = *(device F* device*)out; f(1);", "typedef void F(int);"),
    _body("function-reference-from-memory", "reinterpret_cast<F&>(out[i])(1);", "using F = void(int);"),
    _body("function-pointer-parameter", "call(0);", "void call(void (*f)()) { f(); }"),
    _body("function-pointer-parameter-cast", "call((F)0x1234);", "using F = void (*)(); void call(F f) { f(); }"),
    _body(
        "function-pointer-parameter-memory", "call(*(device F*)out);", "using F = void (*)(); void call(F f) { f(); }"
    ),
    _body(
        "function-pointer-parameter-chosen",
        "call(out[i] > 0 ? a : b);",
        "void a() {} void b() {} void call(void (*f)()) { f(); }",
    ),
    _body("function-pointer-array", "F f[2] = {a, a}; f[int(out[i])]();", "using F = void (*)(); void a() {}"),
    _body("function-pointer-field", "S s = {a}; s.f();", "void a() {} struct S { void (*f)(); };"),
    _body("function-pointer-alias", "((F)0x1234)();", "using F = void (*)();"),
    _body("function-pointer-typedef", "F f = (F)(ulong(out[i])); f();", "typedef void (*F)();"),
    _body("function-pointer-decltype", "auto p = (decltype(&f))ulong(out[i]); p();", "void f() {}"),
    _body("function-pointer-member", "auto p = &S::f; S s; (s.*p)();", "struct S { void f() {} };"),
    _body("function-pointer-member-type", "int S::* p = &S::a; S s; out[i] = s.*p;", "struct S { int a; };"),
    _body("virtual", "S s; s.f();", "struct S { virtual void f() {} };"),
)

OWN = (
    _top("own-entry", "SOFT_ENTRY((k))"),
    _body("own-namespace", "out[i] = soft::own_lane();"),
    _top("own-namespace-opened", "namespace soft { inline float mine() { return own_lane(); } }"),
    _body("own-namespace-used", "out[i] = own_lane();", "using namespace soft;"),
    _body("own-namespace-used-whole", "out[i] = own_lane();", "using namespace ::soft;"),
    _body("own-namespace-renamed", "out[i] = s::own_lane();", "namespace s = soft;"),
    _body("own-namespace-renamed-whole", "out[i] = s::own_lane();", "namespace s = ::soft;"),
    _body("own-run", "soft_run(0, 0, 0, 0, 0, 0);"),
    _body("own-barrier", "soft_barrier(0, 0);"),
    _body("own-meet", "soft_meet(0, 0, 0);"),
    _body("own-log", 'soft_log("a", "b", "c");'),
    _body("own-lanes", "out[i] = __lane_number();"),
    _body("own-callbacks", "__tsan_write4(out);"),
)
_PRAGMAS = """
weak system
redefine_extname f system
clang attribute push(__attribute__((constructor)), apply_to = function)
clang section text="x"
comment(lib, "c")
OPENCL EXTENSION all : enable
GCC poison float
omp parallel
section("a")
init_seg(lib)
clang optimize off
GCC visibility push(default)
ms_struct on
"""
PRAGMAS = (
    *(
        _top(f"pragma-{n}", f"#pragma {text}", runs="poison" not in text)
        for n, text in enumerate(_PRAGMAS.split("\n")[1:-1])
    ),
    _top("pragma-crash", "#pragma clang __debug crash"),
    _top("pragma-fatal", "#pragma clang __debug llvm_fatal_error"),
    _top("pragma-module-build", "#pragma clang module build left_behind\nmodule left_behind {}"),
    _top("pragma-operator", '_Pragma("weak system")', runs=True),
    _top(
        "pragma-operator-attribute",
        '_Pragma("clang attribute push(__attribute__((constructor)), apply_to = function)")',
        runs=True,
    ),
)
_DOUBLING = "\n".join(f"#define X{n} X{n - 1} X{n - 1}" for n in range(1, 40))
BOMBS = (
    _body("bomb-macro", "out[i] = 0 X39;", f"#define X0 +1\n{_DOUBLING}"),
    _body(
        "bomb-constexpr",
        "constexpr int x = f(); out[i] = x;",
        "constexpr int f() { int n = 0; while (true) n ^= 1; return n; }",
    ),
    _body(
        "bomb-template",
        "out[i] = S<0>::v;",
        "template <int N> struct S { constant static constexpr int v = S<N + 1>::v; };",
    ),
    _body(
        "bomb-templates",
        "out[i] = S<30, 0>::v;",
        "template <int N, ulong K> struct S {\n"
        "  constant static constexpr int v = S<N - 1, 2 * K>::v + S<N - 1, 2 * K + 1>::v; };\n"
        "template <ulong K> struct S<0, K> { constant static constexpr int v = 1; };",
    ),
    _body("bomb-constant", "out[i] = a[uint(out[i])];", "constant char a[1ul << 36] = { 1 };"),
    _body("bomb-brackets", "out[i] = " + "(" * 5000 + "1" + ")" * 5000 + ";"),
    _body(
        "bomb-unrolled",
        "\n#pragma clang loop unroll(full)\nfor (int a = 0; a < 1000; a++)\n#pragma clang loop unroll(full)\n"
        "for (int b = 0; b < 1000000; b++) out[(a * b) & 7] += sin(out[b & 7]);",
    ),
    _top("bomb-recursion", "#define A B\n#define B A\nconstant int x = A;"),
)
TEXT = (
    _top("text-nul", "constant int x = 1;\0"),
    _top("text-surrogate", "constant int x\ud800 = 1;"),
    _top("text-surrogate-in-comment", "// \udfff"),
    _top("text-escaped-name", "constant int x = __built\\u0069n_abort();"),
    _top("text-unterminated", "/*"),
    Hostile("text-empty", "", runs=True),
    Hostile("text-nothing-but-brackets", "{" * 100),
)

ROWS = (
    *FILES,
    *CALLS,
    *ASSEMBLY,
    *BUILTINS,
    *HARMLESS_BUILTINS,
    *ATTRIBUTES,
    *GLOBALS,
    *POINTERS,
    *OWN,
    *PRAGMAS,
    *BOMBS,
    *TEXT,
)

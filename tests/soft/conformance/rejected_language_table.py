"""Programs that Apple's compiler refuses: C++ that MSL leaves out, type errors and syntax errors."""

from __future__ import annotations

from .rejected_table import F_OF_T, Refused, in_kernel

LEFT_OUT = (
    Refused("double-variable", in_kernel("double v = 1; // HERE\nout[i] = v;"), "double"),
    Refused("double-parameter", "kernel void k(device double* out) { // HERE\n}", "double"),
    Refused("double-cast", in_kernel("out[i] = (double)1.0f; // HERE"), "double"),
    Refused("long-double", in_kernel("long double v = 1; // HERE"), "double"),
    Refused("goto", in_kernel("again:\nif (i == 3) goto again; // HERE"), "goto"),
    Refused("virtual", "struct S {\nvirtual int f() { return 1; } // HERE\n};\n" + in_kernel("out[i] = 0;"), "virtual"),
    Refused("new", in_kernel("auto p = new int; // HERE"), "new"),
    Refused("delete", "void f(thread int* p) {\ndelete p; // HERE\n}\n" + in_kernel("int v;\nf(&v);"), "delete"),
    Refused("throw", in_kernel("throw 1; // HERE"), "throw|exception"),
    Refused("try", in_kernel("try { out[i] = 1; } catch (...) {} // HERE"), "try|exception"),
    Refused(
        "dynamic-cast",
        "struct A {};\nstruct B : A {};\n"
        + in_kernel("B b;\nthread A* a = &b;\nthread B* c = dynamic_cast<thread B*>(a); // HERE"),
        "dynamic_cast|rtti|polymorphic",
    ),
    Refused("typeid", in_kernel("auto t = typeid(int); // HERE"), "typeid"),
    Refused("thread-local", in_kernel("thread_local int n = 0; // HERE"), "thread_local|thread-local"),
    Refused("inline-assembly", in_kernel('asm("nop"); // HERE'), "asm"),
    Refused("printf", in_kernel('printf("%d", i); // HERE'), "printf"),
    Refused("std-header", "#include <vector> // HERE\n" + in_kernel("out[i] = 0;"), "vector|file not found"),
    Refused(
        "missing-include", '#include "not_there.h" // HERE\n' + in_kernel("out[i] = 0;"), "not_there.h|file not found"
    ),
    Refused("error-directive", "#error wrong platform // HERE\n" + in_kernel("out[i] = 0;"), "wrong platform"),
    Refused("variable-length-array", in_kernel("float a[i]; // HERE\na[0] = 1;"), "variable|constant expression|array"),
)

TYPES = (
    Refused("undeclared-variable", in_kernel("out[i] = missing; // HERE"), "undeclared.*missing|missing"),
    Refused("undeclared-function", in_kernel("out[i] = frobnicate(1.0f); // HERE"), "frobnicate"),
    Refused("unknown-type", in_kernel("flaot v = 1; // HERE"), "flaot"),
    Refused("unknown-namespace", in_kernel("out[i] = std::sin(1.0f); // HERE"), "std"),
    Refused("unknown-builtin", in_kernel("out[i] = metal::sinn(1.0f); // HERE"), "sinn"),
    Refused("too-few-arguments", in_kernel("out[i] = fma(1.0f, 2.0f); // HERE"), "no matching|argument"),
    Refused("too-many-arguments", in_kernel("out[i] = sqrt(1.0f, 2.0f); // HERE"), "no matching|argument"),
    Refused(
        "struct-to-float",
        "struct S { int a; };\n" + in_kernel("S s;\nout[i] = s; // HERE"),
        "assigning|convert|incompatible",
    ),
    Refused("member-missing", "struct S { int a; };\n" + in_kernel("S s;\nout[i] = s.b; // HERE"), "no member"),
    Refused("bad-swizzle", in_kernel("float2 v = float2(1);\nout[i] = v.z; // HERE"), "no member|swizzle|z"),
    Refused("swizzle-mixed-sets", in_kernel("float4 v = float4(1);\nout[i] = v.xg; // HERE"), "no member|swizzle|xg"),
    Refused(
        "swizzle-duplicate-write",
        in_kernel("float4 v = float4(1);\nv.xx = float2(1); // HERE"),
        "duplicate|not assignable|assign|setter|xx",
    ),
    Refused(
        "vector-width-mismatch", in_kernel("float3 v = float3(1);\nfloat4 w = v; // HERE"), "no viable|convert|cannot"
    ),
    Refused(
        "vector-sum-mismatch",
        in_kernel("float2 a = float2(1);\nfloat3 b = float3(1);\nauto c = a + b; // HERE"),
        "invalid operands|no viable|cannot",
    ),
    Refused(
        "vector-type-mismatch",
        in_kernel("float4 a = float4(1);\nint4 b = int4(1);\nauto c = a + b; // HERE"),
        "invalid operands|no viable|cannot|ambiguous",
    ),
    Refused(
        "vector-too-many-values", in_kernel("float2 v = float2(1, 2, 3); // HERE"), "no matching|excess|constructor"
    ),
    Refused(
        "vector-to-scalar",
        in_kernel("float2 v = float2(1);\nout[i] = v; // HERE"),
        "assigning|convert|incompatible|no viable",
    ),
    Refused("float-to-bfloat", in_kernel("float f = 1;\nbfloat b = f; // HERE"), "convert|no viable|cannot"),
    Refused("ambiguous-max", in_kernel("int a = 1;\nuint b = 2;\nout[i] = max(a, b); // HERE"), "ambiguous"),
    Refused("ambiguous-min-float", in_kernel("float a = 1;\nout[i] = min(a, half(2)); // HERE"), "ambiguous"),
    Refused("as-type-size", in_kernel("out[i] = as_type<float>(ushort(1)); // HERE"), "as_type|size"),
    Refused("pointer-to-int", in_kernel("device int* p = out; // HERE"), "cannot initialize|incompatible|pointer"),
    Refused("dereference-int", in_kernel("int v = 1;\nout[i] = *v; // HERE"), "indirection|pointer"),
    Refused("call-non-function", in_kernel("int v = 1;\nout[i] = v(2); // HERE"), "not a function|called object"),
    Refused("modulo-float", in_kernel("float v = 1;\nout[i] = v % 2.0f; // HERE"), "invalid operands"),
    Refused("shift-float", in_kernel("float v = 1;\nout[i] = v << 2; // HERE"), "invalid operands"),
    Refused("missing-return-type", "f(int v) { return v; } // HERE\n" + in_kernel("out[i] = 0;"), "type"),
    Refused("return-value-from-void", "void f() {\nreturn 1; // HERE\n}\n" + in_kernel("f();"), "return"),
    Refused("redefinition", in_kernel("int v = 1;\nint v = 2; // HERE"), "redefinition"),
    Refused(
        "static-assert",
        'static_assert(sizeof(float3) == 12, "float3 is padded"); // HERE\n' + in_kernel("out[i] = 0;"),
        "float3 is padded",
    ),
    Refused(
        "static-assert-in-template",
        "template <typename T> T f(T v) {\nstatic_assert(sizeof(T) == 4); // HERE\nreturn v; }\n"
        + in_kernel("out[i] = f(half(1));"),
        "static",
    ),
    Refused(
        "template-deduction",
        "template <typename T> T f(T a, T b) { return a; }\n" + in_kernel("out[i] = f(1, 2.0f); // HERE"),
        "no matching|conflicting",
    ),
    Refused(
        "template-arity",
        "template <typename T, int N> struct S {};\n" + in_kernel("S<int> s; // HERE"),
        "too few|template",
    ),
    Refused("constexpr-not-constant", in_kernel("constexpr uint n = i; // HERE"), "constant expression|constexpr"),
    Refused(
        "lambda-capture-missing", in_kernel("int v = 1;\nauto f = []() { return v; }; // HERE"), "captured|capture"
    ),
    Refused(
        "atomic-plain-add",
        in_kernel("a[0] = a[0] + 1; // HERE", "device atomic_int* a"),
        "invalid operands|no viable|overload|conver|deleted",
    ),
    Refused(
        "atomic-on-plain",
        in_kernel("atomic_fetch_add_explicit(a, 1, memory_order_relaxed); // HERE", "device int* a"),
        "no matching|atomic",
    ),
    Refused(
        "atomic-float-and",
        in_kernel("atomic_fetch_and_explicit(a, 1.0f, memory_order_relaxed); // HERE", "device atomic_float* a"),
        "no matching|atomic|float",
    ),
    Refused(
        "simd-sum-of-struct",
        "struct S { int a; };\n" + in_kernel("S s;\nsimd_sum(s); // HERE"),
        "no matching|simd_sum|static",
    ),
    Refused("narrowing-braces", in_kernel("int v = 300;\nchar c{v}; // HERE"), "narrow"),
    Refused(
        "case-duplicate",
        in_kernel("switch (i) {\ncase 1: out[0] = 1; break;\ncase 1: out[0] = 2; break; // HERE\n}"),
        "duplicate case",
    ),
    Refused("break-outside", in_kernel("break; // HERE"), "break"),
)

SYNTAX = (
    Refused("missing-semicolon", in_kernel("float v = 1 // HERE\nout[i] = v;"), "expected ';'"),
    Refused(
        "missing-brace",
        "kernel void k(device float* out) { // HERE\nout[0] = 1;\n",
        "expected '}'|unbalanced|unterminated|'}'",
    ),
    Refused(
        "extra-brace",
        "kernel void k(device float* out) { out[0] = 1; }\n} // HERE",
        "extraneous|'}'|unbalanced|unmatched",
    ),
    Refused(
        "missing-parenthesis", in_kernel("out[i] = sqrt(2.0f; // HERE"), "expected '\\)'|'\\('|unbalanced|unmatched"
    ),
    Refused("unterminated-comment", in_kernel("out[i] = 1;") + "\n/* never closed // HERE", "unterminated|comment"),
    Refused(
        "unterminated-string",
        F_OF_T + 'template [[host_name("x)]] kernel void f<float>(device float*); // HERE',
        'unterminated|missing terminating|string|"',
    ),
    Refused(
        "unterminated-conditional", "#if 1 // HERE\n" + in_kernel("out[i] = 0;"), "unterminated|#endif|conditional"
    ),
    Refused("stray-character", in_kernel("out[i] = 1 @ 2; // HERE"), "expected|unexpected|stray|@"),
    Refused("missing-operand", in_kernel("out[i] = 1 + ; // HERE"), "expected expression"),
    Refused(
        "unclosed-attribute",
        "kernel void k(device float* a [[buffer(0)) { // HERE\n}",
        "expected|attribute|unbalanced|\\]|unmatched",
    ),
    Refused(
        "integer-literal-overflow",
        in_kernel("ulong v = 99999999999999999999999; // HERE"),
        "too large|overflow|literal",
    ),
    Refused("bad-number-suffix", in_kernel("float v = 1.0z; // HERE"), "suffix|literal"),
    Refused("reserved-word", in_kernel("int class = 1; // HERE"), "expected|class"),
    Refused("else-without-if", in_kernel("else { out[i] = 1; } // HERE"), "expected"),
    Refused(
        "struct-without-semicolon",
        "struct S { int a; } // HERE\n" + in_kernel("out[i] = 0;"),
        "expected ';'|'struct'|struct|cannot combine",
    ),
)

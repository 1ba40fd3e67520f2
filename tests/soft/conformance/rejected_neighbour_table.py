"""Forms near those of the other tables: device memory as constant, inputs of templates, words of OpenCL."""

from __future__ import annotations

from .rejected_strict_table import SAME_TYPE, SAME_WIDTH, inputs, line
from .rejected_table import Refused, in_kernel

F = "float f(constant float* p) { return p[0]; }\n"
HOLDER = "struct S { device float* p; };\n"
KEEPER = "struct S { constant float* p; };\n"
H = "device float* h(device float* p) { return p + 1; }\n"
MAKER = "struct S { constant float* p; S(constant float* q) : p(q) {} };\n"
TABLE = "constant float table[2] = {1, 2};\n"
BOTH = "device float* out, constant float* c, uint i [[thread_position_in_grid]]"
_WANTED = "expected constant memory"
_KEPT = "cannot become one to constant memory"
_CAST = "mismatching address spaces"

SPACES = (
    line("device-member-for-constant", "S s; s.p = out; out[i] = f(s.p);", _WANTED, F + HOLDER),
    line("device-member-by-pointer", "S s; thread S* q = &s; out[i] = f(q->p + 1);", _WANTED, F + HOLDER),
    line("device-variable-for-constant", "device float* q = out + 1; out[i] = f(q);", _WANTED, F),
    line("device-auto-for-constant", "const auto q = out + 1; out[i] = f(q);", _WANTED, F),
    line("device-in-parentheses", "out[i] = f((out));", _WANTED, F),
    line("device-moved-by-a-call", "out[i] = f(out + min(i, 2u));", _WANTED, F),
    line("device-for-constant-by-macro", "out[i] = CALL(out);", _WANTED, F + "#define CALL(x) f(x)\n"),
    line("device-for-constant-member-function", "S s; out[i] = s.f(out);", _WANTED, "struct S {\n" + F + "};\n"),
    line("device-for-constant-in-namespace", "out[i] = n::f(out);", _WANTED, "namespace n {\n" + F + "}\n"),
    line(
        "device-for-constant-template",
        "out[i] = f<float>(out);",
        _WANTED,
        "template <class T> T f(constant T* p) { return p[0]; }\n",
    ),
    line(
        "device-for-constant-or-threadgroup",
        "out[i] = f(out);",
        _WANTED,
        F + "float f(threadgroup float* p) { return p[0]; }\n",
    ),
    line("device-assigned-to-constant", "constant float* p = table; p = out;", _KEPT, TABLE),
    line("device-assigned-to-constant-member", "S s; s.p = out;", _KEPT, KEEPER),
    line("device-element-as-constant-reference", "constant float& r = out[i]; out[i] = r;", _KEPT),
    Refused(
        "device-returned-as-constant",
        "constant float* f(device float* p) {\nreturn p; // HERE\n}\n" + in_kernel("out[i] = f(out)[0];"),
        _KEPT,
    ),
    line("device-chosen-for-constant", "out[i] = f(i > 2 ? out : out + 1);", _WANTED, F),
    line("device-or-constant-for-constant", "out[i] = f(i > 2 ? table : (i ? out : table));", _WANTED, TABLE + F),
    line("device-chosen-and-kept", "constant float* p = i ? out : out + 1;", _KEPT),
    line("device-chosen-and-cast", "out[i] = *(constant float*)(i ? out : out + 1);", _CAST),
    line("device-result-for-constant", "out[i] = f(h(out));", _WANTED, F + H),
    line("device-result-moved-for-constant", "out[i] = f(h(out) + 1);", _WANTED, F + H),
    line("device-result-kept", "constant float* p = n::h(out);", _KEPT, "namespace n {\n" + H + "}\n"),
    line("device-result-element-kept", "constant float& p = h(out)[i];", _KEPT, H),
    line("device-result-of-member", "S s; out[i] = f(s.h(out));", _WANTED, F + "struct S {\n" + H + "};\n"),
    line("device-for-lambda", "auto l = [&](constant float* p) { return p[0]; }; out[i] = l(out);", _WANTED),
    line("device-of-lambda", "auto l = [&]() -> constant float* { return out; }; out[i] = l()[0];", _KEPT),
    line("device-for-constructor", "S s(out); out[i] = s.p[0];", _WANTED, MAKER),
    line("device-for-constructor-in-braces", "S s{out}; out[i] = s.p[0];", _WANTED, MAKER),
    line("device-for-constructor-of-a-temporary", "out[i] = S(out).p[0];", _WANTED, MAKER),
    line("device-in-braces", "S s{out}; out[i] = s.p[0];", _KEPT, KEEPER),
    line("device-in-braces-behind-equals", "S s = {out + 1}; out[i] = s.p[0];", _KEPT, KEEPER),
    line("device-in-braces-of-a-temporary", "S s = S{out}; out[i] = s.p[0];", _KEPT, KEEPER),
    line(
        "device-second-in-braces",
        "S s{1, out}; out[i] = s.p[0];",
        _KEPT,
        "struct S { int n; constant float* p; float at(int k) { return p[k]; } };\n",
    ),
    line("device-cast-to-constant", "out[i] = *(constant float*)out;", _CAST),
    line("device-member-cast-to-constant", "S s; out[i] = ((constant uint*)s.p)[0];", _CAST, HOLDER),
    line("device-static-cast-to-constant", "out[i] = *static_cast<constant float*>(out);", _CAST),
    line("device-reinterpreted-as-constant", "out[i] = *reinterpret_cast<constant int*>(out + i);", _CAST),
)


def of_template(name: str, header: str, declaration: str, instance: str, pattern: str) -> Refused:
    return Refused(
        f"inputs-{name}",
        f"template <{header}> kernel void k(device float* out, uint2 at [[thread_position_in_grid]],\n"
        f"{declaration} // HERE\n) {{ }}\n{instance}",
        pattern,
    )


_EXPLICIT = 'template [[host_name("k3")]] kernel void k<{}>(device float*, uint2, {});'
INPUTS = (
    of_template("of-template", "class T", "T n [[threads_per_grid]]", _EXPLICIT.format("uint3", "uint3"), SAME_WIDTH),
    of_template(
        "of-template-width",
        "int N",
        "vec<uint, N> n [[threads_per_grid]]",
        _EXPLICIT.format("3", "uint3"),
        SAME_WIDTH,
    ),
    of_template(
        "of-template-by-decltype",
        "class T",
        "T n [[threads_per_grid]]",
        'typedef decltype(k<uint>) t;\ntemplate [[host_name("k1")]] kernel t k<uint>;',
        SAME_WIDTH,
    ),
    of_template(
        "of-template-of-floats",
        "class T",
        "T n [[threads_per_grid]]",
        _EXPLICIT.format("float2", "float2"),
        "invalid type 'float2'",
    ),
    inputs(
        "const-behind",
        "uint2 const at [[thread_position_in_grid]],\nuint3 const n [[threads_per_grid]] // HERE\n",
        SAME_WIDTH,
    ),
    inputs(
        "alias-template",
        "P<uint> at [[thread_position_in_grid]],\nQ<3> n [[threads_per_grid]] // HERE\n",
        SAME_WIDTH,
        "template <class T> using P = vec<T, 2>;\nnamespace n { template <int N> using Q = metal::vec<uint, N>; }\n"
        "using namespace n;\n",
    ),
    inputs(
        "alias-of-alias-template",
        "R at [[thread_position_in_grid]],\nushort n [[threads_per_grid]] // HERE\n",
        SAME_TYPE,
        "template <class T, int N> using P = T;\nusing R = P<uint, 2>;\n",
    ),
    inputs("packed", "packed_uint3 at [[thread_position_in_grid]] // HERE\n", "invalid type"),
)

WORDS = (
    Refused(
        "auto-template-parameter",
        "template <auto N> // HERE\nfloat f() { return N; }\n" + in_kernel("out[i] = f<1>();"),
        "'auto'.*template parameter.*4.0",
    ),
    *(
        line(f"opencl-{name}", f"{name} a;", "unknown type")
        for name in ("atomic_flag", "atomic_size_t", "atomic_double", "atomic_intptr_t")
    ),
    *(
        line(f"literal-{name}", f"out[i] = {name};", "suffix")
        for name in ("1.0f16", "1.5F16", ".5q", "1e3w", "2.0f128")
    ),
)

TAKEN = {
    "constant chosen": TABLE
    + F
    + H
    + in_kernel(
        "constant float* p = i ? c : table; out[i] = f(i > 3 ? p : c) + (i ? out[i] : f(c)) + f(c + (i ? 1 : 0));\n"
        "device float* q = i ? out : h(out); q[0] = 1;",
        BOTH,
    ),
    "results of both spaces": F
    + H
    + "constant float* h(constant float* p) { return p; }\n"
    + "struct S { constant float* p; constant float* g() const { return p; } };\n"
    + in_kernel("S s{c}; out[i] = f(h(c)) + f(s.g()) + h(out)[0];", BOTH),
    "lambdas of both spaces": F
    + "constant float* g(constant float* p, device float* q) {\n"
    + "auto l = [&](device float* r) { return r + 1; }; q[0] = l(q)[0]; return p; }\n"
    + in_kernel(
        "auto l = [&](device float* p) { return p[0]; }; auto m = [&](auto p) { return p[0]; };\n"
        "auto h = [&](int n) { return c + n; }; out[i] = l(out) + m(out) + m(c) + f(h(1)) + f(g(c, out));",
        BOTH,
    ),
    "a lambda hides a function": F
    + H
    + in_kernel("auto h = [&](device float* p) { return c; }; out[i] = f(h(out));", BOTH),
    "constructors": "struct S { device float* p; constant float* q;\n"
    + "S(device float* x, constant float* y) : p(x), q(y) {} };\n"
    + in_kernel("S s(out, c); S t{out, c}; out[i] = s.q[0] + t.p[0] + S(out, c).q[0];", BOTH),
    "braces": "struct S { device float* p; constant float* q; };\n"
    + "struct D { constant float* p; D(device float* x, constant float* y) : p(y) { x[0] = 1; } };\n"
    + "struct E : S { int n; };\n"
    + in_kernel("S s{out, c}; S t = {out, c}; D d{out, c}; out[i] = s.p[0] + t.q[0] + d.p[0] + S{out, c}.q[1];", BOTH),
    "overloads": TABLE
    + F
    + "float f(const device float* p) { return p[0]; }\n"
    + in_kernel("out[i] = f(out) + f(c) + f(table);", BOTH),
    "members of one name": F
    + "struct S { device float* p; };\nstruct D { constant float* p; };\n"
    + in_kernel("S s; s.p = out; D d; d.p = c; out[i] = f(d.p) + s.p[0];", BOTH),
    "variables of one name": F
    + in_kernel("{ constant float* p = c; out[i] = f(p); }\n{ device float* p = out; out[i] += p[0]; }", BOTH),
    "auto of both spaces": F
    + in_kernel("{ auto p = c; out[i] = f(p); }\n{ auto p = out; auto x = out[i]; out[i] = p[0] + x; }", BOTH),
    "auto hides a parameter": F + in_kernel("{ auto out = c; constant float* p = out; f(out); f(p); }", BOTH),
    "an alias hides a parameter": F
    + "typedef constant float* P;\n"
    + in_kernel("for (P out = c; out != c + 2; out++) f(out);\nreturn;", BOTH),
    "overloads with defaults": F
    + "float f(device float* p, int n = 1) { return p[n]; }\n"
    + in_kernel("out[i] = f(out) + f(c);", BOTH),
    "overloads with any number": F
    + "template <class... T> float f(device float* p, T... n) { return p[0]; }\n"
    + in_kernel("out[i] = f(out) + f(c);", BOTH),
    "names like those of intrinsics": "struct S { float _m_x; float _mm_y() const { return _m_x; } };\n"
    + in_kernel("S s = {1}; out[i] = s._mm_y();"),
    "values": "float f(float x, constant float* p) { return x + p[0]; }\n" + in_kernel("out[i] = f(out[i], c);", BOTH),
    "addresses in device memory": in_kernel(
        "out[i] = *(constant float*)a[i];", "device ulong* a, device float* out, uint i [[thread_position_in_grid]]"
    ),
    "tables in constant memory": TABLE
    + in_kernel("constant uchar* p = (constant uchar*)(table + i); p = (constant uchar*)&table[1]; out[i] = p[0];"),
    "pointers in constant memory": HOLDER
    + "template <class T> T f(constant T& x) { return x; }\n"
    + in_kernel(
        "constant auto& p = s.p; constant ulong& q = reinterpret_cast<constant ulong&>(s.p); p[i] = f(s.p)[0] + q;",
        "constant S& s, uint i [[thread_position_in_grid]]",
    ),
    "generic": "template <class P> float f(P p) { return p[0]; }\n" + in_kernel("out[i] = f(out) + f(c);", BOTH),
    "inputs of templates": "template <class T> kernel void k(device float* o, T a [[thread_position_in_grid]],\n"
    "T n [[threads_per_grid]], ushort3 t [[thread_position_in_threadgroup]]) {}\n"
    'template [[host_name("k3")]] kernel void k<uint3>(device float*, uint3, uint3, ushort3);',
    "literals": in_kernel("out[i] = 1.0f + .5 + 1e3 + float(1.0h) + float(1.0bf) + 0xf16 + 1u + 0b11;"),
}
"""Near to what is refused, and right."""

"""Programs that Apple's compiler refuses: address spaces, const, kernel signatures, attributes."""

from __future__ import annotations

from dataclasses import dataclass

from mlx_native_py import softmetal as Metal

HERE = "// HERE"


@dataclass(frozen=True)
class Refused:
    """`source` with the offending line marked, and a pattern that the first message must match."""

    name: str
    source: str
    pattern: str
    kernel: str | None = None  # built too, for what only a whole kernel shows
    language: int = Metal.MTLLanguageVersion3_2  # the last that refuses it

    @property
    def text(self) -> str:
        return f"#include <metal_stdlib>\nusing namespace metal;\n{self.source}\n"

    @property
    def line(self) -> int:
        return next(n for n, line in enumerate(self.text.splitlines(), 1) if HERE in line)


def in_kernel(body: str, parameters: str = "device float* out, uint i [[thread_position_in_grid]]") -> str:
    return f"kernel void k({parameters}) {{\n{body}\n}}"


F_OF_T = "template <typename T> kernel void f(device T* a) {}\n"

ADDRESS_SPACES = (
    Refused("pointer-without-space", "kernel void k(float* out) { // HERE\n}", "address space"),
    Refused("reference-without-space", "kernel void k(float& out) { // HERE\n}", "address space"),
    Refused("thread-pointer-parameter", "kernel void k(thread float* out) { // HERE\n}", "address space|thread"),
    Refused(
        "device-to-threadgroup", in_kernel("threadgroup float* t = out; // HERE"), "address space|cannot initialize"
    ),
    Refused(
        "threadgroup-to-device",
        in_kernel("threadgroup float t[4];\ndevice float* p = t; // HERE"),
        "address space|cannot initialize",
    ),
    Refused("device-to-thread", in_kernel("thread float* p = out; // HERE"), "address space|cannot initialize"),
    Refused(
        "thread-to-device", in_kernel("float v = 0;\ndevice float* p = &v; // HERE"), "address space|cannot initialize"
    ),
    Refused("device-reference-to-local", in_kernel("float v = 0;\ndevice float& r = v; // HERE"), "address space|bind"),
    Refused("thread-reference-to-device", in_kernel("thread float& r = out[0]; // HERE"), "address space|bind"),
    Refused(
        "constant-to-device",
        in_kernel("device const float* p = c; // HERE", "constant float* c, device float* out"),
        "address space|cannot initialize",
    ),
    Refused(
        "pass-device-as-threadgroup",
        "void f(threadgroup float* p) {}\n" + in_kernel("f(out); // HERE"),
        "address space|no matching",
    ),
    Refused(
        "pass-threadgroup-as-device",
        "void f(device float* p) {}\n" + in_kernel("threadgroup float t[2];\nf(t); // HERE"),
        "address space|no matching",
    ),
    Refused(
        "pass-device-as-thread",
        "void f(thread float& p) {}\n" + in_kernel("f(out[i]); // HERE"),
        "address space|no matching",
    ),
    Refused(
        "return-wrong-space",
        "threadgroup float* f(device float* p) { \nreturn p; // HERE\n}\n" + in_kernel("f(out);"),
        "address space|cannot initialize",
    ),
    Refused(
        "struct-member-wrong-space",
        "struct S { device float* p; };\n" + in_kernel("float v;\nS s;\ns.p = &v; // HERE"),
        "address space|assigning",
    ),
    Refused(
        "cast-between-spaces", in_kernel("threadgroup float* t = (threadgroup float*)out; // HERE"), "address space"
    ),
    Refused(
        "static-cast-between-spaces",
        in_kernel("auto t = static_cast<threadgroup float*>(out); // HERE"),
        "static_cast|address space",
    ),
    Refused("write-constant-pointer", in_kernel("c[0] = 1; // HERE", "constant float* c"), "const|read-only"),
    Refused("write-constant-reference", in_kernel("n = 1; // HERE", "constant int& n"), "const|read-only"),
    Refused(
        "write-constant-member",
        "struct P { int n; };\n" + in_kernel("p.n += 1; // HERE", "constant P& p"),
        "const|read-only",
    ),
    Refused("write-constant-global", "constant int n = 3;\n" + in_kernel("n = 4; // HERE"), "const|read-only"),
    Refused(
        "write-const-device",
        in_kernel("a[i] = 1; // HERE", "device const float* a, uint i [[thread_position_in_grid]]"),
        "const|read-only",
    ),
    Refused(
        "drop-const", in_kernel("device float* p = a; // HERE", "device const float* a"), "const|cannot initialize"
    ),
    Refused("increment-const-local", in_kernel("const int n = 1;\nn++; // HERE"), "const|read-only"),
    Refused(
        "non-const-member-on-const",
        "struct S { int v; void set() { v = 1; } };\n" + in_kernel("const S s = {1};\ns.set(); // HERE"),
        "const",
    ),
    Refused(
        "threadgroup-in-function", "void f() {\nthreadgroup float t[4]; // HERE\n}\n" + in_kernel("f();"), "threadgroup"
    ),
    Refused(
        "threadgroup-global",
        "threadgroup float t[4]; // HERE\n" + in_kernel("out[i] = 0;"),
        "threadgroup|address space",
    ),
    Refused("threadgroup-initialiser", in_kernel("threadgroup float t[2] = {1, 2}; // HERE"), "initiali"),
    Refused("device-local-variable", in_kernel("device float v; // HERE"), "address space|device"),
    Refused("constant-local-uninitialised", "constant float v; // HERE\n" + in_kernel("out[i] = 0;"), "initiali|const"),
    Refused("mutable-global", "int counter = 0; // HERE\n" + in_kernel("out[i] = 0;"), "constant|address space|global"),
    Refused(
        "mutable-static-global",
        "static int counter; // HERE\n" + in_kernel("out[i] = 0;"),
        "constant|address space|global",
    ),
    Refused("static-local", in_kernel("static int n = 0; // HERE\nn++;"), "static|constant|address space"),
    Refused("thread-global", "thread float v = 1; // HERE\n" + in_kernel("out[i] = 0;"), "address space|thread"),
)

SIGNATURES = (
    Refused("kernel-returns-value", "kernel int k(device float* out) { // HERE\nreturn 1; }", "void|return"),
    Refused(
        "duplicate-buffer-index",
        "kernel void k(device float* a [[buffer(1)]],\ndevice float* b [[buffer(1)]]) { // HERE\n}",
        "buffer|index|already",
    ),
    Refused("buffer-index-31", "kernel void k(device float* a [[buffer(31)]]) { // HERE\n}", "buffer|index|30|range"),
    Refused(
        "negative-buffer-index", "kernel void k(device float* a [[buffer(-1)]]) { // HERE\n}", "buffer|index|negative"
    ),
    Refused(
        "buffer-on-value", "kernel void k(float a [[buffer(0)]]) { // HERE\n}", "buffer|pointer|address space|type"
    ),
    Refused(
        "buffer-index-not-constant",
        "constant int n = 2;\nkernel void k(device float* a [[buffer(m)]]) { // HERE\n}",
        "constant|expression|m",
    ),
    Refused(
        "threadgroup-attribute-on-device",
        "kernel void k(device float* a [[threadgroup(0)]]) { // HERE\n}",
        "threadgroup",
    ),
    Refused(
        "buffer-attribute-on-threadgroup",
        "kernel void k(threadgroup float* a [[buffer(0)]]) { // HERE\n}",
        "buffer|threadgroup",
    ),
    Refused(
        "unknown-parameter-attribute",
        "kernel void k(device float* out, uint i [[thread_position_in_gird]]) { // HERE\n}",
        "attribute|thread_position_in_gird",
    ),
    Refused("unknown-function-attribute", "[[kernal]] void k(device float* out) { // HERE\n}", "attribute|kernal"),
    Refused(
        "value-without-attribute", "kernel void k(device float* out, uint i) { // HERE\n}", "attribute|parameter|input"
    ),
    Refused(
        "position-as-float",
        "kernel void k(device float* out, float i [[thread_position_in_grid]]) { // HERE\n}",
        "type|thread_position_in_grid",
    ),
    Refused(
        "position-as-uint4",
        "kernel void k(device float* out, uint4 i [[thread_position_in_grid]]) { // HERE\n}",
        "type|thread_position_in_grid",
    ),
    Refused(
        "position-as-int",
        "kernel void k(device float* out, int i [[thread_position_in_grid]]) { // HERE\n}",
        "type|thread_position_in_grid",
    ),
    Refused(
        "index-as-vector",
        "kernel void k(device float* out, uint2 i [[thread_index_in_simdgroup]]) { // HERE\n}",
        "type|thread_index_in_simdgroup",
    ),
    Refused(
        "position-as-pointer",
        "kernel void k(device float* out, device uint* i [[thread_position_in_grid]]) { // HERE\n}",
        "type|thread_position_in_grid",
    ),
    Refused(
        "two-attributes",
        "kernel void k(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]] [[buffer(1)]]) { // HERE\n}",
        "attribute|buffer",
    ),
    Refused(
        "duplicate-kernel",
        in_kernel("out[i] = 0;")
        + "\nkernel void k(device float* out, uint i [[thread_position_in_grid]]) { // HERE\n}",
        "redefinition|already|duplicate",
    ),
    Refused(
        "overloaded-kernel",
        "kernel void k(device float* a) {}\nkernel void k(device int* a) { // HERE\n}",
        "kernel|redefinition|already|duplicate|overload|k",
    ),
    Refused(
        "duplicate-host-name",
        F_OF_T + 'template [[host_name("x")]] kernel void f<float>(device float*);\n'
        'template [[host_name("x")]] kernel void f<int>(device int*); // HERE',
        "host_name|x|already|duplicate",
    ),
    Refused(
        "host-name-not-string",
        F_OF_T + "template [[host_name(x)]] kernel void f<float>(device float*); // HERE",
        "host_name|string",
    ),
    Refused(
        "bad-max-threads",
        "[[kernel, max_total_threads_per_threadgroup(0)]] void k(device float* a) { // HERE\n}",
        "max_total_threads_per_threadgroup|positive|zero|greater",
    ),
    Refused(
        "ray-tracing",
        "kernel void k(instance_acceleration_structure t [[buffer(0)]]) { // HERE\n}",
        "instance_acceleration",
    ),
    Refused(
        "write-to-read-texture",
        "kernel void k(texture2d<float, access::read> t [[texture(0)]]) {\nt.write(float4(0), uint2(0)); // HERE\n}",
        "access::write",
    ),
    Refused(
        "read-of-write-texture",
        "kernel void k(texture2d<float, access::write> t, device float4* o) {\no[0] = t.read(uint2(0)); // HERE\n}",
        "cannot be read",
    ),
    Refused(
        "sample-of-read-texture",
        "kernel void k(texture2d<float, access::read> t, sampler s, device float4* o) {\n"
        "o[0] = t.sample(s, float2(0)); // HERE\n}",
        "access::sample",
    ),
    Refused("texture-of-chars", "kernel void k(texture2d<char> t [[texture(0)]]) { // HERE\n}", "half, float, short"),
    Refused(
        "textures-at-one-index",
        "kernel void k(texture2d<float> a [[texture(1)]], texture2d<float> b [[texture(1)]]) { // HERE\n}",
        "cannot reserve 'texture'",
    ),
    Refused("vertex-function", "vertex float4 v(uint i [[vertex_id]]) { // HERE\nreturn 0; }", "vertex"),
    Refused("fragment-function", "fragment float4 f() { // HERE\nreturn 0; }", "fragment"),
    Refused(
        "instantiation-of-nothing",
        'template [[host_name("x")]] kernel void missing<float>(device float*); // HERE',
        "missing|template",
    ),
    Refused(
        "instantiation-mismatch",
        F_OF_T + 'template [[host_name("x")]] kernel void f<float>(device int*); // HERE',
        "match|does not refer|explicit instantiation",
    ),
    Refused(
        "threadgroup-by-value",
        "kernel void k(threadgroup float t) { // HERE\n}",
        "threadgroup|pointer|reference|address space",
    ),
    Refused("pointer-to-pointer", "kernel void k(device float** out) { // HERE\n}", "address space|pointer"),
)

CONSTANTS = (
    Refused(
        "function-constant-with-value",
        "constant int n [[function_constant(0)]] = 3; // HERE\n" + in_kernel("out[i] = n;"),
        "initiali|function_constant|function constant",
    ),
    Refused(
        "function-constant-not-constant",
        "int n [[function_constant(0)]]; // HERE\n" + in_kernel("out[i] = n;"),
        "constant",
    ),
    Refused(
        "function-constant-struct",
        "struct S { int a; };\nconstant S s [[function_constant(0)]]; // HERE\n" + in_kernel("out[i] = s.a;"),
        "type|function_constant|function constant",
    ),
    Refused(
        "function-constant-local",
        in_kernel("constant int n [[function_constant(0)]]; // HERE\nout[i] = n;"),
        "function_constant|function constant|program scope|attribute|constant",
    ),
    Refused(
        "function-constant-index",
        "constant int n [[function_constant(70000)]]; // HERE\n" + in_kernel("out[i] = n;"),
        "function_constant|index|range|65535",
    ),
    Refused(
        "function-constant-negative",
        "constant int n [[function_constant(-1)]]; // HERE\n" + in_kernel("out[i] = n;"),
        "function_constant|index|negative|range",
    ),
    Refused(
        "condition-not-bool-constant",
        "kernel void k(device float* a [[buffer(0), function_constant(missing)]]) { // HERE\n}",
        "missing|function_constant|function constant|undeclared",
    ),
)

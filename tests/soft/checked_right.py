"""Right programs of unusual forms, none of which is reported."""

from __future__ import annotations

from collections.abc import Iterator

_FORMS = {
    # name: types and functions, a body that gives `result` a value; v are floats, k numbers below 16
    "union pun": (
        "union U { float f; uint u; };",
        "U x; x.f = v[i]; result = x.u & 255;",
    ),
    "union smaller then larger on one": (
        "union U { uchar c; float f; };",
        "U x; x.c = k[i]; result = x.c;",
    ),
    "union in struct array": (
        "union U { float f; int n; }; struct S { int tag; U u; };",
        "S s[5]; for (int j = 0; j<5; j++) { s[j].tag = j&1; if (j&1) s[j].u.f = v[j]; else s[j].u.n = j; }\n"
        "S x = s[k[i]%5]; result = x.tag ? x.u.f : float(x.u.n);",
    ),
    "union with array overlay index": (
        "union M { float f[16]; float4 r[4]; };",
        "M m; for (int j = 0; j<4; j++) m.r[j] = v[j]; result = m.f[k[i]];",
    ),
    "bitfield struct copied": (
        "struct B { uint a:5; uint b:11; int c:16; };",
        "B x; x.a = k[i]; x.b = k[i]*3; x.c = -k[i]; B z = x; z.b++; result = z.a+z.b+z.c;",
    ),
    "bitfield in array with loops": (
        "struct B { uchar a:2, b:3, c:3; };",
        "B x[8]; for (int j = 0; j<8; j++) { x[j].a = j; x[j].b = j; x[j].c = j; } uint s = 0;\n"
        "for (int j = 0; j<8; j++) s += x[(j+k[i])&7].b; result = s;",
    ),
    "nested structs of arrays": (
        "struct L { float w[3]; int n; }; struct R { L l[2]; half h[5]; L m; };",
        "R r;\n"
        "for (int row = 0; row<2; row++) { for (int j = 0; j<3; j++) r.l[row].w[j] = v[j]; r.l[row].n = row; }\n"
        "for (int j = 0; j<5; j++) r.h[j] = j; r.m = r.l[1];\n"
        "result = r.l[k[i]&1].w[k[i]%3]+r.h[k[i]%5]+r.m.w[2];",
    ),
    "reference to element": (
        "",
        "float p[6]; for (int j = 0; j<6; j++) p[j] = j; thread float &r = p[k[i]%6]; r += 1;\n"
        "thread float &q = r; q *= 2; result = p[k[i]%6];",
    ),
    "reference to member array element": (
        "struct S { float p[4]; float q[4]; };",
        "S s = {}; thread float &r = s.p[3]; r = 2; thread float &other = s.q[k[i]&3]; other = r;\n"
        "result = s.q[k[i]&3]+s.p[3];",
    ),
    "reference to array member": (
        "struct S { float p[4]; float q[4]; };\n"
        "static float sum(thread float (&p)[4]) { float s = 0; for (int j = 0; j<4; j++) s += p[j]; return s; }",
        "S s = {{1, 2, 3, 4}, {5, 6, 7, 8}}; result = sum(s.p)+sum(s.q);",
    ),
    "const object mutable member": (
        "struct C { mutable int n; float x; float get() const { n++; return x; } };",
        "const C c = {0, v[i]}; result = c.get()+c.get()+c.n;",
    ),
    "one past the end never read": (
        "static float sum(thread const float *f, thread const float *e) { float s = 0; while (f!=e) s += *f++;\n"
        "return s; }",
        "float p[7]; for (int j = 0; j<7; j++) p[j] = j; result = sum(p, p+7)+sum(p+k[i]%7, &p[7]);",
    ),
    "one past the member array": (
        "struct S { float p[4]; float q[4]; };\n"
        "static float sum(thread const float *f, thread const float *e) { float s = 0; for (; f<e;\n"
        "++f) s += *f; return s; }",
        "S s = {{1, 2, 3, 4}, {5, 6, 7, 8}}; result = sum(s.p, s.p+4)+sum(s.q, s.q+4);",
    ),
    "downwards from the end of a member": (
        "struct S { float o; float p[4]; float q[4]; };",
        "S s = {0, {1, 2, 3, 4}, {5, 6, 7, 8}}; float x = 0;\n"
        "for (thread float *e = s.p+4; e!=s.p; ) x += *--e;\n"
        "for (thread float *e = s.q+3; e>=s.q; e--) x += *e; result = x;",
    ),
    "negative index inside": (
        "",
        "float p[9]; for (int j = 0; j<9; j++) p[j] = j; thread float *m = p+4; float s = 0;\n"
        "for (int j = -4; j<=4; j++) s += m[j]; result = s+m[-(k[i]&3)];",
    ),
    "negative index in a member": (
        "struct S { int o; float p[9]; int e; };",
        "S s = {}; thread float *m = &s.p[4]; float x = 0;\n"
        "for (int j = -4; j<=4; j++) { m[j] = j; x += m[j]; } result = x+m[-(k[i]&3)];",
    ),
    "negative from second member element": (
        "struct S { float p[4]; float q[4]; int e; };",
        "S s = {}; thread float *m = s.q+(k[i]&3); result = m[-(k[i]&3)];",
    ),
    "pointer loop over structs": (
        "struct P { float x; int n; half h; };",
        "P p[5]; for (thread P *q = p; q<p+5; ++q) { q->x = q-p; q->n = 2; q->h = 1; } float s = 0;\n"
        "for (thread P *q = p; q!=p+5; q++) s += q->x*q->n+q->h; result = s;",
    ),
    "2D array by pointer to row": (
        "",
        "float m[4][5]; for (thread float (*r)[5] = m; r<m+4; r++) for (int j = 0; j<5; j++) (*r)[j] = j;\n"
        "thread float (*r)[5] = m+(k[i]&3); result = (*r)[k[i]%5];",
    ),
    "2D array flat": (
        "",
        "float m[4][5]; thread float *f = &m[0][0]; for (int j = 0; j<20; j++) f[j] = j; result = f[k[i]];",
    ),
    "2D member array flat": (
        "struct S { float m[4][5]; float e; };",
        "S s; thread float *f = &s.m[0][0]; for (int j = 0; j<20; j++) f[j] = j; s.e = 1;\nresult = f[k[i]]+s.e;",
    ),
    "3D member array flat from the middle": (
        "struct S { float m[2][3][4]; float e; };",
        "S s; thread float *f = s.m[1][1]; for (int j = -16; j<8; j++) f[j] = j; s.e = 1;\n"
        "result = f[-k[i]]+s.m[1][2][3];",
    ),
    "packed_float3 array": (
        "struct P { packed_float3 f; uchar t; };",
        "P p[3]; for (int j = 0; j<3; j++) { p[j].f = packed_float3(j, 1, 2); p[j].t = j; }\n"
        "result = p[k[i]%3].f[k[i]%3]+p[k[i]%3].t;",
    ),
    "template class with array": (
        "template <typename T, int N> struct Tile { T d[N]; int n; T sum() thread const { T s = 0;\n"
        "for (int j = 0; j<N; j++) s += d[j]; return s; } thread T &at(int j) thread { return d[j]; } };",
        "Tile<float, 7> x; for (int j = 0; j<7; j++) x.at(j) = v[j]; x.n = 7;\nresult = x.sum()+x.at(k[i]%7)+x.n;",
    ),
    "recursion with array": (
        "static float walk(thread float *p, int n) { if (n==0) return p[0]; float l[2] = { p[n], 1};\n"
        "return l[0]+l[1]*walk(p, n-1); }",
        "float p[5] = {1, 2, 3, 4, float(k[i])}; result = walk(p, 4);",
    ),
    "recursion with one past end": (
        "static float walk(thread float *p, thread float *e) { return p==e ? 0 : *p+walk(p+1, e); }",
        "float p[5] = {1, 2, 3, 4, float(k[i])}; result = walk(p, p+5);",
    ),
    "recursion with struct by reference": (
        "struct S { float acc[3]; int d; };\n"
        "static void go(thread S &s, int n) { if (n<=0) return; s.acc[n%3]+=n; s.d++; S t = s; go(t, n-2);\n"
        "s.acc[0]+=t.acc[0]; }",
        "S s = {{0, 0, 0}, 0}; go(s, k[i]&7); result = s.acc[0]+s.acc[1]+s.acc[2]+s.d;",
    ),
    "recursion with union and bits": (
        "union U { float f; uint n; }; struct B { uint x:4, y:28; };\n"
        "static uint go(thread U &u, thread B &c, int n) { if (!n) return u.n+c.x; c.x++; c.y = n; u.f += 1;\n"
        "return go(u, c, n-1)+c.y; }",
        "U u; u.f = k[i]; B c; c.x = 0; c.y = 2; result = go(u, c, 3);",
    ),
    "mutual recursion": (
        "static int odd(int n);\n"
        "static int even(int n) { int x = n; thread int *p = &x; return *p==0 ? 1 : odd(*p-1); }\n"
        "static int odd(int n) { int x = n; thread int *p = &x; return *p==0 ? 0 : even(*p-1); }",
        "result = even(k[i]);",
    ),
    "recursive descending pointers into struct": (
        "struct S { float p[8]; float q; };\n"
        "static float go(thread float *p, int n) { if (n==1) return *p; return go(p, n/2)+go(p+n/2, n-n/2); }",
        "S s; for (int j = 0; j<8; j++) s.p[j] = j; s.q = 1; result = go(s.p, 8)+s.q;",
    ),
    "switch fallthrough": (
        "",
        "float x;\n"
        "switch (k[i]&3) { case 0: x = 1; [[fallthrough]]; case 1: x = 2; break; case 2: x = 3; break;\n"
        "default: x = 4; }\n"
        "result = x;",
    ),
    "early return": (
        "static float f(int n) { float p[4]; if (n<0) return -1; for (int j = 0; j<4; j++) { p[j] = j;\n"
        "if (j==n) return p[j]; } return p[3]; }",
        "result = f(k[i]-2); if (i>40) return result; result += 1;",
    ),
    "do while": (
        "",
        "float p[8]; int j = 0; do { p[j] = j; } while (++j<8); float s;\n"
        "do { s = p[--j]; if (s<float(k[i]&7)) break; } while (j>0); result = s;",
    ),
    "do while with continue": (
        "",
        "int j = 0; float last; do { if (j&1) { last = j; continue; } last = -j; } while (++j<k[i]);\nresult = last;",
    ),
    "placement in struct": (
        "struct Arena { alignas(16) uchar bytes[64]; int used; };",
        "Arena m; m.used = 0; thread float *f = (thread float *)(m.bytes+16); m.used = 16;\n"
        "for (int j = 0; j<8; j++) f[j] = j; thread float4 *h2 = (thread float4 *)(m.bytes+16);\n"
        "result = f[k[i]&7]+h2[1].x+m.used;",
    ),
    "struct through bytes": (
        "struct S { int n; float f; short h[2]; };",
        "S s = { k[i], 2, {3, 4}} , other; thread uchar *x = (thread uchar *)&s, *y = (thread uchar *)&other;\n"
        "for (uint j = 0; j<sizeof(S); j++) y[j] = x[j]; result = other.n+other.f+other.h[1];",
    ),
    "pointer to vector component": (
        "",
        "float4 x = v[i]; thread float *p = (thread float *)&x; for (int j = 0; j<4; j++) p[j]+=j;\n"
        "result = x.w+p[k[i]&3];",
    ),
    "members walked as a vector": (
        "struct V { float x, y, z, w; };",
        "V q = {1, 2, 3, 4}; thread float *p = &q.x; float s = 0; for (int j = 0; j<4; j++) s += p[j];\nresult = s;",
    ),
    "members then array as one": (
        "struct V { float h; float p[3]; };",
        "V q = {1, {2, 3, 4}}; thread float *p = &q.h; float s = 0; for (int j = 0; j<4; j++) s += p[j];\nresult = s;",
    ),
    "base array from derived": (
        "struct B { float p[4]; }; struct D : B { float q[4]; int n; };",
        "D d = {{{1, 2, 3, 4}}, {5, 6, 7, 8}, 1}; thread float *p = d.p; thread float *q = d.q;\n"
        "result = p[k[i]&3]+q[k[i]&3]+q[3];",
    ),
    "struct copy by pointer to first member": (
        "struct H { float p[4]; float q[4]; int n; };",
        "H h = {{1, 2, 3, 4}, {5, 6, 7, 8}, 9}; thread H *s = (thread H *)&h.p; result = s->q[k[i]&3]+s->n;",
    ),
    "array of arrays in a class template": (
        "template <int R, int C> struct Mat { float d[R][C]; int n; thread float *row(int r) thread {\n"
        "return d[r]; } };",
        "Mat<3, 4> m; for (int r = 0; r<3; r++) for (int c = 0; c<4; c++) m.row(r)[c] = r*c; m.n = 1;\n"
        "float s = 0; thread float *f = m.row(0); for (int j = 0; j<12; j++) s += f[j]; result = s+m.n;",
    ),
    "lambda with array": (
        "",
        "float p[4] = {1, 2, 3, 4}; auto f = [&](int j) { return p[j]; };\n"
        "auto h2 = [=](int j) { return p[j]; }; result = f(k[i]&3)+h2(k[i]&3);",
    ),
    "array<T,N> member": (
        "struct S { array<float, 4> p; array<float, 4> q; };",
        "S s; for (int j = 0; j<4; j++) { s.p[j] = j; s.q[j] = j; } float x = 0; for (float y : s.p) x += y;\n"
        "for (float y : s.q) { y += 1; x += y; } result = x+s.p[k[i]&3];",
    ),
    "swap members by pointer array": (
        "struct S { float p[4]; float q[4]; float e; };",
        "S s = {{1, 2, 3, 4}, {5, 6, 7, 8}, 0}; thread float *w[2] = { s.p, s.q}; float x = 0;\n"
        "for (int j = 0; j<6; j++) { x += w[j&1][j&3]; w[(j+1)&1][(k[i]+j)&3] = x; } result = x;",
    ),
    "difference of pointers between members": (
        "struct S { float p[4]; float q[4]; float e; };",
        "S s = {{1, 2, 3, 4}, {5, 6, 7, 8}, 0}; result = s.q-s.p; if (s.p+4==s.q) result += 1;\n"
        "if (&s.p[4]<&s.q[1]) result += 1;",
    ),
    "metal matrix in struct": (
        "struct S { float3x3 m; float e; };",
        "S s; s.m = float3x3(v[i]); s.e = 2; S q = s; result = q.m[k[i]%3][k[i]%3]+q.e;",
    ),
    "flag guarded value": (
        "",
        "float x; bool set = false; if (k[i]>3) { x = 2; set = true; } if (set) result = x;",
    ),
    "partially filled top-k": (
        "",
        "float top[4]; int m = 0;\n"
        "for (int j = 0; j<k[i]; j++) { float y = v[(j*7)&15]; int at = m; while (at>0 && top[at-1]<y) {\n"
        "if (at<4) top[at] = top[at-1]; at--; } if (at<4) top[at] = y; if (m<4) m++; }\n"
        "float s = 0; for (int j = 0; j<m; j++) s += top[j]; result = s;",
    ),
    "constant table struct": (
        "struct C { float p[4]; int q[4]; };\n"
        "constant C T[2] = {{{1, 2, 3, 4}, {5, 6, 7, 8}}, {{1, 2, 3, 4}, {5, 6, 7, 8}}};",
        "constant C *c = &T[k[i]&1]; result = c->p[k[i]&3]+c->q[k[i]&3]; constant float *f = T[1].p;\nresult += f[3];",
    ),
    "constant 2D table flat": (
        "constant float T[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};",
        "constant float *f = T[0]; result = f[k[i]%12]; constant float (*r)[4] = T+2; result += (*r)[k[i]&3];",
    ),
    "virtual-free CRTP": (
        "template <class D> struct Base { float total() thread { float s = 0; for (int j = 0; j<4;\n"
        "j++) s += static_cast<thread D *>(this)->at(j); return s; } };\n"
        "struct Der : Base<Der> { float p[4]; float e; float at(int j) thread { return p[j]; } };",
        "Der d; for (int j = 0; j<4; j++) d.p[j] = j; d.e = 2; result = d.total()+d.e;",
    ),
    "struct with operator[]": (
        "struct V8 { float lo[4]; float hi[4]; thread float &operator[](int j) thread {\n"
        "return j<4 ? lo[j] : hi[j-4]; } };",
        "V8 x; for (int j = 0; j<8; j++) x[j] = j; result = x[k[i]&7];",
    ),
    "variadic sum": (
        "template <class T> static T add(T x) { return x; }\n"
        "template <class T, class... R> static T add(T x, R... r) { return x+add(r...); }",
        "result = add(v[i], 1.0f, 2.0f, float(k[i]));",
    ),
    "union of vec and array in struct with tail": (
        "struct S { union { float4 v4; float a4[4]; }; int n; };",
        "S s; s.v4 = v[i]; s.n = 2; thread float *p = s.a4; float x = 0; for (int j = 0; j<4; j++) x += p[j];\n"
        "result = x+s.n;",
    ),
    "anonymous struct in union": (
        "union M { struct { float a0[4]; float b0[4]; }; float all[8]; };",
        "M m; for (int j = 0; j<8; j++) m.all[j] = j; thread float *p = m.all;\nresult = p[k[i]&7]+m.b0[k[i]&3];",
    ),
    "union by member then bytes": (
        "union U { uint u; uchar c[4]; };",
        "U u; u.u = k[i]; uint s = 0; for (int j = 0; j<4; j++) s += u.c[j]; result = s;",
    ),
    "union of structs common initial": (
        "struct A { int t; float f; }; struct B { int t; int n; }; union U { A x; B y; };",
        "U u; u.x.t = k[i]&1; if (u.y.t) u.y.n = 3; else u.x.f = 2; result = u.x.t ? u.y.n : u.x.f;",
    ),
    "union copied and passed": (
        "union U { float f; uint u; half2 h; }; static U mk(float f) { U u; u.f = f; return u; }\n"
        "static float rd(U u) { return u.f; }",
        "U u = mk(v[i]); U w = u; result = rd(w)+float(w.h.x*0);",
    ),
    "bitfield compare and switch": (
        "struct B { uint kind:2; uint len:6; uint ptr:24; };",
        "B x; x.kind = k[i]; x.len = k[i]*2;\n"
        "switch (x.kind) { case 0: result = 1; break; case 1: result = x.len; break; default: result = x.kind; }",
    ),
    "bitfield signed arithmetic": (
        "struct B { int a:3; int b:5; };",
        "B x; x.b = -k[i]; x.b += 2; x.b *= 2; if (x.b<0) result = -x.b; else result = x.b/3+x.b%3;",
    ),
    "bitfields returned": (
        "struct B { uint a:4; uint b:4; }; static B mk(uint n) { B x; x.a = n; return x; }",
        "result = mk(k[i]).a;",
    ),
    "bitfield by ternary and logic": (
        "struct B { uint a:4; uint b:4; uint c:1; };",
        "B x; x.a = k[i]; x.c = x.a>2; result = (x.c && x.a!=5) || x.a==1 ? x.a*x.a : x.a-1;\nresult += x.a/2+x.a%3;",
    ),
    "bitfield high index": (
        "struct B { uint a:4; uint b:4; };",
        "B x; x.b = k[i]; result = v[x.b]+v[x.b*2+1]; float p[16] = {}; p[x.b] = 1; result += p[x.b];",
    ),
    "bitfield div, float conv, shifts": (
        "struct B { uint a:4; uint b:4; };",
        "B x; x.b = k[i];\n"
        "result = float(x.b)+(x.b/3)+(x.b%5)+(1u<<x.b)+clamp(uint(x.b), 1u,\n"
        "5u)+popcount(uint(x.b))+min(uint(x.b), 3u)+clz(uint(x.b))+abs(int(x.b)-3);",
    ),
    "bitfield signed high conv": (
        "struct B { int a:3; int b:5; };",
        "B x; x.b = k[i]-8;\n"
        "result = float(x.b)+(x.b/3)+(x.b%5)+clamp(int(x.b), 1, 5)+abs(int(x.b))+max(int(x.b),\n"
        "-3)+(x.b>>1)+(x.b<<2);",
    ),
    "bitfield swap": (
        "struct B { uchar a:4; uchar b:4; };",
        "B x; x.a = k[i]; x.b = x.a; uchar other = x.b; x.b = x.a+1; x.a = other; result = x.a*16+x.b;\n"
        "B z = x; thread uchar *p = (thread uchar *)&z; result += *p;",
    ),
    "kept in switch": (
        "static thread float *same(thread float *p) { return p; }",
        "float y = 0;\n"
        "switch (k[i]&3) { case 0: { float x = k[i]; thread float *p = same(&x); y = *p; break; } case 1: {\n"
        "float x = 2; y = *same(&x); } [[fallthrough]]; default: { float z = 3; y += *same(&z); } }\n"
        "result = y;",
    ),
    "visitor": (
        "struct V { thread float *acc; void operator()(float x) thread { *acc += x; } };\n"
        "template <class F> static void each(thread F &f, int m) { for (int j = 0; j<m; j++) f(j); }",
        "float y = 0;\n"
        "for (int r = 0; r<2; r++) { float part = 0; V vv = {&part}; each(vv, k[i]); y += part; } result = y;",
    ),
    "linked list on stack": (
        "struct N { float v; thread N *next; };\n"
        "static float sum(thread N *h) { float s = 0; for (; h; h = h->next) s += h->v; return s; }",
        "N c = {3, nullptr} , d = {2, &c} , e = {1, &d}; result = sum(&e); thread N *h = nullptr; N pool[6];\n"
        "for (int j = 0; j<6; j++) { pool[j] = { float(j), h}; h = &pool[j]; } result += sum(h);",
    ),
    "recursive list": (
        "struct N { float v; thread N *next; };\n"
        "static float rec(int m, thread N *up) { N me = { float(m), up}; if (m>0) return rec(m-1, &me);\n"
        "float s = 0; for (thread N *h = &me; h; h = h->next) s += h->v; return s; }",
        "result = rec(k[i]&7, nullptr);",
    ),
    "recursive scratch halves": (
        "static void msort(thread float *p, thread float *q, int m) { if (m<2) return; int h = m/2;\n"
        "msort(p, q, h); msort(p+h, q+h, m-h); int a2 = 0, b2 = h; for (int j = 0; j<m;\n"
        "j++) q[j] = b2>=m || (a2<h && p[a2]<=p[b2]) ? p[a2++] : p[b2++]; for (int j = 0; j<m;\n"
        "j++) p[j] = q[j]; }",
        "float p[16], q[16]; for (int j = 0; j<16; j++) p[j] = (j*7+k[i])&15; msort(p, q, 16);\nresult = p[k[i]];",
    ),
    "const struct cast and loops": (
        "struct P { float x[4]; int m; };\n"
        "static float rd(thread const P &p) { thread P *q = (thread P *)&p; return q->x[q->m]; }",
        "float y = 0;\n"
        "for (int j = 0; j<4; j++) { const P p = {{1, 2, 3, float(j)}, j}; y += rd(p); if (j==k[i]) continue;\n"
        "const P q = p; y += rd(q); }\n"
        "result = y;",
    ),
}
_TOGETHER = 12


def right_forms() -> Iterator[tuple[str, str]]:
    """Functions before a kernel and its body, for some of the forms at a time."""
    forms = list(_FORMS.values())
    for first in range(0, len(forms), _TOGETHER):
        part = forms[first : first + _TOGETHER]
        yield "".join(map(_function, part, range(len(part)))), "\n".join(map(_call, range(len(part))))


def _function(form: tuple[str, str], number: int) -> str:
    types, body = form
    head = "static float run(uint i, device const int *k, device const float *v)"
    return f"namespace form{number} {{\n{types}\n{head} {{\nfloat result = 0;\n{body}\nreturn result;\n}}\n}}\n"


def _call(number: int) -> str:
    return f"a[i] += form{number}::run(i, k, v);"

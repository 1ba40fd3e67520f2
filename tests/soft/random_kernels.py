"""Random kernels: arithmetic of all sizes, nested divergence, loops, private arrays, barriers, simdgroup functions.

Several are packed into one, each with results of its own: of a small kernel's time, the compiler's start is the larger
part.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_LEAVES = "a b c lane t simd i u 3u 7u 31u 0x80000001u w uint(h) s[lane&7u] uint(q) arr[a&7u] arr[c&7u]".split()
_SIMD = (
    "{v} += simd_sum({x} & 255u);",
    "{v} ^= simd_max({x});",
    "{v} += simd_min({x} & 1023u);",
    "{v} += simd_prefix_exclusive_sum({x} & 15u);",
    "{v} += simd_prefix_inclusive_sum({x} & 15u);",
    "{v} += simd_broadcast_first({x});",
    "{v} ^= simd_xor({x});",
    "{v} += simd_or({x}) + simd_and({x});",
    "{v} += popcount(uint((simd_vote::vote_t)simd_active_threads_mask()));",
    "{v} += uint((simd_vote::vote_t)simd_ballot({c}));",
    "if (simd_any({c})) {v} += 3u;",
    "if (simd_all({c})) {v} ^= 5u;",
    "if (simd_is_first()) {v} += 17u;",
    "{v} += quad_sum({x} & 255u) + quad_max({x});",
    "f += simd_sum(float2({x} & 63u, {v} & 31u)).y;",
    "f += simd_sum(float({x} & 1023u));",
    "f = simd_max(f + float({x} & 63u));",
)
# These read from lanes that must be there.
_SHUFFLES = (
    "{v} += simd_shuffle({x}, ushort({v} & 31u));",
    "{v} += simd_shuffle_xor({x}, {n});",
    "{v} += simd_shuffle_down({x}, {n});",
    "{v} += simd_shuffle_up({x}, {n});",
    "{v} += simd_broadcast({x}, ushort(u & 31u));",
    "{v} += simd_shuffle_rotate_down({x}, {n});",
    "{v} += uint(simd_shuffle(half({x} & 511u), ushort(lane ^ 3u)));",
    "{v} += simd_shuffle_and_fill_down({x}, 9u, 3);",
    "{v} += quad_shuffle_xor({x}, 1) + quad_broadcast({x}, 2);",
)
_STEPS = (
    *("{v} = {y};",) * 8,
    *("{v} += {x};",) * 2,
    "h = ushort({x});",
    "q = char({x});",
    "w += {x};",
    "{v} += in[0u + {x} & 255u];",
    "{v} += in[(i - {n}u) & 255u];",
    "if (i >= {n}u) {v} += in[i - {n}u];",
    "{v} += in8[0u + {x} & 1023u];",
    "{v} += in16[(i & 255u) + {n}u];",
    "{{ uint4 z = in4[0u + {x} & 63u]; {v} += z.x * 3u + z.y ^ z.z - z.w; }}",
    *("arr[0u + {x} & 7u] = {x};",) * 2,
    "f = f * 0.5f + float({v} & 255u);",
    "out[i] ^= {v};",
    "atomic_fetch_add_explicit(&counts[0u + {x} & 15u], {v}, memory_order_relaxed);",
    "atomic_fetch_max_explicit(&counts[16u + ({x} & 15u)], {v}, memory_order_relaxed);",
    "{{ uint4 z = uint4({x}, {v}, lane, 7u); z[{v} & 3u] = {x}; {v} ^= z[{x} & 3u] + z.w; }}",
    "{{ uint k = 0; while (k < ({v} & 7u)) {{ k++; {v} += k; }} }}",
)
_EXPRESSIONS = (
    *("({x} + {y})", "({x} - {y})", "({x} * {y})", "({x} & {y})", "({x} | {y})", "({x} ^ {y})") * 2,
    "({x} << ({y} & 31u))",
    "({x} >> ({y} & 31u))",
    "({x} / ({y} | 1u))",
    "({x} % ({y} | 1u))",
    "uint(int({x}) >> int({y} & 31u))",
    "({c} ? {x} : {y})",
    "uint(short({x}))",
    "uint(uchar({x}))",
    "uint((ulong({x}) * ulong({y})) >> 17)",
    "uint(ulong({x}) % (ulong({y}) | 1ul))",
    "min({x}, {y})",
    "max({x}, {y})",
    "popcount({x})",
    "clz({x})",
    "reverse_bits({x})",
)
_CONDITIONS = (
    "lane < {n}u",
    "lane == {n}u",
    "(u & 2u) != 0",
    "i < u * 37u",
    "i < t + u",
    "({x} < {y})",
    "({x} == {y})",
    "(int({x}) > int({y}))",
    "((0u + {x}) & 3u) != 0",
    "((0u + {x}) % 5u < 2u)",
    "!(lane < {n}u && {x} != 3u)",
    "(i < 190u || {x} < {y})",
)
_BOUNDS = ("4u", "(u & 3u) + 1u", "lane % 5u + 1u", "({v} & 7u)", "(lane & 1u) * 3u")
_HEAD = """kernel void k(device uint *results, device const uint *in, device const uchar *in8,
  device const ushort *in16, device const uint4 *in4, device atomic_uint *counts, device const uint *uniform_numbers,
  uint i [[thread_position_in_grid]], uint size [[threads_per_grid]], uint t [[thread_index_in_threadgroup]],
  uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
  uint n [[threads_per_threadgroup]]) {
"""
_SHARED = "  threadgroup uint shared[1024];\n"
_BEGIN = """{ device uint *out = results + size * %d; uint a = in[i & 255u], b = i * 2654435761u, c = lane, w = t;
  uint u = uniform_numbers[simd & 1u]; ushort h = ushort(i); char q = char(a); float f = 1.0f; uint s[8], arr[8];
  for (uint j = 0; j < 8; j++) { s[j] = in[(i + j) & 255u]; arr[j] = j * lane; }
"""
_MEET = """
  threadgroup_barrier(mem_flags::mem_threadgroup); shared[t] = t * 3u; threadgroup_barrier(mem_flags::mem_threadgroup);
"""
_END = """
  uint z = as_type<uint>(f) + w + h + uint(q); for (uint j = 0; j < 8; j++) z += arr[j] * (j + 1);
  out[i] += a ^ (b * 3u) ^ (c * 5u) ^ (u * 7u) ^ z; }
"""


@dataclass
class Writer:
    """In `whole` simdgroups lanes may read from any other; threads `apart` never wait for each other."""

    random: random.Random
    whole: bool
    returns: bool
    apart: bool = False
    loops: int = 0

    def fill(self, templates: tuple[str, ...], depth: int) -> str:
        return self.random.choice(templates).format(
            v=self.random.choice("abc"),
            x=self.expression(depth),
            y=self.expression(depth),
            c=self.condition(depth),
            n=self.random.randrange(1, 33),
        )

    def expression(self, depth: int) -> str:
        if depth <= 0 or self.random.random() < 0.25:
            return self.random.choice(_LEAVES)
        return self.fill(_EXPRESSIONS, depth - 1)

    def condition(self, depth: int) -> str:
        return self.fill(_CONDITIONS, depth - 1) if depth > 0 else f"lane < {self.random.randrange(34)}u"

    def block(self, depth: int, in_loop: bool) -> str:
        return " ".join(self.statement(depth, in_loop) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth: int, in_loop: bool = False) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.4:
            return self.fill(_STEPS, 2)
        if choice < 0.55 and not self.apart:
            return self.fill(_SIMD, 1)
        if in_loop and choice < 0.62:
            return f"if ({self.condition(2)}) {self.random.choice(('break', 'continue'))};"
        if self.returns and choice < 0.58:
            return f"if ({self.condition(2)}) {{ out[i] += c; return; }}"
        if choice < 0.8:
            other = f" else {{ {self.block(depth - 1, in_loop)} }}" if self.random.random() < 0.5 else ""
            return f"if ({self.condition(2)}) {{ {self.block(depth - 1, in_loop)} }}{other}"
        return self.switch(depth) if choice < 0.84 else self.loop(depth)

    def switch(self, depth: int) -> str:
        ends = ("break;", "")
        cases = (
            f"case {k}: {self.block(depth - 1, False)} {self.random.choice(ends)}"
            for k in range(self.random.randint(1, 4))
        )
        return (
            f"switch (0u + {self.expression(1)} & 3u) {{ {' '.join(cases)} default: {self.block(depth - 1, False)} }}"
        )

    def loop(self, depth: int) -> str:
        k, self.loops = f"k{self.loops}", self.loops + 1
        bound = self.random.choice(_BOUNDS).format(v=self.random.choice("abc"))
        body = self.block(depth - 1, True)
        if self.random.random() < 0.75:
            first = self.random.choice(("0u", "0u", "lane & 1u"))
            return f"for (uint {k} = {first}; {k} < {bound}; {k}++) {{ {self.random.choice('abc')} += {k}; {body} }}"
        return f"{{ uint {k} = {bound}; do {{ {body} }} while ({k}-- > 1u && {self.condition(1)}); }}"

    def exchange(self) -> str:
        """What all lanes do together."""
        if self.whole and self.random.random() < 0.5:
            return self.fill(_SHUFFLES, 1)
        barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);"
        place = f"(t + {self.random.randrange(200)}u) % n"
        text = f"{barrier} shared[t] = {self.expression(1)}; {barrier} {self.random.choice('abc')} += shared[{place}];"
        if self.random.random() < 0.6:
            return text
        k, self.loops = f"k{self.loops}", self.loops + 1
        return f"for (uint {k} = 0; {k} < (uniform_numbers[0] & 3u) + 1u; {k}++) {{ {text} {self.block(1, False)} }}"

    def program(self, number: int) -> str:
        parts = []
        for _ in range(self.random.randint(2, 5)):
            together = self.random.random() < 0.2 and not self.apart
            parts.append(self.exchange() if together else self.statement(self.random.randint(1, 3)))
        return _BEGIN % number + ("" if self.apart else _MEET) + "\n".join(parts) + _END


def pack(seed: int, kernels: int) -> tuple[str, int]:
    """Kernels as one, of which only the last may return early, and the size of its threadgroups."""
    chance = random.Random(seed)
    whole = chance.random() < 0.5
    writers = [Writer(chance, whole, returns=not whole and n == kernels - 1) for n in range(kernels)]
    texts = [writer.program(number) for number, writer in enumerate(writers)]
    size = chance.choice((32, 64, 96, 128)) if whole else chance.choice((32, 64, 40, 7, 128))
    return f"{_HEAD}{_SHARED}{''.join(texts)}}}\n", size


def pack_apart(seed: int, kernels: int) -> tuple[str, int]:
    """The same of kernels whose threads never wait, so that the flat engine takes them."""
    chance = random.Random(seed)
    writers = [Writer(chance, whole=False, returns=n == kernels - 1, apart=True) for n in range(kernels)]
    texts = [writer.program(number) for number, writer in enumerate(writers)]
    return f"{_HEAD}{''.join(texts)}}}\n", chance.choice((32, 64, 40, 7, 128))

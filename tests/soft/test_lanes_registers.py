"""What lanes do in registers: lookups in constant tables, products of bytes, shuffles from any lane."""

from __future__ import annotations

import platform
import re

import numpy as np
import pytest

from mlx_native_py import settings
from mlx_native_py.softmetal.engines.lanes import vectorise

from . import lanes_kit as kit

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or settings.current().soft_cpu == "x86-64-v2", reason="needs AVX2"
)
HEAD = """kernel void k(device float *out, device const uint *in, device const char *b,
    uint i [[thread_position_in_grid]]) {
  const uint v = in[i]; float w = 0;
"""
TABLES = """constant float sixteen[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constant float seven[7] = {1, 2, 3, 5, 7, 11, 13};
constant int words[16] = {7, 1, -2, 3, 4, -5, 6, 7, 8, 9, 10, 11, 1 << 30, 13, 14, 15};
constant char bytes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constant uchar thirty[30] = {200, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
  255, 21, 22, 23, 24, 25, 26, 27, 28, 129};
"""
LOOKUPS = {
    "nibbles": "w = sixteen[v & 15] + 3 * sixteen[v >> 4 & 15] + 5 * sixteen[v >> 28];",
    "nibbles of 64 bits": "ulong x = ulong(v) << 20; w = sixteen[x >> 40 & 15] - sixteen[x >> 22 & 15];",
    "a table of seven": "w = seven[v % 7];",
    "words": "w = words[v >> 8 & 15] + words[(v >> 3 & 14) + 1];",
    "bytes": "w = bytes[v & 15] + 2 * bytes[v >> 9 & 15];",
    "two registers": "w = thirty[v % 30];",
    "a table of the function's own": "const float own[8] = {3, 1, 4, 1, 5, 9, 2, 6}; w = own[v & 7] * own[v >> 5 & 7];",
    "some lanes": "if (v & 64) w = sixteen[v & 15]; else w = bytes[v >> 7 & 15];",
    "lanes in a loop": "for (uint k = 0; k < (v & 7); ++k) w = w * 0.5f + sixteen[v >> 3 * k & 15];",
}
DOTS = {
    "char4": """const int4 p = int4(((device const char4 *)b)[i]), q = int4(((device const char4 *)b)[(v & 63)]);
      w = p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;""",
    "packed words": """const char4 p = as_type<char4>(v), q = as_type<char4>(in[i ^ 1]);
      w = p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3];""",
    "a loop": "int s = int(v & 255); for (uint k = 0; k < 16; ++k) s += int(b[16 * (i % 16) + k]) * int(b[k]); w = s;",
    "without a sign": """device const uchar *u = (device const uchar *)b + 4 * i; uint s = 0;
      for (uint k = 0; k < 4; ++k) s += uint(u[k]) * uint(u[k + 4]); w = s;""",
    "mixed": """device const uchar *u = (device const uchar *)b + 8 * i; int s = 0;
      for (uint k = 0; k < 8; ++k) s += int(u[k]) * int(b[k + 3]) - 5; w = s;""",
    "packed words without a sign": """const uchar4 p = as_type<uchar4>(v), q = as_type<uchar4>(in[i ^ 1]);
      w = p[0] * q[0] + p[1] * q[1] + p[2] * q[2] + p[3] * q[3];""",
    "wrapping": """int s = int(v); for (uint k = 0; k < 4; ++k) s += int(b[4 * i + k]) * int(b[4 * i + k]);
      w = uint(s);""",
    "squares of some lanes": """int s = 0; if (v & 8) for (uint k = 0; k < 4; ++k) s += int(b[4 * i + k]) * int(b[k]);
      w = s;""",
}


def vector_code(monkeypatch: pytest.MonkeyPatch, source: str) -> str:
    """What the pass writes for a program, which must give the same on lanes and on fibers."""
    written: list[str] = []
    whole = vectorise.vectorise

    def spy(text: str, entry: str, size: tuple[int, int, int]) -> vectorise.Vectors:
        made = whole(text, entry, size)
        written.append(made.text)
        return made

    monkeypatch.setattr(vectorise, "vectorise", spy)
    random = np.random.default_rng(5)
    numbers = random.integers(0, 1 << 32, 256, np.uint32)
    some = random.integers(-128, 128, 4096).astype(np.int8)
    kit.compare(kit.fresh(source), [np.zeros(256, np.float32), numbers, some], (256, 1, 1), (64, 1, 1))
    return written[0]


@pytest.mark.parametrize("name", LOOKUPS)
def test_small_tables_lie_in_registers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = vector_code(monkeypatch, f"{TABLES}{HEAD}{LOOKUPS[name]} out[i] = w; }}")
    assert re.search(r"call .* @llvm\.x86\.avx\w+\.(permvar|perm|pshuf)", code)
    assert "gather" not in code


def test_large_tables_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"constant float many[100] = {{{', '.join(str(i * i) for i in range(100))}}};\n"
    code = vector_code(monkeypatch, f"{table}{HEAD} w = many[v % 100]; out[i] = w; }}")
    assert "gather" in code


@pytest.mark.parametrize("name", DOTS)
def test_products_of_bytes_are_added_in_pairs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code = vector_code(monkeypatch, f"{HEAD}{DOTS[name]} out[i] = w; }}")
    assert re.search(r"call .* @llvm\.x86\.avx\w+\.pmadd", code)
    assert not re.search(r"= mul (?:nsw )?<32 x i32>", code)


@pytest.mark.parametrize("kind", ["uint", "float", "ushort"])
def test_lanes_take_from_any_lane(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two registers of sixteen lanes are shuffled together; smaller ones would be too many."""
    body = (
        f"{kind} x = v >> 8; w = simd_shuffle(x, ushort(v & 31)); if (x < 9) w += simd_shuffle(x, ushort(v >> 6 & 31));"
    )
    code = vector_code(monkeypatch, f"{HEAD}{body} out[i] = w; }}")
    assert ("permvar" in code) == ("+avx512bw," in code)


def test_products_of_other_bytes_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "w = b[i] * b[2 * i] + b[i + 7] * b[3 * i] + b[i + 1] * b[i + 90] + b[i + 2] * b[i + 5];"
    assert "pmadd" not in vector_code(monkeypatch, f"{HEAD}{body} out[i] = w; }}")


# Filled by lanes side by side; how often the loops go round is known only to the running kernel.
ARRAY = "float a[16]; for (uint k = 0; k < 16; ++k) a[k] = float(b[256 * k + i]); const uint n = in[0] & 31;"
PRIVATE = {
    "the same index in all lanes": ("for (uint k = 0; k < n; ++k) { a[k * 5 & 15] += 1; w += a[k * 7 & 15]; }", 0, 0),
    "an index of each lane's own": ("for (uint k = 0; k < n; ++k) w += a[v + k & 15];", 1, 0),
    "a store at each lane's own": ("a[v & 15] = 3; for (uint k = 0; k < n; ++k) w += a[k & 15];", 0, 1),
}


def entry_of(code: str) -> str:
    return code[code.index("define void @soft_lanes_entry") :]


@pytest.mark.parametrize(("body", "gathers", "scatters"), PRIVATE.values(), ids=PRIVATE)
def test_private_arrays_are_not_transposed(
    body: str, gathers: int, scatters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same element of all lanes lies side by side: one load, or one gather where lanes want different ones."""
    code = vector_code(monkeypatch, f"{HEAD}{ARRAY}{body} out[i] = w; }}")
    entry, wide = entry_of(code), "+avx512bw," in code
    assert "alloca [512 x i32], align 64" in entry
    assert len(re.findall(r"call .*gather", entry)) == gathers or gathers and not wide
    assert len(re.findall(r"call .*scatter", entry)) == scatters or scatters and not wide
    # To gather takes the loop's counter in all lanes, which is one of each.
    assert len(re.findall("shufflevector|insertelement", entry)) == 2 * gathers or not wide and gathers + scatters


def test_private_arrays_with_constant_indices_are_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(vector_code(monkeypatch, f"{HEAD}{ARRAY} out[i] = a[0] - a[7] * a[15]; }}"))
    assert not re.search("alloca|gather|scatter|shufflevector", entry)

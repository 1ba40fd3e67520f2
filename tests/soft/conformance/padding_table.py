"""Bytes that no member of a stored object has: zero, whatever was there and whichever engine stores it."""

from __future__ import annotations

import numpy as np

from .program import Program

_BODY = """
struct Small { char a; float b; uchar c; };
struct Vector { float3 p; };
struct Nested { Small s; short t; };
struct Long { char a; float list[12]; char z; };
Small filled(float x) { Small s; s.a = 1; s.b = x; s.c = 3; return s; }
kernel void k(device Small* s, device Vector* v, device Nested* n, device Long* l, device Small* through,
              uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]]) {
  threadgroup Small shared[32];
  Small x; x.a = 1; x.b = i; x.c = 3; s[i] = x;
  if (i & 1) { v[i].p = float3(i); } else { Vector y = {float3(1, 2, i)}; v[i] = y; }
  Nested q; q.s = filled(2); q.t = i; n[i] = q;
  Long w; w.a = 1; for (int j = 0; j < 12; j++) w.list[j] = j; w.z = 3; l[i] = w;
  Small copy = s[i]; copy.b += 1; shared[t] = copy; through[i] = shared[t];
}
"""
COUNT = 64


def _bytes(size: int) -> np.ndarray:
    return np.full(COUNT * size, 0xA5, np.uint8)


def _small(values: np.ndarray) -> np.ndarray:
    kind = np.dtype({"names": ["a", "b", "c"], "formats": ["i1", "f4", "u1"], "offsets": [0, 4, 8], "itemsize": 12})
    result = np.zeros(len(values), kind)
    result["a"], result["b"], result["c"] = 1, values, 3
    return result.view(np.uint8)


def all_programs() -> list[Program]:
    counted = np.arange(COUNT, dtype=np.float32)
    vectors = np.zeros((COUNT, 4), np.float32)
    vectors[1::2, :3] = counted[1::2, None]
    vectors[::2, :3] = np.stack([np.ones(32), np.full(32, 2), counted[::2]], axis=1)
    nested = np.zeros((COUNT, 16), np.uint8)
    nested[:, :12] = _small(np.full(COUNT, 2, np.float32)).reshape(COUNT, 12)
    nested[:, 12] = np.arange(COUNT)
    long = np.zeros((COUNT, 56), np.uint8)
    long[:, 0], long[:, 52] = 1, 3
    long[:, 4:52] = np.arange(12, dtype=np.float32).view(np.uint8)
    results = {
        "struct": (0, _small(counted)),
        "three-elements": (1, vectors.view(np.uint8).reshape(-1)),
        "nested": (2, nested.reshape(-1)),
        "array-inside": (3, long.reshape(-1)),
        "through-threadgroup": (4, _small(counted + 1)),
    }
    args = [_bytes(12), _bytes(16), _bytes(16), _bytes(56), _bytes(12)]
    return [Program("padding", _BODY, args, results, threads=COUNT, group=32)]

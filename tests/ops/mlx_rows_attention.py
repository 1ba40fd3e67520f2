"""Attention as MLX has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .mlx_table import MlxRow, normal


def _row(note: str, queries: int, keys: int, dim: int = 64, heads: tuple[int, int] = (4, 2), **options: Any) -> MlxRow:
    q, k, v = (
        normal(2, heads[0], queries, dim),
        normal(2, heads[1], keys, dim, seed=1),
        normal(2, heads[1], keys, dim, seed=2),
    )
    return MlxRow("scaled_dot_product_attention", (q, k, v), {"scale": dim**-0.5, **options}, note=note)


SEEN = np.random.default_rng(3).random((2, 4, 21, 50)) > 0.3
HIDDEN = np.arange(21)[:, None] % 5 != np.zeros(50)  # every fifth row sees nothing

ROWS = [
    _row("decode", 1, 300, 128),
    _row("few", 5, 33, 96, mask="causal"),
    _row("prefill", 40, 70, 80),
    _row("causal", 40, 70, 128, mask="causal"),
    _row("causal_more_queries", 12, 5, mask="causal"),
    _row("causal_more_queries_few", 7, 5, mask="causal"),
    _row("boolean", 21, 50, mask=SEEN),
    _row("boolean_rows", 21, 50, mask=SEEN[0, 0]),
    _row("hidden_rows", 21, 50, mask=HIDDEN),
    _row("added", 21, 50, mask=normal(4, 1, 50, seed=4)),
    _row("added_infinity", 21, 50, mask=np.where(SEEN[1, 2], 0, -np.inf).astype(np.float32)),
    _row("added_hidden_rows", 21, 50, mask=np.where(HIDDEN, 0, -np.inf).astype(np.float32)),
    _row("sinks", 21, 50, sinks=normal(4, seed=5)),
    _row("sinks_decode", 1, 50, mask=HIDDEN[:1], sinks=normal(4, seed=5)),
    _row("multi_query", 3, 50, 256, (4, 1)),
]

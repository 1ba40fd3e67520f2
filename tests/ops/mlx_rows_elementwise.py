"""Elementwise functions and activations that MLX has too."""

from __future__ import annotations

from mlx_native_py import DType, fn

from .mlx_table import MlxRow, normal

A, B = normal(3, 70), normal(3, 70, seed=1)
X = normal(5, 33) * 4

ROWS = [
    MlxRow("add", (A, B), exact=True),
    MlxRow("add", (A, normal(70, seed=2)), exact=True, note="row"),
    MlxRow("add", (normal(2, 1, 5), normal(3, 1, seed=1)), exact=True, note="broadcast"),
    MlxRow("add", (A, 1.5), exact=True, note="number"),
    MlxRow("multiply", (A, B), exact=True),
    MlxRow("multiply", (A, 0.3), exact=True, note="number"),
    MlxRow("multiply", (normal(4, 6), normal(4, 1, seed=1)), exact=True, note="column"),
    MlxRow("subtract", (A, B), exact=True),
    MlxRow("subtract", (1.5, A), exact=True, note="number first"),
    MlxRow("subtract", (normal(70, seed=2), A), exact=True, note="row first"),
    MlxRow("divide", (A, B)),
    MlxRow("divide", (normal(4, 1), normal(4, 6, seed=1)), note="column first"),
    MlxRow("divide", (A, 0.3), note="number"),
    MlxRow("silu", (X,)),
    MlxRow("gelu", (X,)),
    MlxRow("gelu_approx", (X,)),
    MlxRow("sigmoid", (X,)),
    MlxRow("tanh", (X,)),
    MlxRow("exp", (X,)),
    MlxRow("log", (abs(X),)),
    MlxRow("full", ((2, 5), 1.5), exact=True),
    MlxRow("broadcast_to", (normal(3, 1), (2, 3, 4)), exact=True),
    MlxRow("silu_mul", (X, normal(5, 33, seed=3)), mlx=lambda mx, gate, up: gate * mx.sigmoid(gate) * up),
    MlxRow("softcap", (X, 2.5), mlx=lambda mx, x, cap: mx.tanh(x / cap) * cap),
    *(
        MlxRow(
            "astype",
            (normal(9, 5, dtype=before),),
            ours=lambda a, stream, after=after: fn.astype(a, after, stream=stream),
            mlx=lambda mx, a, name=name: a.astype(getattr(mx, name)),
            exact=True,
            note=f"{before}-{after}",
        )
        for before in (DType.F32, DType.F16, DType.BF16)
        for after, name in ((DType.F32, "float32"), (DType.F16, "float16"), (DType.BF16, "bfloat16"))
        if before is not after
    ),
]

"""The bench that a case runs on: guarded memory, encoding in different ways, and comparisons with their tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlx_native_py import Dispatch, DType, MlxBuffer, MlxDevice

GUARD = 64  # elements of padding on each side
SENTINEL = 0xA5
# The mean square error over the mean square, by the type of the result.
NMSE = {DType.F32: 1e-10, DType.F16: 1e-6, DType.BF16: 2e-5}
QUANTISED_NMSE = 1e-6
ULP = 4

Array = np.ndarray[Any, np.dtype[Any]]


class Bench:
    """One case: its device, its random numbers, and every buffer that it made, with what must not change in it."""

    def __init__(self, device: MlxDevice, number: int) -> None:
        self.device = device
        self.rng = np.random.default_rng(number)
        self.offset = (0, 1, 5)[number % 3]
        self.captures = number % 2 == 1
        self._made: list[tuple[MlxBuffer, MlxBuffer, Array, bool]] = []

    # Arrays

    def normal(self, *shape: int, dtype: DType = DType.F32, scale: float = 1.0) -> Array:
        """Random numbers, rounded to the type."""
        return np.asarray(self.rng.normal(size=shape) * scale, np.float32).astype(dtype.numpy)

    def integers(self, low: int, high: int, *shape: int, dtype: DType = DType.U32) -> Array:
        return self.rng.integers(low, high, shape).astype(dtype.numpy)

    # Buffers

    def put(self, array: Array, *, changes: bool = False) -> MlxBuffer:
        """A view with the array's elements, at an offset of its own; `changes` says that the op may write to it."""
        array = np.ascontiguousarray(array)
        dtype = DType.of(array.dtype)
        whole = self.device.empty(GUARD + self.offset + array.size + GUARD, dtype)
        whole.numpy().view(np.uint8)[...] = SENTINEL & (1 if dtype is DType.BOOL else 0xFF)
        view = whole.slice_view((GUARD + self.offset) * dtype.size, array.size).reshape(array.shape)
        view.numpy()[...] = array
        self._made.append((whole, view, whole.numpy().copy(), changes))
        return view

    def out(self, *shape: int, dtype: DType = DType.F32) -> MlxBuffer:
        """A view to be written, full of what no op computes."""
        filler = np.full(int(np.prod(shape)) * dtype.size, 0x7F, np.uint8).view(dtype.numpy)
        return self.put(filler.reshape(shape), changes=True)

    # Running

    def run(self, op: Any, *args: Any, **options: Any) -> Any:
        """Encodes the op, straight or by capture and replay, waits, and looks at all memory that it must not touch."""
        with self.device.command_encoder() as enc:
            if self.captures:
                enc.start_capture()
            result = op(enc, *args, **options)
            for node in (enc.take_capture() or ()) if self.captures else ():
                if isinstance(node, Dispatch):
                    enc.replay_dispatch(node)
                else:
                    enc.memory_barrier()
        self.check_guards()
        return result

    def check_guards(self) -> None:
        for whole, view, before, changes in self._made:
            now = whole.numpy().view(np.uint8)
            then = before.view(np.uint8)
            if changes:
                first = view.offset - whole.offset
                now, then = now.copy(), then.copy()
                now[first : first + view.nbytes] = then[first : first + view.nbytes] = 0
            changed = np.flatnonzero(now != then)
            assert not changed.size, f"byte {changed[0]} of {whole} changed, outside of {view}"

    # Comparing

    def exact(self, result: Any, expected: Array) -> None:
        """The same bits; one NaN is as good as another."""
        got = np.asarray(result)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if got.dtype.kind not in "iub":
            nan = np.isnan(expected.astype(np.float64))
            assert np.array_equal(np.isnan(got.astype(np.float64)), nan)
            got, expected = np.where(nan, 0, got), np.where(nan, 0, expected)
        np.testing.assert_array_equal(
            np.ascontiguousarray(got).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
        )

    def elementwise(self, result: Any, expected: Array) -> None:
        """f32 within 4 ulp of float64; the small types by their mean error, and NaN and infinity as they are."""
        got = np.asarray(result)
        if got.dtype != np.float32:
            return self.close(result, expected)
        assert got.shape == expected.shape
        rounded = expected.astype(np.float32)
        special = ~np.isfinite(rounded)
        np.testing.assert_array_equal(got[special], rounded[special])
        spacing = np.spacing(np.abs(rounded[~special])).astype(np.float64)
        error = np.abs(got[~special].astype(np.float64) - expected[~special]) / spacing
        assert not error.size or error.max() <= ULP, f"{error.max():.1f} ulp"
        return None

    def close(self, result: Any, expected: Array, *, nmse: float | None = None) -> None:
        """Within the type's mean square error of float64; NaN and infinity as they are."""
        got = np.asarray(result)
        limit = NMSE[DType.of(got.dtype)] if nmse is None else nmse
        assert got.shape == expected.shape, f"{got.shape}, expected {expected.shape}"
        exact = got.astype(np.float64)
        with np.errstate(over="ignore"):
            rounded = expected.astype(got.dtype).astype(np.float64)
        finite = np.isfinite(rounded)
        np.testing.assert_array_equal(exact[~finite], rounded[~finite])
        scale = np.mean(np.square(expected[finite])) if finite.any() else 0.0
        error = np.mean(np.square(exact[finite] - expected[finite])) if finite.any() else 0.0
        assert error <= limit * max(scale, np.finfo(np.float64).tiny), (
            f"NMSE {error / max(scale, 1e-300):.2e} > {limit}"
        )

    def quantised(self, result: Any, expected: Array) -> None:
        """A product with quantised weights against float64 on the dequantised ones."""
        got = DType.of(np.asarray(result).dtype)
        self.close(result, expected, nmse=max(QUANTISED_NMSE, NMSE[got]))

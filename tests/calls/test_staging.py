"""Copies of arrays for a call: their memory is used again, and by nobody else before the call is done."""

from __future__ import annotations

import numpy as np

from mlx_native_py import MlxDevice, fn

SOURCE = """
kernel void axpy(device float *y, device const float *x, constant float &a, uint i [[thread_position_in_grid]]) {
  y[i] += a * x[i];
}
"""


def test_copies_of_arrays_lie_in_the_memory_of_earlier_ones(device: MlxDevice) -> None:
    lib = device.compile(SOURCE)
    for start in range(3):
        y, x = np.full(1001, start, np.float32)[1:], np.arange(1001, dtype=np.float32)[1:]
        lib.axpy(y, x, 2.0)
        assert np.array_equal(y, start + 2 * x)
        assert device.recycler.nbytes == y.nbytes + x.nbytes
    sums = [fn.add(y, x, stream=device) for _ in range(3)]
    assert all(np.array_equal(each.numpy(), y + x) for each in sums)
    assert len({each.start for each in sums}) == 3
    assert device.recycler.nbytes == y.nbytes + x.nbytes


def test_memory_of_a_copy_that_is_still_used_is_not_given_to_others(device: MlxDevice) -> None:
    lib = device.compile(SOURCE)
    y = device.buffer(np.zeros(1000, np.float32))
    x = np.ones(1001, np.float32)[1:]
    tickets = [lib.axpy(y, x, 1.0, wait=False) for _ in range(8)]
    assert device.recycler.nbytes == 0
    for ticket in tickets:
        ticket.wait()
    assert np.array_equal(y.numpy(), np.full(1000, 8.0, np.float32))

"""Every fault of the corpus is caught, with the exact report; a sample of them in a normal run."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pytest

from mlx_native_py import MlxDevice, settings
from mlx_native_py.errors import CommandBufferError
from mlx_native_py.softmetal.checked import DataRace

from .checked_corpus import CORPUS, COUNT, GROUP, Fault, source
from .test_checked_faults import PROGRAMS

pytestmark = pytest.mark.soft
FAULTS = [
    pytest.param(fault, id=f"{kind}-{fault.name}", marks=[] if fault.short else pytest.mark.full)
    for kind, faults in CORPUS.items()
    for fault in faults
]


@pytest.fixture(scope="module")
def checked() -> Iterator[MlxDevice]:
    with settings.override(soft_checked=True, soft_engine="auto"), MlxDevice("soft") as opened:
        yield opened


@pytest.fixture(scope="module")
def library(checked: MlxDevice) -> Any:
    return checked.compile(source())


def run(device: MlxDevice, library: Any, fault: Fault) -> None:
    with device.command_encoder() as enc:
        enc.dispatch(
            getattr(library, fault.kernel).pipeline,
            *fault.arguments(device),
            threads=fault.threads,
            group=GROUP,
            shared=[fault.shared] if fault.shared else [],
        )


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_told_exactly(checked: MlxDevice, library: Any, fault: Fault) -> None:
    with pytest.raises(CommandBufferError) as caught:
        run(checked, library, fault)
    assert type(caught.value.__cause__) is fault.error, str(caught.value)
    cause: Any = caught.value.__cause__
    assert type(caught.value) is fault.error.raised_as
    assert cause.kernel == fault.kernel
    for path, value in fault.fields.items():
        assert reduce(getattr, path.split("."), cause) == value, f"{path} in {cause}"
    assert fault.line in cause.source.source_line
    if hasattr(cause, "other_source"):
        assert cause.other_source is not None, str(cause)


def test_the_corpus_is_as_large_as_the_bar() -> None:
    counts = {kind: len({fault.name for fault in faults}) for kind, faults in CORPUS.items()}
    assert counts["outside"] >= 120 and counts["unwritten"] >= 40
    assert counts["divergence"] >= 10
    races = {program.name for program in PROGRAMS if program.error is DataRace}
    assert counts["races"] + len(races) >= 40
    assert {kind: len(faults) for kind, faults in CORPUS.items()} == counts


LAST_SUM = """
#include <metal_stdlib>
using namespace metal;
kernel void last_sum(device float *parts, device atomic_uint *ended, device float *out, device uint *busy,
                     uint g [[threadgroup_position_in_grid]], uint n [[threadgroups_per_grid]]) {
  parts[g] = g;
  atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
  if (atomic_fetch_add_explicit(ended, 1u, memory_order_relaxed) == n - 1) {
    atomic_thread_fence(mem_flags::mem_device, memory_order_seq_cst, thread_scope_device);
    for (uint i = 0; i < n; i++) out[0] += parts[i];
  } else {
    for (uint i = 0; i < 3000; i++) busy[g] = busy[g] * 1664525u + 1013904223u;
  }
}
"""


def test_what_another_group_wrote_before_a_fence_is_written(checked: MlxDevice) -> None:
    """Also while that group still runs."""
    kernel = checked.compile(LAST_SUM).last_sum.pipeline
    for _ in range(10):
        ended, out = checked.zeros(1, "u32"), checked.zeros(1)
        with checked.command_encoder() as enc:
            enc.dispatch(kernel, checked.empty(64), ended, out, checked.zeros(64, "u32"), threadgroups=64, group=1)
        assert out.numpy()[0] == 63 * 32


def test_memory_that_was_written_is_silent(checked: MlxDevice, library: Any) -> None:
    """By numpy, by a kernel, as zeros, and by a dispatch in the same command buffer."""
    load, store = library.load_float.pipeline, library.store_float.pipeline
    fresh, result = checked.empty(COUNT), checked.zeros(COUNT)
    fresh.numpy()[:] = 2
    by_kernel = checked.empty(COUNT)
    with checked.command_encoder() as enc:
        enc.dispatch(load, fresh, result, np.int64(9), threads=COUNT, group=GROUP)
        enc.dispatch(load, checked.zeros(COUNT), result, np.int64(9), threads=COUNT, group=GROUP)
        enc.dispatch(store, by_kernel, fresh, np.int64(5), threads=COUNT, group=GROUP)
        enc.dispatch(load, by_kernel, result, np.int64(5), threads=COUNT, group=GROUP)
    assert result.numpy()[3] == 2

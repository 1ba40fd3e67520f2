"""Programs of several dispatches: silent and right with all barriers, and named when any one of them is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mlx_native_py.softmetal.checked import MissingBarrier

from .checked_driver import buffer, contents, device, pipeline
from .checked_sequences import SEQUENCES, SOURCE, Barrier, N, Run, Sequenced, start

_CONCURRENT, _BUFFERS = 1, 1


def _submit(steps: Sequence[Run | Barrier], *, dispatch_type: int = _CONCURRENT) -> tuple[Any, dict[str, Any]]:
    states = {step.kernel: pipeline(SOURCE, step.kernel) for step in steps if isinstance(step, Run)}
    buffers = {name: buffer(array, name) for name, array in start().items()}
    commands = device().newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoderWithDispatchType_(dispatch_type)
    for step in steps:
        if isinstance(step, Run):
            encoder.setComputePipelineState_(states[step.kernel])
            for slot, name in enumerate(step.buffers):
                encoder.setBuffer_offset_atIndex_(buffers[name], 0, slot)
            encoder.dispatchThreads_threadsPerThreadgroup_((N, 1, 1), (64, 1, 1))
        elif step.only:
            encoder.memoryBarrierWithResources_count_([buffers[name] for name in step.only], len(step.only))
        else:
            encoder.memoryBarrierWithScope_(_BUFFERS)
    encoder.endEncoding()
    commands.commit()
    return commands, buffers


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_right_programs_are_silent(sequence: Sequenced) -> None:
    commands, buffers = _submit(sequence.steps)
    commands.waitUntilCompleted()
    assert commands.error() is None
    expected = np.asarray(sequence.expected(start()), np.float32)
    np.testing.assert_allclose(contents(buffers[sequence.result], np.float32), expected, rtol=1e-5)


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_each_barrier_is_missed(sequence: Sequenced) -> None:
    for place in sequence.barriers:
        commands, _ = _submit([*sequence.steps[:place], *sequence.steps[place + 1 :]])
        with pytest.raises(MissingBarrier) as caught:
            commands.waitUntilCompleted()
        dispatches = [step for step in sequence.steps if isinstance(step, Run)]
        before = sum(isinstance(step, Run) for step in sequence.steps[:place])
        result = caught.value
        assert result.first.index < before <= result.second.index, f"without barrier {place}: {result}"
        for name in (result.first, result.second):
            assert name.kernel == dispatches[name.index].kernel
            assert str(name) in str(result)
        shared = {*dispatches[result.first.index].buffers} & {*dispatches[result.second.index].buffers}
        assert any(f"buffer {name!r}" in str(result) for name in shared)
        assert 0 <= result.span[0] < result.span[1] <= 4 * N


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: sequence.name)
def test_a_serial_encoder_needs_none(sequence: Sequenced) -> None:
    steps = [step for step in sequence.steps if isinstance(step, Run)]
    commands, buffers = _submit(steps, dispatch_type=0)
    commands.waitUntilCompleted()
    np.testing.assert_allclose(
        contents(buffers[sequence.result], np.float32), np.asarray(sequence.expected(start()), np.float32), rtol=1e-5
    )


def test_two_encoders_are_in_order() -> None:
    state = pipeline(SOURCE, "twice")
    buffers = {name: buffer(array, name) for name, array in start().items()}
    commands = device().newCommandQueue().commandBuffer()
    for names in ("xy", "yz"):
        encoder = commands.computeCommandEncoderWithDispatchType_(_CONCURRENT)
        encoder.setComputePipelineState_(state)
        for slot, name in enumerate(names):
            encoder.setBuffer_offset_atIndex_(buffers[name], 0, slot)
        encoder.dispatchThreads_threadsPerThreadgroup_((N, 1, 1), (64, 1, 1))
        encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    assert commands.error() is None


def test_atomic_updates_by_two_dispatches_need_no_barrier() -> None:
    commands, buffers = _submit([Run("count", ("x", "bins")), Run("count", ("x", "bins"))])
    commands.waitUntilCompleted()
    assert contents(buffers["bins"], np.uint32)[:4].tolist() == [N // 2] * 4

"""Ops that are worked out once: later calls give the same bits, whatever buffers they get; results are used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlx_native_py import InvalidArgument, MlxBuffer, MlxDevice, ops

RNG = np.random.default_rng(5)


def floats(device: MlxDevice, *shape: int) -> MlxBuffer:
    return device.buffer(RNG.normal(size=shape).astype(np.float32))


def warmed(device: MlxDevice, enc: Any) -> None:
    """Opens the pass, so that what follows takes the recorded way."""
    ops.add(enc, one := floats(device, 4), one)


def test_other_buffers_give_their_own_results(device: MlxDevice) -> None:
    pairs = [(floats(device, 3, 8), floats(device, 3, 8)) for _ in range(4)]
    with device.command_encoder() as enc:
        warmed(device, enc)
        result = [ops.mul(enc, a, b) for a, b in pairs]
        same = ops.mul(enc, pairs[0][0], pairs[0][0])
    for (a, b), out in zip(pairs, result, strict=True):
        assert np.array_equal(out.numpy(), a.numpy() * b.numpy())
    assert np.array_equal(same.numpy(), pairs[0][0].numpy() ** 2)


def test_each_type_shape_offset_and_option_is_its_own(device: MlxDevice) -> None:
    whole = floats(device, 64)
    with device.command_encoder() as enc:
        warmed(device, enc)
        for part in (whole[0:8], whole[1:9], whole[3:11], whole[0:16].reshape(2, 8), whole[4:20].reshape(4, 4)):
            for scale in 2 * (2.0, -0.0, 0.0, 2):
                out = ops.scalar_mul(enc, part, scale)
                out.label = f"{scale}"
                enc.memory_barrier()
        for _ in range(2):
            zero, minus = ops.scalar_mul(enc, whole, 0.0), ops.scalar_mul(enc, whole, -0.0)
    assert np.array_equal(np.signbit(zero.numpy()), ~np.signbit(minus.numpy()))


def test_refusals_come_in_the_ops_own_words_each_time(device: MlxDevice) -> None:
    with device.command_encoder() as enc:
        warmed(device, enc)
        for _ in range(3):
            with pytest.raises(InvalidArgument, match="mul: b is"):
                ops.mul(enc, floats(device, 4), floats(device, 3))


def test_a_result_goes_where_it_is_asked_to(device: MlxDevice) -> None:
    a, b = floats(device, 8), floats(device, 8)
    expected = a.numpy() + b.numpy()
    with device.command_encoder() as enc:
        warmed(device, enc)
        for _ in range(2):
            assert ops.add(enc, a, b, out=b) is b
    assert np.array_equal(b.numpy(), expected + a.numpy())


def test_results_are_used_again_when_nobody_holds_them(device: MlxDevice) -> None:
    x = floats(device, 256)
    places = []
    for _ in range(3):
        with device.command_encoder() as enc:
            places.append(ops.add(enc, ops.mul(enc, x, x), x).start)
        del enc
    held = device.recycler.nbytes
    assert held == 2 * 1024 and len(set(places)) <= 2
    with device.command_encoder() as enc:
        kept = ops.add(enc, x, x)
        view = ops.add(enc, x, x)[0:4]
        array = ops.add(enc, x, x).numpy()
    assert device.recycler.nbytes <= held
    with device.command_encoder() as enc:
        for _ in range(4):
            ops.mul(enc, x, x)
    for each in (kept.numpy(), array):
        assert np.array_equal(each, 2 * x.numpy())
    assert np.array_equal(view.numpy(), 2 * x.numpy()[:4])


def test_a_result_that_is_kept_does_not_keep_others_from_being_used_again(device: MlxDevice) -> None:
    def square() -> MlxBuffer:
        with device.command_encoder() as enc:
            return ops.mul(enc, x, x)

    x = floats(device, 64)
    kept = [square() for _ in range(3)]
    places = {square().start for _ in range(40)}
    assert len(places) <= 2 and places.isdisjoint(each.start for each in kept)
    assert all(np.array_equal(each.numpy(), x.numpy() ** 2) for each in kept)


def test_the_kind_of_a_dispatch_is_known(device: MlxDevice) -> None:
    x, w = floats(device, 2, 64), floats(device, 64)
    with device.command_encoder() as enc:
        warmed(device, enc)
        for _ in range(2):
            ops.rms_norm(enc, x, w)
    assert [each.kind.value for each in enc.ticket.dispatches[1:]] == ["RmsNorm", "RmsNorm"]


def test_an_op_is_worked_out_when_it_comes_again_also_as_the_first_of_its_encoder(device: MlxDevice) -> None:
    x, found = floats(device, 12), []
    for _ in range(3):
        with device.command_encoder() as enc:
            out = ops.mul(enc, x, x)
        assert np.array_equal(out.numpy(), x.numpy() ** 2)
        found.append(list(device.recorded_ops.values()))
    assert found[0] == [False] and callable(found[1][0]) and found[2] == found[1]


def test_lists_of_buffers_and_of_numbers_are_worked_out_too(device: MlxDevice) -> None:
    pairs = [[floats(device, 2, 3), floats(device, 2, 5)] for _ in range(3)]
    joined = []
    for a, b in pairs:
        with device.command_encoder() as enc:
            joined.append(ops.concat(enc, [a, b], axis=1))
            ops.slice(enc, a, [0, 1], [2, 3])
    assert len(device.recorded_ops) == 2 and all(map(callable, device.recorded_ops.values()))
    for (a, b), out in zip(pairs, joined, strict=True):
        assert np.array_equal(out.numpy(), np.concatenate([a.numpy(), b.numpy()], 1))


def test_one_buffer_may_stand_in_a_list_twice(device: MlxDevice) -> None:
    a, b = floats(device, 4), floats(device, 4)
    for parts in ([a, b], [b, a], [a, a], [b, b, a]):
        with device.command_encoder() as enc:
            out = ops.concat(enc, parts)
        assert np.array_equal(out.numpy(), np.concatenate([part.numpy() for part in parts]))

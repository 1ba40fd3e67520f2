"""Command buffers that stop for the CPU: its turns come in order, and an error in one leaves nothing stuck."""

from __future__ import annotations

import numpy as np
import pytest

from mlx_native_py import MlxDevice, ops
from mlx_native_py.encoder.host_turns import HostTurns


def test_the_cpu_reads_and_writes_between_passes(device: MlxDevice) -> None:
    x, turns, seen = device.buffer(np.ones(4, np.float32)), HostTurns(device), []
    for _ in range(3):
        with device.command_encoder() as enc:
            for stop in range(3):
                ops.add(enc, x, x, out=x)
                if stop < 2:
                    turns.stop(enc)
            ticket = enc.commit()

        def turn() -> None:
            seen.append(float(x.numpy()[0]))
            x.numpy()[...] += 1

        turns.take(ticket, [turn, turn])
    assert seen == [2.0, 6.0, 28.0, 58.0, 236.0, 474.0]
    assert x.numpy()[0] == 950.0


def test_an_error_in_a_turn(device: MlxDevice) -> None:
    x, turns = device.buffer(np.ones(4, np.float32)), HostTurns(device)

    def fail() -> None:
        raise ValueError("no")

    for works in ([fail, fail], [lambda: None, fail]):
        with device.command_encoder() as enc:
            for _ in range(2):
                ops.add(enc, x, x, out=x)
                turns.stop(enc)
            ticket = enc.commit()
        with pytest.raises(ValueError, match="no"):
            turns.take(ticket, works)
        ticket.wait(60.0)
    assert x.numpy()[0] == 16.0

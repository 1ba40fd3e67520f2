"""Collectives behind the program: dispatches and reads wait for them, and nothing else does."""

import threading

import numpy as np

from mlx_native_py import DistributedError, EncoderStateError, MlxDevice, ops
from mlx_native_py import distributed as d

group = d.init(strict=True)
device = MlxDevice()
parts = [np.arange(4096, dtype=np.float32) + rank for rank in range(group.size)]
total = sum(parts)


last = group.size - 1
token = np.zeros(1, np.uint8)


def begin_last() -> None:
    """The last rank begins when the others have looked, so that their transfers are surely under way until then."""
    if group.rank == last:
        for other in range(last):
            d.recv_like(token, other)


def looked() -> None:
    if group.rank != last:
        d.send(token, last)


# A dispatch behind it sees its result, and can be encoded before it is there.
x = device.buffer(parts[group.rank])
begin_last()
transfer = d.begin(d.all_sum, x, out=x)
enc = device.command_encoder()
y = ops.add(enc, x, x)
assert group.rank == last or not transfer.done()
looked()
enc.commit_and_wait()
assert transfer.done() and np.array_equal(y, 2 * total)

# It waits for the command buffer that makes its input.
x = device.buffer(parts[group.rank])
enc = device.command_encoder()
y = ops.add(enc, x, x)
enc.commit()
assert np.array_equal(d.all_sum(y), 2 * total)
enc = device.command_encoder()
y = ops.add(enc, x, x)
enc.commit()
d.begin(d.all_sum, y, out=y)
assert np.array_equal(y.numpy(), 2 * total)

# Other memory is not waited for.
x, other = device.buffer(parts[group.rank]), device.buffer(parts[0])
begin_last()
transfer = d.begin(d.all_gather, x)
with device.command_encoder() as enc:
    y = ops.add(enc, other, other)
assert group.rank == last or not transfer.done()
looked()
assert np.array_equal(transfer.wait(), np.concatenate(parts))

# Many of them keep their order.
several = [device.buffer(parts[group.rank] * n) for n in range(8)]
for each in several:
    d.begin(d.all_sum, each, out=each)
    d.begin(d.all_sum, each, out=each)
for n, each in enumerate(several):
    assert np.array_equal(each, total * n * group.size)

# Memory that an open encoder uses is refused; an error comes with the next use, and the program goes on.
enc = device.command_encoder()
ops.add(enc, x, x)
try:
    d.begin(d.all_sum, x, out=x)
    raise AssertionError("memory of an open encoder was taken")
except EncoderStateError as error:
    assert "not committed" in str(error)
enc.discard()
wrong = device.buffer(np.zeros(4 + group.rank, np.float32))
failed = d.begin(d.all_sum, wrong, out=wrong)
if group.size > 1:
    try:
        wrong.numpy()
        raise AssertionError("the error was lost")
    except DistributedError as error:
        assert "different calls" in str(error)
else:
    failed.wait()
assert np.array_equal(d.all_sum(x), total)
assert threading.active_count() <= 3

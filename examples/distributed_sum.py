"""One kernel on every rank, and the sum of their results on all of them.

    mlx-native launch -n 2 python examples/distributed_sum.py

Started by itself it is a group of one.
"""

import numpy as np

from mlx_native_py import MlxDevice, distributed, ops

group = distributed.init()
with MlxDevice() as device:
    # Each rank has its part of the numbers.
    numbers = np.array_split(np.arange(1, 13, dtype=np.float32), group.size)[group.rank]
    x = device.buffer(numbers)
    with device.command_encoder() as enc:
        squares = ops.mul(enc, x, x)
    mine = device.buffer(np.array([squares.numpy().sum()], np.float32))

    # In place, in the memory that the GPU sees; it runs behind the program until somebody uses the buffer.
    distributed.begin(distributed.all_sum, mine, out=mine)
    print(f"rank {group.rank} of {group.size}: squares of {numbers.size} numbers, sum of all {mine.numpy()[0]:.0f}")

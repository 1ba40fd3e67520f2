"""Each collective once, on arrays and on buffers."""

from typing import Any

import numpy as np

from mlx_native_py import MlxDevice
from mlx_native_py import distributed as d

group = d.init(strict=True)
device = MlxDevice()
parts = [np.arange(12, dtype=np.float32).reshape(3, 4) + rank for rank in range(group.size)]
kinds: tuple[Any, ...] = (np.copy, device.buffer)
for make in kinds:
    x = make(parts[group.rank])
    total = sum(parts)
    assert np.array_equal(d.all_sum(x), total) and np.array_equal(x, parts[group.rank])
    assert np.array_equal(d.all_max(x), parts[-1])
    assert np.array_equal(d.all_min(x), parts[0])
    assert np.array_equal(d.all_gather(x), np.concatenate(parts))
    assert np.array_equal(d.sum_scatter(make(np.concatenate([parts[group.rank]] * group.size))), total)
    assert np.array_equal(d.broadcast(x, root=group.size - 1), parts[-1])
    if group.rank == 0:
        for other in range(1, group.size):
            d.send(x, other)
    else:
        assert np.array_equal(d.recv_like(x, 0), parts[0])
    assert d.all_sum(x, out=x) is x and np.array_equal(x, total)
assert d.all_sum(np.ones(1), group=group.split(group.rank % 2))[0] == len(range(group.rank % 2, group.size, 2))
group.agree("the number of ranks", group.size)
d.barrier()

"""Multi-process programs on MPI through mpi4py: groups of ranks, and collectives on buffers and arrays.

Names and semantics are those of `mlx.core.distributed`. Without an MPI launcher there is one rank, and everything works
the same.

>>> from mlx_native_py import distributed
>>> group = distributed.init()
>>> group.rank, group.size
(0, 1)
>>> distributed.all_sum(np.arange(3.0))
array([0., 1., 2.])
"""

from .background import Transfer, begin
from .collectives import all_gather, all_max, all_min, all_sum, barrier, broadcast, sum_scatter
from .group import Group
from .messages import recv, recv_like, send
from .world import init, is_available

__all__ = [
    "Group",
    "Transfer",
    "all_gather",
    "all_max",
    "all_min",
    "all_sum",
    "barrier",
    "begin",
    "broadcast",
    "init",
    "is_available",
    "recv",
    "recv_like",
    "send",
    "sum_scatter",
]

"""What is refused: each error on all ranks, with the ranks in its message; the program goes on after it."""

import os
import sys
import time

import numpy as np

from mlx_native_py import CollectiveTimeout, DistributedError, InvalidArgument
from mlx_native_py import distributed as d
from mlx_native_py.distributed import world
from mlx_native_py.distributed.rendezvous import SharedMemoryRendezvous

SECONDS = 1.0
if sys.argv[1:] == ["apart"]:  # as if each rank had a machine of its own
    SharedMemoryRendezvous.shared_by = classmethod(lambda cls, comm, patient: None)  # type: ignore[method-assign,assignment]
    SECONDS = 4.0

rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"])
version = world._version
world._version = lambda package: f"1.{rank // 2}"


def refused(kind: type[Exception], *words: str) -> "Refused":
    return Refused(kind, words)


class Refused:
    def __init__(self, kind: type[Exception], words: tuple[str, ...]) -> None:
        self.kind, self.words = kind, words

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        assert isinstance(error, self.kind), f"{error!r} instead of {self.kind}"
        assert all(word in str(error) for word in self.words), str(error)
        return True


with refused(DistributedError, "the version of mlx-native-py is '1.0' on ranks 0, 1", "'1.1' on rank 2"):
    d.init()
world._version = version
group = d.init()
assert group.size == 3

with refused(DistributedError, "rank 0: all_sum(float32[4])", "rank 2: all_sum(float32[6])"):
    d.all_sum(np.zeros(4 + rank, np.float32))
with refused(DistributedError, "rank 0: all_sum(float32[4])", "rank 1: all_sum(int32[4])"):
    d.all_sum(np.zeros(4, np.int32 if rank == 1 else np.float32))
with refused(DistributedError, "rank 0: all_max", "rank 1: all_sum"):
    (d.all_max if rank == 0 else d.all_sum)(np.zeros(4, np.float32))
with refused(DistributedError, "root=0", "root=1"):
    d.broadcast(np.zeros(4, np.float32), root=min(rank, 1))
with refused(
    DistributedError, "the digest of model.gguf is 'a' on ranks 0, 2; the digest of model.gguf is 'b' on rank 1"
):
    group.agree("the digest of model.gguf", "b" if rank == 1 else "a")
group.agree("the digest of model.gguf", "a")

for wrong in (np.zeros(3, np.float32), np.zeros(4, np.int32), np.zeros(9, np.float32)):
    if rank == 0:
        d.send(wrong, 1)
    elif rank == 1:
        with refused(DistributedError):
            d.recv(4, "f32", 0)
d.barrier()

with refused(InvalidArgument, "all_sum of bool has no meaning"):
    d.all_sum(np.zeros(3, np.bool_))
with refused(InvalidArgument, "the first axis must be a multiple of the 3 ranks"):
    d.sum_scatter(np.zeros(4, np.float32))
with refused(InvalidArgument, "out is float32[3], expected float32[4]"):
    d.all_sum(np.zeros(4, np.float32), out=np.zeros(3, np.float32))
with refused(InvalidArgument, "root is 3"):
    d.broadcast(np.zeros(4, np.float32), root=3)
with refused(InvalidArgument, "dst is"):
    d.send(np.zeros(4, np.float32), rank)
with refused(InvalidArgument, "not list"):
    d.all_max([1, 2])  # type: ignore[type-var]

d.barrier()
d.init(timeout=SECONDS)
if rank != 1:
    start = time.monotonic()
    with refused(CollectiveTimeout, f"after {SECONDS} s rank 1 has not come", "waiting: rank 0, rank 2"):
        d.all_sum(np.zeros(4, np.float32))
    with refused(CollectiveTimeout, "recv of float32[4] from rank 1"):
        d.recv(4, "f32", 1)
    assert time.monotonic() - start < 30.0
    os._exit(0) if rank == 0 else time.sleep(0.2)
else:
    time.sleep(2 * SECONDS + 1)

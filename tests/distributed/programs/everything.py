"""The programs that all ranks end well, one after the other, in one start of MPI."""

import runpy
import sys
from pathlib import Path

from mlx_native_py import distributed

group = distributed.init(strict=True)
for name in sys.argv[1:]:
    runpy.run_path(str(Path(__file__).with_name(name)))
    distributed.barrier()
    if group.rank == 0:
        print(f"{name}: {group.size} ranks agree")

"""Two ranks that work together until the second one ends, in a way that is asked for."""

import os
import sys
import time

import numpy as np

from mlx_native_py import distributed as d

group = d.init(strict=True)
# In one go: the output of two ranks is mixed.
sys.stdout.write(f"process {os.getpid()}\n")
sys.stdout.flush()
how = sys.argv[1]
for step in range(10 if how == "well" else 10_000):
    d.all_sum(np.ones(100, np.float32))
    time.sleep(0.002)
    if step == 5 and group.rank == 1:
        if how == "killed":
            os.kill(os.getpid(), 9)
        elif how == "raised":
            raise ValueError("no")
        elif how == "exit":
            sys.exit(3)

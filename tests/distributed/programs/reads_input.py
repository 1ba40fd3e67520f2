"""`mlx-native generate -` under a plain mpiexec."""

import sys

from mlx_native_py.cli.main import main

sys.exit(main(["generate", "-", "--model", sys.argv[1], "--tensor-parallel"]))

"""Each rank loads another file."""

import sys

from mlx_native_py import MlxDevice
from mlx_native_py import distributed as d
from mlx_native_py.parallel import load_tensor_parallel

load_tensor_parallel(sys.argv[1 + d.init().rank], MlxDevice())

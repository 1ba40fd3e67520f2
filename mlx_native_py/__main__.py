"""`python -m mlx_native_py` is the command `mlx-native`."""

import sys

from .cli.main import main

sys.exit(main())

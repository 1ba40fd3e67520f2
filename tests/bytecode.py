"""Bytecode in a folder of its own, where the environment wants none beside the sources.

The many processes need not compile every module anew, nor pytest rewrite every assertion.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "bytecode"

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(FOLDER)

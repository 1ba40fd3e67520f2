"""Functions that do more than call an op: axes, broadcasting, and MLX arguments that ops lack."""

from __future__ import annotations

from .elementwise import *
from .layers import *
from .layout import *
from .matrices import *
from .rows import *

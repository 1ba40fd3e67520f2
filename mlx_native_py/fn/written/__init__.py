"""The functions that do more than pass their arguments on: axes, broadcasting, arguments of MLX that ops lack."""

from __future__ import annotations

from .elementwise import *
from .layers import *
from .layout import *
from .matrices import *
from .rows import *

"""The ops: `ops.<name>(enc, ...)` encodes one on buffers.

An op takes an encoder and buffers, checks them, and encodes its kernels; its result is `out`, or a new buffer where
that is left open. What it reads and writes follows from its kernels, so barriers need no thought.

>>> x = device.buffer(np.ones((2, 4), np.float32))
>>> with device.command_encoder() as enc:
...     total = ops.add(enc, x, x)
>>> total.numpy()
array([[2., 2., 2., 2.],
       [2., 2., 2., 2.]], dtype=float32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import fusions as fusions
from . import step_fusions as step_fusions
from .families.activation import *
from .families.attention import *
from .families.delta_net import *
from .families.delta_net_chunked import *
from .families.elementwise import *
from .families.ggml import *
from .families.hadamard import *
from .families.indexing import *
from .families.kv_cache import *
from .families.layout import *
from .families.matmul import *
from .families.moe import *
from .families.moe_experts import *
from .families.norm import *
from .families.quantized import *
from .families.reduce import *
from .families.rope import *
from .families.sampling import *
from .families.softmax import *
from .families.sort import *
from .families.ssm import *
from .families.turboquant import *
from .op import Op as Op
from .op import no_such_name
from .op import table as table

# Hidden from type checkers, which would otherwise accept any attribute name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> None:
        raise no_such_name("op", name, table())

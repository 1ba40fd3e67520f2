"""What a small faulty MSL program is: its kernel, what checked mode must say, and how it is put right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mlx_native_py.softmetal.checked import CheckedError

HEAD = "#include <metal_stdlib>\nusing namespace metal;\n"


@dataclass(frozen=True)
class Part:
    """A buffer with the bytes of `array`, bound at a byte offset."""

    array: Any
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """Inline bytes that hold the address of a buffer; it is made resident or not."""

    array: Any
    resident: bool


@dataclass(frozen=True)
class Program:
    """One faulty kernel `k`. `fix` replaces text so that it becomes right; an empty one says it has no right form."""

    name: str
    body: str
    args: Sequence[Any]
    error: type[CheckedError]
    text: Sequence[str]
    fix: tuple[str, str] = ("", "")
    params: str = "device float* a [[buffer(0)]], device float* b [[buffer(1)]]"
    before: str = ""
    threads: int = 64
    group: int = 64
    shared: Sequence[int] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""
    """The line of the source that the report shows."""

    @property
    def source(self) -> str:
        builtins = (
            "uint i [[thread_position_in_grid]], uint t [[thread_index_in_threadgroup]], "
            "uint n [[threads_per_threadgroup]], uint g [[threadgroup_position_in_grid]]"
        )
        return f"{HEAD}{self.before}\nkernel void k({self.params}, {builtins}) {{\n{self.body}\n}}\n"

    @property
    def fixed(self) -> str:
        assert self.fix[0] in self.source, self.name
        return self.source.replace(*self.fix)


def floats(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


def zeros(count: int, kind: Any = np.float32) -> Any:
    return np.zeros(count, kind)


AB = (floats(64), zeros(64))
VARIABLE = "threadgroup float s[64];\n"
SYNC = "threadgroup_barrier(mem_flags::mem_threadgroup);"

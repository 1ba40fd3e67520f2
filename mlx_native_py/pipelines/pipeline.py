"""A compiled kernel: its Metal pipeline, its limits and its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import BackendError, InvalidArgument
from ..metal import Backend
from ..table import Table
from .scalars import ScalarType, scalar_type

__all__ = ["Binding", "Limits", "Pipeline", "reflected_bindings"]

BUFFER_SLOTS = 31
_ORDER = ("buffer", "threadgroup", "texture", "sampler")


@dataclass(frozen=True, slots=True)
class Binding:
    """One argument of a kernel, from the pipeline's reflection."""

    index: int
    name: str
    kind: Literal["buffer", "threadgroup", "texture", "sampler"]
    access: Literal["read", "write", "read_write"]
    data_type: int = 0
    """The MTLDataType of the argument or of what it points to."""
    size: int = 0
    """Bytes of one such value."""
    alignment: int = 1
    used: bool = True
    texture_type: int = 0
    """The MTLTextureType of a texture."""
    reads: bool = field(init=False, repr=False, compare=False)
    writes: bool = field(init=False, repr=False, compare=False)
    scalar: ScalarType | None = field(init=False, repr=False, compare=False)
    """Its scalar or vector type; None for structs, arrays and matrices."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", self.access != "write")
        object.__setattr__(self, "writes", self.access != "read")
        object.__setattr__(self, "scalar", scalar_type(self.data_type))

    def __str__(self) -> str:
        return f"{self.kind} argument {self.name!r} (slot {self.index})"


@dataclass(frozen=True, slots=True)
class Limits:
    """Threadgroup limits of the device."""

    threads: tuple[int, int, int]
    threadgroup_memory: int


class Pipeline:
    """A compiled kernel. Its attributes are read-only.

    >>> axpy
    <Pipeline axpy(x, y, a), at most 1024 threads, width 32>
    >>> [binding.access for binding in axpy.bindings]
    ['read', 'read_write', 'read']
    """

    __slots__ = (
        "bindings",
        "buffers",
        "device",
        "encode",
        "encoders",
        "key",
        "label",
        "launches",
        "limits",
        "max_threads",
        "mtl",
        "name",
        "origin",
        "senders",
        "shared",
        "static_threadgroup_bytes",
        "thread_launches",
        "supports_indirect",
        "textures",
        "width",
    )

    def __init__(
        self,
        mtl: Any,
        *,
        device: Any,
        name: str,
        label: str,
        key: str,
        origin: tuple[Any, Any],
        bindings: tuple[Binding, ...],
        limits: Limits,
    ) -> None:
        self.mtl = mtl
        self.device = device
        """The MTLDevice that it runs on."""
        self.name = name
        self.label = label
        self.key = key
        self.origin = origin
        """The library that it comes from, and its function constants."""
        self.bindings = bindings
        self.limits = limits
        self.max_threads = int(mtl.maxTotalThreadsPerThreadgroup())
        self.width = int(mtl.threadExecutionWidth())
        self.static_threadgroup_bytes = int(mtl.staticThreadgroupMemoryLength())
        self.supports_indirect = bool(mtl.supportIndirectCommandBuffers())
        self.buffers = _by_slot(b for b in bindings if b.kind == "buffer")
        """The buffer arguments by slot; None for unused slots."""
        self.textures = tuple(b for b in bindings if b.kind in ("texture", "sampler"))
        """The textures, then the samplers, each ordered by index."""
        self.shared = _by_slot(b for b in bindings if b.kind == "threadgroup")
        self.senders: dict[Any, Any] = {}
        self.encoders: dict[Any, Any] = {}
        """Functions generated for this kernel, by argument pattern."""
        self.encode: Any = None
        """The function for the last argument pattern."""
        self.launches: dict[Any, Any] = {}
        """Checked launch sizes, by the arguments of the call."""
        self.thread_launches: dict[Any, Any] = {}
        """Those given by a number of threads alone."""

    def touched(self, entry: Any) -> tuple[list[Any], list[Any]]:
        """The spans that a dispatch reads and writes, from `(pipeline, bit mask of Out slots, *spans by slot)`."""
        reads, writes = [], []
        for slot, (binding, span) in enumerate(zip(self.buffers, entry[2:], strict=True)):
            if binding is not None and span is not None:
                if binding.reads and not entry[1] >> slot & 1:
                    reads.append(span)
                if binding.writes:
                    writes.append(span)
        return reads, writes

    def __repr__(self) -> str:
        names = ", ".join(binding.name for binding in self.bindings)
        return f"<Pipeline {self.label}({names}), at most {self.max_threads} threads, width {self.width}>"

    def _repr_html_(self) -> str:
        """An HTML table of its arguments."""
        rows = [
            (str(each.index), each.name, each.scalar.name if each.scalar else each.kind, each.access, str(each.size))
            for each in self.bindings
        ]
        head = ("slot", "argument", "type", "access", "bytes")
        return Table(repr(self), head, rows, words=head)._repr_html_()


def _by_slot(bindings: Any) -> tuple[Binding | None, ...]:
    by_index = {binding.index: binding for binding in bindings}
    return tuple(by_index.get(slot) for slot in range(max(by_index, default=-1) + 1))


def reflected_bindings(backend: Backend, reflection: Any, kernel: str) -> tuple[Binding, ...]:
    """A kernel's arguments according to Metal's reflection, buffers first, in slot order."""
    if reflection is None:
        raise BackendError(f"kernel {kernel!r}: Metal returned no reflection for its pipeline")
    metal = backend.Metal
    accesses: dict[int, Literal["read", "write", "read_write"]] = {
        metal.MTLBindingAccessReadOnly: "read",
        metal.MTLBindingAccessWriteOnly: "write",
        metal.MTLBindingAccessReadWrite: "read_write",
    }
    bindings = []
    for mtl in reflection.bindings():
        kind, index, name = mtl.type(), int(mtl.index()), str(mtl.name())
        if kind == metal.MTLBindingTypeBuffer:
            access = accesses[mtl.access()]
            size, alignment = int(mtl.bufferDataSize()), max(1, int(mtl.bufferAlignment()))
            data_type = int(mtl.bufferDataType())
            bindings.append(Binding(index, name, "buffer", access, data_type, size, alignment, bool(mtl.isUsed())))
        elif kind == metal.MTLBindingTypeThreadgroupMemory:
            bindings.append(Binding(index, name, "threadgroup", "read_write"))
        elif kind == metal.MTLBindingTypeTexture:
            access, data_type, form = accesses[mtl.access()], int(mtl.textureDataType()), int(mtl.textureType())
            bindings.append(Binding(index, name, "texture", access, data_type, texture_type=form))
        elif kind == metal.MTLBindingTypeSampler:
            bindings.append(Binding(index, name, "sampler", "read"))
        else:
            raise InvalidArgument(
                f"kernel {kernel!r}: argument {name!r} (index {index}) is no buffer, texture, sampler or threadgroup "
                "memory"
            )
    return tuple(sorted(bindings, key=lambda binding: (_ORDER.index(binding.kind), binding.index)))

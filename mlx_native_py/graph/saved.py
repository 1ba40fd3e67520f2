"""Graphs in files: a line that says what it is, a JSON description, and the bytes of constant buffers.

    offset 0    8 bytes   "MLXGRAPH"
    offset 8    8 bytes   length of the JSON text, little-endian
    offset 16             the JSON text, then zeros up to a multiple of 64
                          the bytes of each buffer that has contents, each at a multiple of 64

A file holds no code: kernels are named, with a digest of their source, and must be known to the device that loads it.
Nothing in it is believed before it is checked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..dtypes import DType
from ..encoder import CapturedBarrier, CapturedNode, CapturedOpKind, DeviceContext, Dispatch, Launch
from ..encoder.arguments import INLINE_LIMIT, argument
from ..encoder.launch import plan_launch
from ..encoder.parameters import Cell
from ..errors import InvalidArgument, MlxError, ModelFileError
from ..hazards.ranges import BufferRange, MemRangeRole
from ..json_fields import Fields, parse_table
from ..memory.allocation import Allocation
from ..memory.buffer import MlxBuffer
from ..memory.shapes import as_shape
from ..pipelines.registry import source_digest
from .recording import Recording

__all__ = ["load", "save"]

MAGIC = b"MLXGRAPH"
VERSION = 1
ALIGNMENT = 64
HEADER_AT = 16
MOST_HEADER = 1 << 30
"""A longer description is no graph of ours."""


def save(graph: Recording, path: Path) -> None:
    """Writes to a temporary file first, so that a failure leaves no partial file."""
    memory = _Allocations(graph)
    nodes = [memory.node(node) for node in graph.nodes]
    names = {name: memory.view(buffer) for name, buffer in graph.names.items()}
    header = {"version": VERSION, "kernels": memory.kernels, "names": names, "nodes": nodes, "memory": memory.table()}
    text = json.dumps(header, separators=(",", ":")).encode()
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("wb") as file:
        file.write(MAGIC + struct.pack("<Q", len(text)) + text)
        for data in memory.contents():
            file.write(bytes(-file.tell() % ALIGNMENT))
            file.write(data)
    unfinished.replace(path)


def _inline(value: Cell | bytes) -> bytes:
    return value.data if isinstance(value, Cell) else value


class _Allocations:
    """Numbers the memory of a graph; memory that is neither named nor temporary is saved with its contents."""

    def __init__(self, graph: Recording) -> None:
        self._named = {buffer.allocation for buffer in graph.names.values()}
        self._temporary = set(graph.temporaries)
        self._numbers: dict[Allocation, int] = {}
        self._by_memory: dict[Any, Allocation] = {}
        self._kernel_numbers: dict[Any, int] = {}
        self.kernels: list[dict[str, Any]] = []

    def node(self, node: CapturedNode) -> dict[str, Any]:
        if not isinstance(node, Dispatch):
            return {"barrier": True}
        if node.textures:
            raise MlxError(f"kernel {node.pipeline.label!r} takes textures; such graphs cannot be saved")
        launch = node.launch
        bindings = [
            [slot, self.view(value) if isinstance(value, MlxBuffer) else _inline(value).hex()]
            for slot, value in enumerate(node.values)
            if value is not None
        ]
        return {
            "kernel": self._kernel(node.pipeline),
            "bindings": bindings,
            "threads" if launch.by_threads else "threadgroups": launch.grid,
            "group": launch.group,
            "shared": launch.shared,
            "kind": node.op_kind.value,
            "reads": [self._range(each) for each in node.reads],
            "writes": [self._range(each) for each in node.writes],
        }

    def view(self, buffer: MlxBuffer) -> dict[str, Any]:
        number = self._numbers.setdefault(buffer.allocation, len(self._numbers))
        self._by_memory[buffer.allocation.memory] = buffer.allocation
        return {"memory": number, "dtype": str(buffer.dtype), "shape": buffer.shape, "offset": buffer.offset}

    def _range(self, given: BufferRange) -> list[int]:
        home = self._by_memory.get(given.allocation)
        if home is None:
            raise MlxError(f"a dispatch uses {given.allocation} without binding it; such graphs cannot be saved")
        return [self._numbers[home], given.start - home.address, given.end - home.address]

    def _kernel(self, pipeline: Any) -> int:
        if pipeline not in self._kernel_numbers:
            library, constants = pipeline.origin
            values = [[key, *_constant(value)] for key, value in constants.items()]
            known = {"name": pipeline.name, "source": source_digest(library), "constants": values}
            self._kernel_numbers[pipeline] = len(self.kernels)
            self.kernels.append(known)
        return self._kernel_numbers[pipeline]

    def table(self) -> list[dict[str, Any]]:
        return [{"nbytes": each.nbytes, "contents": self._has_contents(each)} for each in self._numbers]

    def _has_contents(self, allocation: Allocation) -> bool:
        return allocation not in self._named and allocation not in self._temporary

    def contents(self) -> list[Any]:
        return [each.bytes().data for each in self._numbers if self._has_contents(each)]


def _constant(value: Any) -> tuple[str, Any]:
    if isinstance(value, (bool, np.bool_)):
        return "bool", bool(value)
    if isinstance(value, (int, np.integer)):
        return "int", int(value)
    if isinstance(value, (float, np.floating)):
        return "float", float(value).hex()
    raise MlxError(f"function constant {value!r} cannot be saved: expected a bool, an int or a float")


Loaded = tuple[list[CapturedNode], dict[str, MlxBuffer], list[Allocation]]
"""Nodes, named buffers and temporaries."""


def load(path: Path, device: DeviceContext) -> Loaded:
    """Reads and checks everything before anything runs; raises ModelFileError with the field's name."""
    with path.open("rb") as file:
        size = path.stat().st_size
        head = file.read(HEADER_AT)
        if len(head) < HEADER_AT or head[:8] != MAGIC:
            raise ModelFileError(path, "magic", 0, f"expected {MAGIC!r}, got {head[:8]!r}")
        (length,) = struct.unpack("<Q", head[8:])
        if length > min(size - HEADER_AT, MOST_HEADER):
            raise ModelFileError(path, "header length", 8, f"{length} bytes, and the file has {size}")
        header = Fields(path, parse_table(path, file.read(length), HEADER_AT), offset=HEADER_AT)
        if (version := header.number("version")) != VERSION:
            raise ModelFileError(path, "version", 16, f"{version}, expected {VERSION}")
        memory = _read_memory(path, file, header, size, device)
    loader = _Loader(header, memory, device)
    names = {name: loader.view(fields) for name, fields in header.items("names")}
    nodes = [loader.node(fields) for fields in header.list("nodes")]
    fresh = [each for each, (_, has_contents) in zip(memory, _sizes(header), strict=True) if not has_contents]
    return nodes, names, fresh


def _sizes(header: Fields) -> list[tuple[int, bool]]:
    return [(fields.number("nbytes", 1), fields.truth("contents")) for fields in header.list("memory")]


def _read_memory(path: Path, file: Any, header: Fields, size: int, device: DeviceContext) -> list[Allocation]:
    """Checks all sizes against the file or the device before the first allocation."""
    sizes = _sizes(header)
    at, places = file.tell(), []
    for index, (nbytes, has_contents) in enumerate(sizes):
        if has_contents:
            at += -at % ALIGNMENT
            places.append(at)
            at += nbytes
        if at > size:
            raise ModelFileError(path, f"memory[{index}]", at - nbytes, f"{nbytes} bytes end beyond the file's {size}")
    room = device.capabilities.recommended_working_set or device.capabilities.max_buffer_length
    if sum(nbytes for nbytes, _ in sizes) > room:
        raise ModelFileError(path, "memory", 16, f"needs more than the {room} bytes recommended for {device.name}")
    allocations = []
    for nbytes, has_contents in sizes:
        buffer = device.empty(nbytes, DType.U8)
        if has_contents:
            file.seek(places.pop(0))
            file.readinto(buffer.numpy().data)
        allocations.append(buffer.allocation)
    return allocations


class _Loader:
    """Builds nodes from their descriptions."""

    def __init__(self, header: Fields, memory: list[Allocation], device: DeviceContext) -> None:
        self._memory = memory
        self._kernels = [self._kernel(fields, device) for fields in header.list("kernels")]

    @staticmethod
    def _kernel(fields: Fields, device: DeviceContext) -> Any:
        constants = dict(map(_read_constant, fields.list("constants")))
        pipeline = fields.checked(lambda: device.kernels.get_pipeline(fields.text("name"), constants))
        if source_digest(pipeline.origin[0]) != fields.text("source"):
            raise fields.fault("source", f"kernel {fields.text('name')!r} is registered here with a different source")
        return pipeline

    def view(self, fields: Fields) -> MlxBuffer:
        allocation = self._memory[fields.number("memory", 0, len(self._memory))]
        dtype = fields.checked(lambda: DType.of(fields.text("dtype")))
        shape, count = fields.checked(lambda: as_shape(fields.numbers("shape")))
        offset, nbytes = fields.number("offset"), count * dtype.size
        if offset % dtype.size or offset + nbytes > allocation.nbytes:
            raise fields.fault(
                "offset", f"{nbytes} bytes at {offset} are outside the allocation of {allocation.nbytes}"
            )
        return MlxBuffer(allocation, dtype, shape, offset, nbytes)

    def node(self, fields: Fields) -> CapturedNode:
        if "barrier" in fields:
            return CapturedBarrier()
        pipeline = self._kernels[fields.number("kernel", 0, len(self._kernels))]
        bindings = dict(self._binding(each, pipeline) for each in fields.list("bindings"))
        missing = {each.index for each in pipeline.buffers if each is not None} - set(bindings)
        if missing:
            raise fields.fault("bindings", f"nothing is bound at slots {sorted(missing)} of {pipeline.label!r}")
        by_threads = "threads" in fields
        return fields.checked(
            lambda: Dispatch(
                pipeline,
                tuple(bindings.get(slot) for slot in range(len(pipeline.buffers))),
                self._launch(fields, pipeline, by_threads),
                CapturedOpKind(fields.text("kind")),
                tuple(self._range(each, MemRangeRole.Src) for each in fields.list("reads")),
                tuple(self._range(each, MemRangeRole.Dst) for each in fields.list("writes")),
            )
        )

    @staticmethod
    def _launch(fields: Fields, pipeline: Any, by_threads: bool) -> Launch:
        shared = {each.at(0).number(""): each.at(1).number("") for each in fields.list("shared")}
        lengths = tuple(shared.get(slot) for slot in range(len(pipeline.shared)))
        grid = fields.numbers("threads" if by_threads else "threadgroups")
        threads, threadgroups = (grid, None) if by_threads else (None, grid)
        return plan_launch(pipeline, threads, threadgroups, fields.numbers("group"), lengths)

    def _binding(self, fields: Fields, pipeline: Any) -> tuple[int, MlxBuffer | bytes]:
        slot = fields.at(0).number("", 0, len(pipeline.buffers))
        value = fields.at(1)
        bound = self.view(value) if value.is_table() else value.checked(lambda: bytes.fromhex(value.text("")))
        # The same checks as the encoder's: slot, size, alignment, and that inline data is only read.
        value.checked(lambda: argument(pipeline, slot, bound, lambda _: None, _refuse_long))
        return slot, bound

    def _range(self, fields: Fields, role: MemRangeRole) -> BufferRange:
        allocation = self._memory[fields.at(0).number("", 0, len(self._memory))]
        start, end = fields.at(1).number(""), fields.at(2).number("")
        if not start < end <= allocation.nbytes:
            raise fields.fault("", f"bytes {start}..{end} are outside the allocation of {allocation.nbytes}")
        return BufferRange(allocation.memory, allocation.address + start, allocation.address + end, role)


def _refuse_long(data: bytes) -> MlxBuffer:
    raise InvalidArgument(f"{len(data)} bytes inline, expected at most {INLINE_LIMIT}")


def _read_constant(fields: Fields) -> tuple[Any, Any]:
    key, kind, value = fields.at(0).plain((str, int)), fields.at(1).text(""), fields.at(2)
    readers: Mapping[str, Any] = {
        "bool": lambda: value.plain((bool,)),
        "int": lambda: value.plain((int,)),
        "float": lambda: value.checked(lambda: float.fromhex(value.text(""))),
    }
    if kind not in readers:
        raise fields.fault("", f"{kind!r} is not a kind of constant")
    return key, readers[kind]()

"""The sender: sends dispatches to a compute encoder and skips state that is already set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..pipelines.pipeline import BUFFER_SLOTS, Binding, Pipeline
from .dispatch import Dispatch, Value
from .generate import NOTHING, pattern_of_values, sender
from .parameters import Cell, Parameters

__all__ = ["Sender"]


class Sender:
    """The state of one MTLComputeCommandEncoder, and its selectors, looked up once."""

    __slots__ = (
        "_textures",
        "_keep",
        "_mtl",
        "_parameters",
        "_set_shared",
        "_shared",
        "buffers",
        "calls",
        "cells",
        "numbers",
        "pipeline",
    )

    def __init__(
        self,
        mtl: Any,
        barrier: Callable[[], object],
        parameters: Parameters | None = None,
        keep: Callable[[Any], None] | None = None,
    ) -> None:
        self.buffers: list[Any] = [NOTHING] * BUFFER_SLOTS
        self.numbers: list[bytes | None] = [None] * BUFFER_SLOTS
        self.pipeline: Pipeline | None = None
        self._shared: dict[int, int] = {}
        self._mtl = mtl
        self._textures: dict[tuple[str, int], Any] = {}
        self._set_shared = mtl.setThreadgroupMemoryLength_atIndex_
        self.calls = (
            self.buffers,
            self.numbers,
            barrier,
            mtl.setComputePipelineState_,
            mtl.setBuffer_offset_atIndex_,
            mtl.setBufferOffset_atIndex_,
            mtl.setBytes_length_atIndex_,
            mtl.dispatchThreads_threadsPerThreadgroup_,
            mtl.dispatchThreadgroups_threadsPerThreadgroup_,
        )
        self._parameters = parameters
        self._keep = keep
        self.cells: dict[bytes, Cell] = {}
        if parameters is not None:
            self._take_cells()

    def send(self, dispatch: Dispatch) -> None:
        """Sends one checked dispatch; barriers have been sent before."""
        for binding, given in dispatch.textures:
            self._bind_texture(binding, given)
        pattern = pattern_of_values(dispatch.values)
        send = sender(dispatch.pipeline, pattern, self._parameters is not None)
        send(self, dispatch.launch, dispatch.values)

    def _bind_texture(self, binding: Binding, given: Any) -> None:
        """Binds a texture or sampler, unless it is bound already."""
        place = (binding.kind, binding.index)
        if self._textures.get(place) is not given.mtl:
            set_it = self._mtl.setTexture_atIndex_ if binding.kind == "texture" else self._mtl.setSamplerState_atIndex_
            set_it(given.mtl, binding.index)
            self._textures[place] = given.mtl

    def bound(self, slot: int) -> Value:
        """The value bound at a slot; None if unknown."""
        value: Any = self.buffers[slot]
        if value is NOTHING:
            return self.numbers[slot]
        bound: Value = value.data if isinstance(value, Cell) else value
        return bound

    def set_shared(self, lengths: Iterable[tuple[int, int]]) -> None:
        """Sets the lengths of threadgroup arguments."""
        for index, length in lengths:
            if self._shared.get(index) != length:
                self._set_shared(length, index)
                self._shared[index] = length

    def new_cell(self, data: bytes) -> Cell:
        """A cell for bytes that have none yet."""
        if self._parameters is None:
            raise LookupError("this encoder takes numbers inline")
        while (cell := self._parameters.add(self.cells, data)) is None:
            self._take_cells()
        return cell

    def _take_cells(self) -> None:
        if self._parameters is not None and self._keep is not None:
            self._keep(self._parameters.chunk.allocation)
            self.cells = self._parameters.cells

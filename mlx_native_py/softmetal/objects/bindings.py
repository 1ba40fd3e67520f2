"""The argument table of an encoder or of an indirect command: bound state, checked, and frozen at each dispatch."""

from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any

from ..engines.abi import Launch
from ..memory import Allocation
from ..misuse import InvalidValue, MetalMisuse
from .buffer import MTLBuffer
from .passes import Dispatch, Resident
from .pipeline import SLOTS, MTLComputePipelineState
from .values import natural

if TYPE_CHECKING:
    from .device import MTLDevice

_Words = ctypes.c_uint64 * SLOTS
_Offsets = ctypes.c_uint32 * SLOTS
_Dimensions = ctypes.c_uint32 * 9
_UNALIGNED = 63  # every argument's alignment divides 64, so only addresses with these bits need a look
_UINT32_END = 1 << 32
_UINT64_END = 1 << 64
_THREADGROUP_STEP = 16
_copy = Launch.from_buffer_copy
_pack_dimensions = struct.Struct("9I").pack_into


class Bindings:
    """A launch being filled in; `dispatch` hands out copies of it."""

    __slots__ = (
        "_addresses",
        "_dimensions",
        "_lengths",
        "_limits",
        "_offsets",
        "_state",
        "_threadgroup_limit",
        "_zeros",
        "allocations",
        "bound",
        "dirty",
        "inline",
        "pipeline",
        "threadgroup",
        "unaligned",
    )

    def __init__(self, device: MTLDevice) -> None:
        self._zeros = device._zero_page.address
        self._limits = device._profile.max_threads
        self._threadgroup_limit = device._profile.threadgroup_memory
        self._adopt(_copy(device._blank_launch))
        self.allocations: list[Allocation | None] = [None] * SLOTS
        self.threadgroup: dict[int, int] = {}
        self.pipeline: MTLComputePipelineState | None = None
        self.bound = self.inline = self.unaligned = 0
        self.dirty = True

    def _adopt(self, state: Launch) -> None:
        self._state = state
        self._addresses = _Words.from_buffer(state, Launch.buffers.offset)
        self._lengths = _Words.from_buffer(state, Launch.lengths.offset)
        self._offsets = _Offsets.from_buffer(state, Launch.tg_offsets.offset)
        self._dimensions = _Dimensions.from_buffer(state, Launch.threads.offset)

    def snapshot(self) -> Bindings:
        """An independent copy."""
        twin = Bindings.__new__(Bindings)
        for name in ("_limits", "_threadgroup_limit", "_zeros", "bound", "inline", "pipeline", "unaligned", "dirty"):
            setattr(twin, name, getattr(self, name))
        twin._adopt(_copy(self._state))
        twin.allocations = list(self.allocations)
        twin.threadgroup = dict(self.threadgroup)
        return twin

    def bind(self, buffer: MTLBuffer | None, offset: int, index: int) -> None:
        if type(index) is not int or not 0 <= index < SLOTS:
            index = self._slot(index)
        if buffer is None:
            self._unbind(index)
            return
        if not isinstance(buffer, MTLBuffer):
            raise TypeError(f"buffer at index {index} is {buffer!r}, expected an MTLBuffer or None")
        if type(offset) is not int or not 0 <= offset < buffer._length:
            offset = self._offset(offset, buffer, index)
        # The body of _put, written out because this is the most frequent call of all.
        address, bit = buffer._address + offset, 1 << index
        self._addresses[index] = address
        self._lengths[index] = buffer._length - offset
        self.allocations[index] = buffer._allocation
        self.bound |= bit
        self.inline &= ~bit
        if address & _UNALIGNED:
            self.unaligned |= bit
        else:
            self.unaligned &= ~bit
        self.dirty = True

    def bind_inline(self, address: int, length: int, index: int) -> None:
        self._put(address, length, index)
        self.allocations[index] = None
        self.inline |= 1 << index

    def bind_allocation(self, allocation: Allocation, offset: int, index: int) -> None:
        self.allocations[index] = allocation
        self.inline &= ~(1 << index)
        self.move(offset, index)

    def move(self, offset: int, index: int) -> None:
        """Another offset into the buffer that is bound already."""
        slot = self._slot(index)
        allocation = self.allocations[slot]
        if allocation is None:
            raise MetalMisuse(f"setBufferOffset at index {slot}{self._kernel()}: no buffer is bound there")
        start = natural(offset, "offset")
        if start >= allocation.length:
            raise InvalidValue(
                f"offset {start} at index {slot}{self._kernel()}: the buffer "
                f"{allocation.label or ''!r} has {allocation.length} bytes"
            )
        self._put(allocation.address + start, allocation.length - start, slot)

    def set_pipeline(self, pipeline: MTLComputePipelineState) -> None:
        if not isinstance(pipeline, MTLComputePipelineState):
            raise TypeError(f"pipeline is {pipeline!r}, expected an MTLComputePipelineState")
        state, code = self._state, pipeline._code
        state.engine = pipeline._engine
        state.stack_bytes = code.stack_bytes
        state.entry = code.entry
        state.tg_bytes = pipeline._own_threadgroup_bytes
        self.pipeline = pipeline
        self.dirty = True

    def set_threadgroup(self, length: int, index: int) -> None:
        slot, size = self._slot(index, "threadgroup memory"), natural(length, "length")
        if size % _THREADGROUP_STEP:
            raise InvalidValue(
                f"threadgroup memory at index {slot}{self._kernel()}: {size} bytes, "
                f"expected a multiple of {_THREADGROUP_STEP}"
            )
        if size > self._threadgroup_limit:
            raise InvalidValue(
                f"threadgroup memory at index {slot}{self._kernel()}: {size} bytes, "
                f"the device has {self._threadgroup_limit}"
            )
        self.threadgroup[slot] = size
        self.dirty = True

    def dispatch(
        self,
        threads: tuple[int, int, int],
        groups: tuple[int, int, int],
        group: tuple[int, int, int],
        resident: Resident,
        label: str,
        indirect: tuple[Allocation, int] | None = None,
    ) -> Dispatch:
        """Freezes the state into a dispatch, after all checks."""
        pipeline = self.pipeline
        if pipeline is None:
            raise MetalMisuse("dispatch without a pipeline: call setComputePipelineState_ first")
        if self.dirty:
            self._check(pipeline)
        x, y, z = group
        if not 0 < x * y * z <= pipeline._max_threads or pipeline._shaped:
            self._check_group(pipeline, group)
        most_x, most_y, most_z = self._limits
        if x > most_x or y > most_y or z > most_z:
            raise InvalidValue(f"kernel {pipeline._name}: threadgroup of {group}, the device allows {self._limits}")
        a, b, c = threads
        if indirect is None and (
            not 0 < a * b * c < _UINT64_END or a >= _UINT32_END or b >= _UINT32_END or c >= _UINT32_END
        ):
            raise InvalidValue(
                f"kernel {pipeline._name}: a grid of {threads} threads; each dimension must be "
                f"from 1 to {_UINT32_END - 1}, and all of them together fewer than 2**64 threads"
            )
        _pack_dimensions(self._dimensions, 0, a, b, c, *groups, x, y, z)
        launch = _copy(self._state)
        return Dispatch(pipeline, launch, (x, y, z), tuple(self.allocations), resident, label, indirect)

    def _put(self, address: int, length: int, index: int) -> None:
        self._addresses[index] = address
        self._lengths[index] = length
        bit = 1 << index
        self.bound |= bit
        if address & _UNALIGNED:
            self.unaligned |= bit
        else:
            self.unaligned &= ~bit
        self.dirty = True

    def _unbind(self, index: int) -> None:
        self._addresses[index] = self._zeros
        self._lengths[index] = 0
        self.allocations[index] = None
        self.bound &= ~(1 << index)
        self.dirty = True

    def _slot(self, index: Any, what: str = "buffer") -> int:
        slot = natural(index, f"{what} index")
        if slot >= SLOTS:
            raise InvalidValue(f"{what} index {slot}{self._kernel()}: expected 0 to {SLOTS - 1}")
        return slot

    def _offset(self, offset: Any, buffer: MTLBuffer, index: int) -> int:
        start = natural(offset, "offset")
        if start >= buffer._length:
            raise InvalidValue(
                f"offset {start} at index {index}{self._kernel()}: {buffer!r} has {buffer._length} bytes"
            )
        return start

    def _kernel(self) -> str:
        return f" (kernel {self.pipeline._name})" if self.pipeline else ""

    def _check(self, pipeline: MTLComputePipelineState) -> None:
        """All that depends on bindings; needed again only after one changed."""
        missing = pipeline._needed & ~self.bound
        if missing:
            raise MetalMisuse(f"kernel {pipeline._name}: nothing is bound to {self._names(pipeline, missing)}")
        wrong = pipeline._written & self.inline & self.bound
        if wrong:
            raise MetalMisuse(
                f"kernel {pipeline._name} may write {self._names(pipeline, wrong)}, which setBytes bound; bind a buffer"
            )
        for index, size in pipeline._sized:
            if self._lengths[index] < size:
                raise InvalidValue(
                    f"kernel {pipeline._name} reads {size} bytes of {self._names(pipeline, 1 << index)}, "
                    f"but only {self._lengths[index]} are bound"
                )
        if self.unaligned & pipeline._needed:
            self._check_alignment(pipeline)
        if pipeline._threadgroup_slots:
            self._layout(pipeline)
        self.dirty = False

    def _check_alignment(self, pipeline: MTLComputePipelineState) -> None:
        for index, alignment in pipeline._aligned:
            if self._addresses[index] % alignment:
                allocation = self.allocations[index]
                offset = self._addresses[index] - allocation.address if allocation else 0
                raise InvalidValue(
                    f"kernel {pipeline._name}: offset {offset} of {self._names(pipeline, 1 << index)} "
                    f"is not a multiple of {alignment}, the alignment of its type"
                )

    def _layout(self, pipeline: MTLComputePipelineState) -> None:
        """Places threadgroup arguments behind the kernel's own threadgroup variables."""
        end = pipeline._own_threadgroup_bytes
        for slot in pipeline._threadgroup_slots:
            length = self.threadgroup.get(slot)
            if length is None:  # zero is a length: that of an argument which the kernel leaves alone
                name = pipeline._argument_name(slot, "threadgroup")
                raise MetalMisuse(
                    f"kernel {pipeline._name}: threadgroup argument '{name}' (index {slot}) has no length; "
                    "call setThreadgroupMemoryLength_atIndex_"
                )
            self._offsets[slot] = end
            end += length
        if end > self._threadgroup_limit:
            raise InvalidValue(
                f"kernel {pipeline._name}: {end} bytes of threadgroup memory "
                f"({pipeline._code.static_threadgroup_bytes} of them its own variables), "
                f"the device has {self._threadgroup_limit}"
            )
        self._state.tg_bytes = end

    def _check_group(self, pipeline: MTLComputePipelineState, group: tuple[int, int, int]) -> None:
        total = group[0] * group[1] * group[2]
        if not 0 < total <= pipeline._max_threads:
            raise InvalidValue(
                f"kernel {pipeline._name}: a threadgroup of {group} has {total} threads; "
                f"this pipeline allows 1 to {pipeline._max_threads}"
            )
        if any(pipeline._required) and group != pipeline._required:
            raise InvalidValue(
                f"kernel {pipeline._name}: threadgroup of {group}, but the pipeline was made for {pipeline._required}"
            )
        if pipeline._whole_simdgroups and total % 32:
            raise InvalidValue(
                f"kernel {pipeline._name}: {total} threads in a threadgroup, but the pipeline was made "
                "for multiples of 32"
            )

    @staticmethod
    def _names(pipeline: MTLComputePipelineState, mask: int) -> str:
        return ", ".join(
            f"buffer '{pipeline._argument_name(index)}' (index {index})" for index in range(SLOTS) if mask >> index & 1
        )

"""The argument table of an encoder or indirect command: checked bindings, copied at each dispatch."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

from ..engines.abi import SLOTS, SoftLaunch
from ..memory import DeviceMemory
from ..misuse import InvalidValue, MetalMisuse
from ..values import natural
from .device import DeviceState
from .handles import Handles
from .passes import EncodedDispatch, Steps
from .pipeline import SIMD_WIDTH, LaunchSize, PipelineState
from .residency import Resident

_Words = ctypes.c_uint64 * (2 * SLOTS)  # the addresses, then the lengths behind them
_UNALIGNED = 63  # every argument's alignment divides 64, so only where an address had these bits they need a look
_UINT32_END = 1 << 32
_UINT64_END = 1 << 64
_THREADGROUP_STEP = 16
_copy = SoftLaunch.from_buffer_copy
_dimensions = struct.Struct("9I").pack
_put_dimensions = struct.Struct("36s").pack_into
_DIMENSIONS = SoftLaunch.threads.offset


class Bindings:
    """A launch under construction; `dispatch` returns copies of it."""

    __slots__ = (
        "addresses",
        "_checked",
        "_device",
        "_launch",
        "_words",
        "allocations",
        "bound",
        "dirty",
        "given",
        "handles",
        "inline",
        "pipeline",
        "threadgroup",
    )

    def __init__(self, device: DeviceState, launch: SoftLaunch | None = None) -> None:
        self._device = device
        self._launch = copied = _copy(launch or device.blank_launch)
        self._words = _Words.from_buffer(copied, SoftLaunch.buffers.offset)
        self.allocations: list[DeviceMemory | None] = [None] * SLOTS
        self.threadgroup: dict[int, int] = {}
        self.pipeline: PipelineState | None = None
        self._checked: PipelineState | None = None  # the pipeline that the last check was made for
        self.bound = self.inline = 0
        self.given: dict[int, bytes] = {}  # what is bound inline, and was before
        self.addresses = 0  # all bits that any address has had
        self.handles: Handles | None = None  # only compute encoders bind textures
        self.dirty = True

    def snapshot(self) -> Bindings:
        """An independent copy."""
        twin = Bindings(self._device, self._launch)
        twin.pipeline = self.pipeline
        twin.bound, twin.inline, twin.addresses = self.bound, self.inline, self.addresses
        twin.allocations, twin.given = list(self.allocations), dict(self.given)
        twin.threadgroup = dict(self.threadgroup)
        return twin

    def bind(self, allocation: DeviceMemory, offset: int, index: int) -> None:
        if type(index) is not int or not 0 <= index < SLOTS:
            index = self.slot(index)
        if type(offset) is not int or not 0 <= offset < allocation.length:
            offset = self._offset(offset, allocation, index)
        address, words = allocation.address + offset, self._words
        words[index] = address
        words[SLOTS + index] = allocation.length - offset
        self.allocations[index] = allocation
        self.bound |= 1 << index
        if self.inline:
            self.inline &= ~(1 << index)
        self.addresses |= address
        self.dirty = True

    def unbind(self, index: int) -> None:
        slot = self.slot(index)
        self._words[slot] = self._device.zero_page.address
        self._words[SLOTS + slot] = 0
        self.allocations[slot] = None
        self.bound &= ~(1 << slot)
        self.dirty = True

    def bind_inline(self, data: bytes, address: int, index: int) -> None:
        """Bytes, and where a copy of them is: at an address that every type may have."""
        if type(index) is not int or not 0 <= index < SLOTS:
            index = self.slot(index)
        words = self._words
        words[index] = address
        words[SLOTS + index] = len(data)
        self.given[index] = data
        self.allocations[index] = None
        self.bound |= 1 << index
        self.inline |= 1 << index
        self.dirty = True

    def move(self, offset: int, index: int) -> None:
        """Another offset into the buffer that is bound already."""
        slot = self.slot(index)
        allocation = self.allocations[slot]
        if allocation is None:
            raise MetalMisuse(f"setBufferOffset at index {slot}{self._kernel()}: no buffer is bound there")
        self.bind(allocation, self._offset(offset, allocation, slot), slot)

    def set_threadgroup(self, length: int, index: int) -> None:
        slot, size = self.slot(index, "threadgroup memory"), natural(length, "length")
        if size % _THREADGROUP_STEP:
            raise InvalidValue(
                f"threadgroup memory at index {slot}{self._kernel()}: {size} bytes, "
                f"expected a multiple of {_THREADGROUP_STEP}"
            )
        if size > self._device.profile.threadgroup_memory:
            raise InvalidValue(
                f"threadgroup memory at index {slot}{self._kernel()}: {size} bytes, "
                f"the device has {self._device.profile.threadgroup_memory}"
            )
        self.threadgroup[slot] = size
        self.dirty = True

    def size(
        self, threads: tuple[int, int, int], groups: tuple[int, int, int], group: tuple[int, int, int]
    ) -> LaunchSize:
        """A launch of the pipeline, after all checks."""
        pipeline = self.pipeline
        if pipeline is None:
            raise MetalMisuse("dispatch without a pipeline: call setComputePipelineState_ first")
        x, y, z = group
        if not 0 < x * y * z <= pipeline.max_threads or pipeline.has_rules:
            self._check_group(pipeline, group)
        limits = self._device.profile.max_threads
        if x > limits[0] or y > limits[1] or z > limits[2]:
            raise InvalidValue(f"kernel {pipeline.name}: threadgroup of {group}, the device allows {limits}")
        a, b, c = threads
        if a >= _UINT32_END or b >= _UINT32_END or c >= _UINT32_END or not 0 < a * b * c < _UINT64_END:
            raise InvalidValue(
                f"kernel {pipeline.name}: a grid of {threads} threads; each dimension must be "
                f"from 1 to {_UINT32_END - 1}, and all of them together fewer than 2**64 threads"
            )
        return LaunchSize(_dimensions(a, b, c, *groups, x, y, z), (x, y, z), a * b * c, math.prod(groups))

    def dispatch(
        self, size: LaunchSize, resident: Resident, label: str, indirect: tuple[DeviceMemory, int] | None = None
    ) -> EncodedDispatch:
        """Freezes the state into a dispatch; the size is one of the current pipeline."""
        pipeline = self.pipeline
        if pipeline is None:
            raise MetalMisuse("dispatch without a pipeline: call setComputePipelineState_ first")
        if self.dirty or pipeline is not self._checked:
            self._check(pipeline)
        if size.shape not in pipeline.engines:
            pipeline.prepare(size.shape, size.threads)
        _put_dimensions(self._launch, _DIMENSIONS, size.dimensions)
        launch = _copy(self._launch)
        encoded = EncodedDispatch(
            pipeline, launch, size.shape, size.threads, tuple(self.allocations), resident, label, indirect
        )
        if not pipeline.code.has_loops:
            pace = pipeline.ns_per_thread.get(size.shape)
            encoded.expected_ns = None if pace is None else pace * size.threads
        elif indirect is None:
            encoded.steps = steps = self._steps(pipeline, size)
            encoded.expected_ns = pipeline.taken_ns.get(steps)
        if pipeline.table >= 0 and self.handles is not None:
            launch.buffers[pipeline.table], launch.lengths[pipeline.table] = self.handles.table(pipeline)
            encoded.textures = self.handles.used(pipeline)
        return encoded

    def _steps(self, pipeline: PipelineState, size: LaunchSize) -> Steps:
        """The same for dispatches whose loops go round equally often; empty where other memory decides about that.

        What setBytes bound cannot change any more; what a buffer holds can, until the kernel runs.
        """
        slots = pipeline.code.lanes.decided_by(size.shape) if pipeline.code.lanes is not None else None
        if slots is None or pipeline.table in slots:
            return ()
        steps = [size.dimensions]
        for slot in slots:
            if not self.inline >> slot & 1:
                return ()
            steps.append(self.given[slot])
        return tuple(steps)

    def slot(self, index: Any, what: str = "buffer") -> int:
        slot = natural(index, f"{what} index")
        if slot >= SLOTS:
            raise InvalidValue(f"{what} index {slot}{self._kernel()}: expected 0 to {SLOTS - 1}")
        return slot

    def _offset(self, offset: Any, allocation: DeviceMemory, index: int) -> int:
        start = natural(offset, "offset")
        if start >= allocation.length:
            raise InvalidValue(
                f"offset {start} at index {index}{self._kernel()}: the buffer "
                f"{allocation.label or ''!r} has {allocation.length} bytes"
            )
        return start

    def _kernel(self) -> str:
        return f" (kernel {self.pipeline.name})" if self.pipeline else ""

    def _check(self, pipeline: PipelineState) -> None:
        """All that depends on bindings; needed again only after one changed."""
        missing = pipeline.needed & ~self.bound
        if missing:
            raise MetalMisuse(f"kernel {pipeline.name}: nothing is bound to {self._names(pipeline, missing)}")
        wrong = pipeline.written & self.inline & self.bound
        if wrong:
            raise MetalMisuse(
                f"kernel {pipeline.name} may write {self._names(pipeline, wrong)}, which setBytes bound; bind a buffer"
            )
        for index, size in pipeline.sized:
            if self._words[SLOTS + index] < size:
                raise InvalidValue(
                    f"kernel {pipeline.name} reads {size} bytes of {self._names(pipeline, 1 << index)}, "
                    f"but only {self._words[SLOTS + index]} are bound"
                )
        if self.addresses & _UNALIGNED:
            self._check_alignment(pipeline)
        self._launch.tg_bytes = pipeline.own_threadgroup_bytes
        if pipeline.threadgroup_slots:
            self._layout(pipeline)
        if pipeline.table >= 0 and self.handles is not None:
            self.handles.check(pipeline)
        self.dirty, self._checked = False, pipeline

    def _check_alignment(self, pipeline: PipelineState) -> None:
        for index, alignment in pipeline.aligned:
            if self._words[index] % alignment:
                allocation = self.allocations[index]
                offset = self._words[index] - allocation.address if allocation else 0
                raise InvalidValue(
                    f"kernel {pipeline.name}: offset {offset} of {self._names(pipeline, 1 << index)} "
                    f"is not a multiple of {alignment}, the alignment of its type"
                )

    def _layout(self, pipeline: PipelineState) -> None:
        """Places threadgroup arguments behind the kernel's own threadgroup variables."""
        end = pipeline.own_threadgroup_bytes
        for slot in pipeline.threadgroup_slots:
            length = self.threadgroup.get(slot)
            if length is None:  # zero is a length: that of an argument which the kernel leaves alone
                name = pipeline.argument_name(slot, "threadgroup")
                raise MetalMisuse(
                    f"kernel {pipeline.name}: threadgroup argument '{name}' (index {slot}) has no length; "
                    "call setThreadgroupMemoryLength_atIndex_"
                )
            self._launch.tg_offsets[slot] = end
            end += length
        if end > self._device.profile.threadgroup_memory:
            raise InvalidValue(
                f"kernel {pipeline.name}: {end} bytes of threadgroup memory "
                f"({pipeline.code.static_threadgroup_bytes} of them its own variables), "
                f"the device has {self._device.profile.threadgroup_memory}"
            )
        self._launch.tg_bytes = end

    def _check_group(self, pipeline: PipelineState, group: tuple[int, int, int]) -> None:
        total = group[0] * group[1] * group[2]
        if not 0 < total <= pipeline.max_threads:
            raise InvalidValue(
                f"kernel {pipeline.name}: a threadgroup of {group} has {total} threads; "
                f"this pipeline allows 1 to {pipeline.max_threads}"
            )
        if any(pipeline.rules.required) and group != pipeline.rules.required:
            raise InvalidValue(
                f"kernel {pipeline.name}: threadgroup of {group}, but the pipeline was made for "
                f"{pipeline.rules.required}"
            )
        if pipeline.rules.whole_simdgroups and total % SIMD_WIDTH:
            raise InvalidValue(
                f"kernel {pipeline.name}: {total} threads in a threadgroup, but the pipeline was made "
                f"for multiples of {SIMD_WIDTH}"
            )

    @staticmethod
    def _names(pipeline: PipelineState, mask: int) -> str:
        return ", ".join(
            f"buffer '{pipeline.argument_name(index)}' (index {index})" for index in range(SLOTS) if mask >> index & 1
        )

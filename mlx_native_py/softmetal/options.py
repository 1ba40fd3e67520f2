"""Options of a software device, and the limits and capabilities that it reports."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import constants as c
from .cache import DEFAULT_LIMIT
from .compiler_process import CompileLimits
from .program import EngineChoice

_CPU_NAME = r"[a-z0-9][a-z0-9._+-]*"
_RESIDENCY = frozenset(
    {
        "newResidencySetWithDescriptor_error_",
        "addResidencySet_",
        "removeResidencySet_",
        "addResidencySets_count_",
        "removeResidencySets_count_",
        "useResidencySet_",
        "useResidencySets_count_",
    }
)


@dataclass(frozen=True)
class SoftOptions:
    """Execution options, none of which changes a correct program's results."""

    schedule: str = "ordered"  # ordered | reversed | shuffled:SEED, for dispatches between two barriers
    checked: bool = False
    isolated: bool = False  # whether kernels run in processes of their own
    threads: int | None = None  # cores to run threadgroups on; all by default
    watchdog_seconds: float = 10.0
    queue_patience_seconds: float = 5.0  # how long commandBuffer() waits on a full queue where nothing moves
    capture_enabled: bool = False
    capture_buffers: bool = False  # whether a capture also dumps the bound buffers
    engine: EngineChoice = "auto"
    cpu: str = "native"  # the processor that kernels are compiled for, by clang's name
    cache_directory: Path | None = None  # of compiled kernels
    cache_limit: int = DEFAULT_LIMIT  # bytes that it may take
    compiler: Path | None = None  # a clang or zig of the caller
    compile_limits: CompileLimits = CompileLimits()  # of each compiler process, and in time of those of one compilation

    def __post_init__(self) -> None:
        if not re.fullmatch(r"ordered|reversed|shuffled:\d+", self.schedule):
            raise ValueError(f"schedule is {self.schedule!r}, expected ordered, reversed or shuffled:SEED")
        if not re.fullmatch(_CPU_NAME, self.cpu):
            raise ValueError(f"cpu is {self.cpu!r}, expected a processor by clang's name, such as x86-64-v3")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads is {self.threads}, expected at least 1")
        if self.checked and self.isolated:
            raise ValueError(
                "checked and isolated exclude each other: what checked mode sees is in this process, "
                "and it carries out no access outside of what is bound"
            )
        if self.isolated and sys.platform != "linux":
            raise ValueError(f"isolated devices are walled in by Linux, and this is {sys.platform}")
        if self.watchdog_seconds <= 0 or self.queue_patience_seconds <= 0:
            raise ValueError("watchdog_seconds and queue_patience_seconds must be positive")


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _families() -> frozenset[int]:
    apple = range(c.MTLGPUFamilyApple1, c.MTLGPUFamilyApple9 + 1)
    common = range(c.MTLGPUFamilyCommon1, c.MTLGPUFamilyCommon3 + 1)
    return frozenset({*apple, *common, c.MTLGPUFamilyMac2, c.MTLGPUFamilyMetal3})


@dataclass(frozen=True)
class DeviceProfile:
    """The reported properties of the device, so that both outcomes of every capability test can be exercised."""

    name: str | None = None
    architecture: str | None = None  # None: named after the CPU
    families: frozenset[int] = field(default_factory=_families)
    counter_sampling: frozenset[int] = frozenset({c.MTLCounterSamplingPointAtStageBoundary})
    counter_sets: bool = True
    residency_sets: bool = True
    indirect_command_buffers: bool = True
    missing: frozenset[str] = frozenset()  # further PyObjC names that this device does not respond to
    max_threads: tuple[int, int, int] = (1024, 1024, 1024)
    threadgroup_memory: int = 32768
    memory: int = field(default_factory=_memory)  # allocations beyond it fail
    working_set: int | None = None  # three quarters of the memory by default
    max_buffer_length: int | None = None  # the working set by default

    @property
    def working_set_bytes(self) -> int:
        return self.memory // 4 * 3 if self.working_set is None else self.working_set

    @property
    def buffer_limit(self) -> int:
        return self.working_set_bytes if self.max_buffer_length is None else self.max_buffer_length

    @property
    def absent(self) -> frozenset[str]:
        """Every PyObjC name that objects of this device do not respond to."""
        return self.missing if self.residency_sets else self.missing | _RESIDENCY

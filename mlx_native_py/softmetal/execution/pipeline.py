"""The state of a pipeline: the compiled kernel, its bindings, and its launch history."""

from __future__ import annotations

from dataclasses import dataclass

from ..engines.abi import SoftLaunch
from ..engines.choice import CODE, code_for, put_code
from ..program import Executable, Size

SIMD_WIDTH = 32


@dataclass(frozen=True)
class PipelineRules:
    """Guarantees about threadgroups given by the pipeline descriptor."""

    max_threads: int = 0  # 0: as many as the kernel allows
    required: Size = (0, 0, 0)
    whole_simdgroups: bool = False


@dataclass(frozen=True)
class KernelSource:
    """The origin of a kernel, for captures."""

    text: str
    digest: str
    constants: dict[int, bytes]


class LaunchSize:
    """The checked size of a launch: its dimensions as the runtime takes them."""

    __slots__ = ("dimensions", "given", "groups", "shape", "threads")

    def __init__(self, dimensions: bytes, shape: Size, threads: int, groups: int) -> None:
        self.dimensions = dimensions  # threads, threadgroups, and threads of a threadgroup
        self.shape = shape
        self.threads = threads
        self.groups = groups
        self.given: tuple[object, object] = (None, None)  # the very objects that were checked


class PipelineState:
    """A kernel ready to be dispatched, with everything that an encoder needs."""

    def __init__(self, name: str, code: Executable, rules: PipelineRules, source: KernelSource) -> None:
        self.name = name
        self.label: str | None = None
        self.code = code
        self.source = source
        self.rules = rules
        self.has_rules = rules.whole_simdgroups or any(rules.required)
        self.max_threads = min(code.max_total_threads, rules.max_threads or code.max_total_threads)
        arguments = code.kernel.arguments
        buffers = [argument for argument in arguments if argument.kind == "buffer"]
        self.needed = sum({1 << argument.index for argument in buffers})
        self.written = sum({1 << argument.index for argument in buffers if argument.access == "read_write"})
        self.sized = tuple((argument.index, argument.size) for argument in buffers if not argument.is_pointer)
        self.aligned = tuple((argument.index, argument.alignment) for argument in buffers if argument.alignment > 1)
        self.threadgroup_slots = tuple(sorted(each.index for each in arguments if each.kind == "threadgroup"))
        self.own_threadgroup_bytes = -(-code.static_threadgroup_bytes // 16) * 16
        self.textures = tuple(each for each in arguments if each.kind == "texture")
        self.samplers = tuple(each for each in arguments if each.kind == "sampler")
        self.table = next((each.table for each in arguments if each.table >= 0), -1)
        self.last_engine: str = code.engine
        self.engines: dict[Size, str] = {}  # of the last launch, by threads per threadgroup
        self.ns_per_thread: dict[Size, float] = {}  # of the last launch, likewise
        self.taken_ns: dict[tuple[bytes, ...], int] = {}  # of the last launch, by what decides how many steps it takes
        self.sizes: dict[tuple[bool, Size, Size], LaunchSize] = {}  # of launches so far: by threads, count, group
        self.settled: dict[Size, tuple[str, tuple[int, ...]]] = {}  # engine and code that will not change any more

    def argument_name(self, index: int, kind: str = "buffer") -> str:
        names = [each.name for each in self.code.kernel.arguments if each.index == index and each.kind == kind]
        return names[0] if names else "?"

    def prepare(self, shape: Size, threads: int) -> None:
        """Begins to compile for threadgroups of this shape, if a launch of so many threads makes that worthwhile."""
        if self.code.lanes is not None:
            self.code.lanes.prepare(shape, threads)

    def aim(self, launch: SoftLaunch, shape: Size, threads: int) -> None:
        """Puts the code that runs threadgroups of this shape into a launch."""
        chosen = self.settled.get(shape)
        if chosen is None:
            is_settled = self.is_settled(shape)
            chosen = code_for(self.code, shape, threads)
            if is_settled:
                self.settled[shape] = chosen
            self.engines[shape] = chosen[0]
        self.last_engine, numbers = chosen
        put_code(launch, CODE, *numbers)

    def is_settled(self, shape: Size | None = None) -> bool:
        """Whether the choice of engine is made, for one shape or for every one that was launched."""
        return shape in self.settled or self.code.lanes is None or self.code.lanes.settled(shape)

    def declined(self) -> dict[str, str]:
        """Why other engines were not taken; for lanes, shape by shape."""
        return {**self.code.declined, **(self.code.lanes.declined() if self.code.lanes else {})}

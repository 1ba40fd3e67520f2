"""Kernel libraries: `lib = kernel(source)`, then call `lib.axpy(y, x, 2.0)`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ..encoder import CommandEncoder, DeviceContext, Out, Ticket, require_open
from ..encoder.arguments import refuse_count
from ..encoder.launch import is_nothing
from ..encoder.named import by_slot
from ..encoder.synchronous import run_and_wait
from ..encoder.textures import split_textures, texture_threads
from ..errors import InvalidArgument, KernelNotFound, MlxError, ShaderCompilationError
from ..memory.buffer import MlxBuffer
from ..memory.texture import MlxTexture
from ..pipelines.compile_options import CompileOptions
from ..pipelines.foreign import hint
from ..pipelines.function_constants import Constants
from ..pipelines.includes import Folders, source_with_headers
from ..pipelines.pipeline import Binding, Pipeline
from ..pipelines.registry import KernelLibrary
from ..pipelines.structs import parameters_of
from ..table import Table
from .inspection import Inspection, inspect_kernel, locator
from .measuring import copied, counting_device, measure
from .staging import Staging

__all__ = ["Kernel", "Library", "NoSuchKernel", "compiled", "declared"]

_SHOWN = 16  # kernels whose signatures a library's repr compiles to show
_GRID_POSITION = re.compile(r"\b(u(?:int|short)[23])\s+\w+\s*\[\[\s*thread_position_in_grid\b")
_NO_KERNEL = "there is no kernel in this source; one begins with `kernel void name(`, or with `[[kernel]] void name(`"
_ROLES = {"read": "", "write": "out ", "read_write": "inout "}


def compiled(
    device: DeviceContext,
    source: str | Path,
    constants: Constants | None = None,
    options: CompileOptions | None = None,
    include: Folders = (),
) -> Library:
    """The kernels of an MSL source for a device."""
    require_open(device)
    _check_options(constants, options)
    name = source.name if isinstance(source, Path) else ""
    text = source_with_headers(source, include) if isinstance(source, Path) else source
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgument(f"a source is MSL text or the Path of a file with some, not {source!r}")
    if text.endswith(".metal") and "\n" not in text:
        raise InvalidArgument(f"{source!r} is the name of a file; pass pathlib.Path({source!r})")
    library = device.kernels.library(text, options, name=name)
    if not library.names:
        raise ShaderCompilationError(name or "program_source", "\n".join(filter(None, (_NO_KERNEL, hint(text)))))
    return Library(device, library, constants or {})


def _check_options(constants: Any, options: Any) -> None:
    if constants is not None and not isinstance(constants, Mapping):
        raise InvalidArgument(f"constants is {constants!r}, expected a dict of function constants by name or index")
    if options is not None and not isinstance(options, CompileOptions):
        raise InvalidArgument(f"options is {options!r}, expected CompileOptions(...)")


class NoSuchKernel(KernelNotFound, AttributeError):
    """An attribute of a library that is no kernel of it."""

    name: str


class Library:
    """The kernels of one source: `lib.name`, or `lib["name"]` for names that are not Python identifiers.

    >>> lib = device.compile("kernel void twice(device float *x, uint i [[thread_position_in_grid]]) { x[i] *= 2; }")
    >>> list(lib), lib["twice"] is lib.twice
    (['twice'], True)
    >>> lib.twice
    <Kernel twice(inout float x)>
    """

    def __init__(self, device: DeviceContext, library: KernelLibrary, constants: Constants) -> None:
        self._device = device
        self._library = library
        self._kernels = {name: Kernel(device, library, name, constants) for name in library.names}

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._kernels[name]
        except KeyError:
            raise NoSuchKernel(name, self._library.names) from None

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            raise KernelNotFound(name, self._library.names)
        return self._kernels[name]

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(name for name in self._kernels if name.isidentifier())]

    def __repr__(self) -> str:
        few = len(self) <= _SHOWN
        lines = [f"  {each.signature() if few else each.name}" for each in self._kernels.values()]
        plural = "" if len(self) == 1 else "s"
        return "\n".join([f"<Library of {len(self)} kernel{plural} on {self._device.name}>", *lines])

    def _repr_html_(self) -> str:
        """An HTML table of its kernels."""
        few = len(self) <= _SHOWN
        rows = [(each.name, each.signature().removeprefix(each.name) if few else "") for each in self._kernels.values()]
        head = ("kernel", "arguments")
        return Table(repr(self).partition("\n")[0], head, rows, words=head)._repr_html_()


class Kernel:
    """A kernel that is launched by calling it with numpy arrays and buffers.

    >>> import numpy as np
    >>> counts = np.zeros(4, np.uint32)
    >>> lib = device.compile('''
    ... #include <metal_stdlib>
    ... using namespace metal;
    ... kernel void histogram(device const uint *values, device atomic_uint *counts,
    ...                       uint i [[thread_position_in_grid]]) {
    ...   atomic_fetch_add_explicit(&counts[values[i]], 1, memory_order_relaxed);
    ... }''')
    >>> ticket = lib.histogram(np.array([0, 2, 2, 3, 2], np.uint32), counts, threads=5)
    >>> counts.tolist()
    [1, 0, 3, 1]
    """

    def __init__(self, device: DeviceContext, library: KernelLibrary, name: str, constants: Constants) -> None:
        self.name = name
        self._device = device
        self._library = library
        self._constants = dict(constants)
        self._elsewhere: WeakKeyDictionary[DeviceContext, KernelLibrary] = WeakKeyDictionary()
        """The same source on other devices, for buffers that live there."""

    @property
    def source(self) -> str:
        """The MSL source that contains it."""
        return self._library.source

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline; `CommandEncoder.dispatch` takes it, or the kernel itself."""
        return self.pipeline_on(self._device)

    def pipeline_on(self, device: DeviceContext, constants: Constants | None = None) -> Pipeline:
        """The pipeline on another device, compiled there if needed."""
        chosen = {**self._constants, **constants} if constants else self._constants
        library = self._library
        if device is not self._device:
            if device not in self._elsewhere:
                self._elsewhere[device] = device.kernels.library(library.source, library.options, name=self.name)
            library = self._elsewhere[device]
        return device.kernels.get_pipeline(self.name, chosen, library=library)

    def __call__(
        self,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        shared: Any = (),
        constants: Constants | None = None,
        wait: bool = True,
        encoder: CommandEncoder | None = None,
        **named: Any,
    ) -> Ticket:
        """Launches the kernel; arguments by slot, as `CommandEncoder.dispatch` takes them, or by name, and arrays too.

        An array that the kernel writes has the result when the call returns. `threads`, where neither it nor
        `threadgroups` is given, is the number of values in the first argument that is written, or else in the first
        array or buffer; where that is none, nothing is launched. Textures have a thread for each texel.
        `wait=False` returns at once, `encoder=` only encodes; both write to buffers, or to arrays over buffers,
        because a copy could not be brought back, and arrays that are read must stay as they are. It runs on the device
        of the buffers that it gets.
        """
        device = self._place((*args, *named.values())) if encoder is None else encoder.device
        pipeline = self.pipeline_on(device, constants)
        others, held = split_textures(pipeline, by_slot(pipeline, args, named) if named else args)
        if len(others) != len(pipeline.buffers):
            raise refuse_count(pipeline, others)
        if held and threads is None and threadgroups is None:
            threads = texture_threads(held)
        unsaid = threads is None and threadgroups is None
        if _is_empty(pipeline, others) if unsaid else is_nothing(threads, threadgroups):
            return CommandEncoder(device).commit(label=pipeline.label) if encoder is None else encoder.ticket
        staging = Staging(device, pipeline)
        values = list(map(staging.argument, pipeline.buffers, others))
        threads = self._default_threads(pipeline, values) if unsaid else threads
        if encoder is not None or not wait:
            staging.require_no_copies("wait=False" if encoder is None else "encoder=")
        launch = {"threads": threads, "threadgroups": threadgroups, "group": group, "shared": shared}
        ticket = _run(device, pipeline, [*values, *(each for _, each in held)], launch, wait, encoder)
        staging.bring_back(ticket, values)
        return ticket

    def _place(self, given: Sequence[Any]) -> DeviceContext:
        """The device of the first buffer that is given, or else the one that the source was compiled for."""
        for each in given:
            buffer = each.buffer if isinstance(each, (Out, MlxTexture)) else each
            if isinstance(buffer, MlxBuffer):
                mine = buffer.allocation.residency is self._device.residency
                return self._device if mine else buffer.device
        return self._device

    @cached_property
    def _vector_position(self) -> str | None:
        """The type of the thread's position, where it is a vector."""
        position = _GRID_POSITION.search(parameters_of(self._library.source, self.name))
        return position and position[1]

    def _default_threads(self, pipeline: Pipeline, values: list[Any]) -> int:
        if self._vector_position is not None:
            raise InvalidArgument(
                f"kernel {pipeline.label!r} counts threads by a {self._vector_position}, "
                "so an array's size does not say how many there are; give threads= or threadgroups="
            )
        return _values_in(pipeline, values)

    def inspect(
        self,
        *args: Any,
        threads: Any = None,
        threadgroups: Any = None,
        group: Any = None,
        shared: Any = (),
        constants: Constants | None = None,
        **named: Any,
    ) -> Inspection:
        """Analyses memory access per line, for threadgroups of `group` threads; see docs/inspecting-kernels.md.

        The software device analyses the source, whatever device the kernel is on. Given the arguments of a call, it
        also runs the kernel on copies of them and counts instructions, lines and divergent branches.
        """
        chosen = {**self._constants, **(constants or {})}
        source, options = self._library.source, self._library.options
        measured, problem = None, ""
        if any(isinstance(each, MlxTexture) for each in (*args, *named.values())):
            problem = "launches with textures are not counted"
        elif args or named:
            locate = locator(source, self.name, chosen, options)
            with counting_device() as device:
                twin = Kernel(device, device.kernels.library(source, options), self.name, chosen)
                given = copied([*args, *named.values()])
                keywords = dict(zip(named, given[len(args) :], strict=True))
                sizes = {"threads": threads, "threadgroups": threadgroups, "group": group, "shared": shared}
                measured, problem = measure(
                    twin.pipeline, lambda: twin(*given[: len(args)], **sizes, **keywords), locate
                )
        inspection = inspect_kernel(source, self.name, measured.group if measured else group, chosen, options)
        return replace(inspection, measured=measured, unmeasured=problem)

    def signature(self) -> str:
        """The name and arguments, with `inout` before those that the kernel may write."""
        try:
            bindings = self.pipeline.bindings
        except MlxError as problem:
            return f"{self.name}: {problem}"
        return f"{self.name}({', '.join(map(declared, bindings))})"

    def __repr__(self) -> str:
        return f"<Kernel {self.signature()}>"

    def _repr_html_(self) -> str:
        """An HTML table of its arguments."""
        try:
            return self.pipeline._repr_html_()
        except MlxError:  # it needs function constants, as its repr says
            return Table(repr(self), (), ())._repr_html_()


def _run(
    device: DeviceContext,
    pipeline: Pipeline,
    values: list[Any],
    launch: dict[str, Any],
    wait: bool,
    encoder: CommandEncoder | None,
) -> Ticket:
    """Into the encoder that is given, or into a command buffer of its own."""
    if encoder is not None:
        encoder.dispatch(pipeline, *values, **launch)
        return encoder.ticket
    if wait:
        return run_and_wait(device, pipeline, values, **launch, label=pipeline.label)
    enc = CommandEncoder(device)
    try:
        enc.dispatch(pipeline, *values, **launch)
        return enc.commit(label=pipeline.label)
    finally:
        enc.discard()


def declared(binding: Binding) -> str:
    """An argument as it appears in a signature."""
    if binding.kind != "buffer":
        return f"{_ROLES[binding.access] if binding.kind == 'texture' else ''}{binding.kind} {binding.name}"
    kind = binding.scalar.name if binding.scalar else "struct"
    return f"{_ROLES[binding.access]}{kind} {binding.name}"


def _is_empty(pipeline: Pipeline, args: Sequence[Any]) -> bool:
    """Whether the argument that says how many threads there are is an array without elements."""
    slot = _counted_slot(pipeline, args)
    return slot is not None and isinstance(args[slot], np.ndarray) and not args[slot].size


def _counted_slot(pipeline: Pipeline, args: Sequence[Any]) -> int | None:
    """Where the number of threads is taken from: the first written argument, or else the first array or buffer."""
    first = None
    for slot, given in enumerate(args):
        binding = pipeline.buffers[slot]
        inner = given.buffer if isinstance(given, Out) else given
        if binding is not None and isinstance(inner, (MlxBuffer, np.ndarray)):
            if binding.writes:
                return slot
            first = slot if first is None else first
    return first


def _values_in(pipeline: Pipeline, values: list[Any]) -> int:
    """How many values the first written argument has, or else the first array or buffer."""
    slot = _counted_slot(pipeline, values)
    binding = pipeline.buffers[slot] if slot is not None else None
    if slot is None or binding is None:
        raise InvalidArgument(
            f"kernel {pipeline.label!r} has no array or buffer whose length says how many threads to launch; "
            "give threads= or threadgroups=, and numpy arrays in place of lists"
        )
    given = values[slot]
    nbytes = given.buffer.nbytes if isinstance(given, Out) else given.nbytes
    return max(1, int(nbytes // max(1, binding.size)))

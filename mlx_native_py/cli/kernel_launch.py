"""A kernel launch described on the command line: kernel, arguments and launch size."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..calls.library import Kernel, Library
from ..device import MlxDevice
from ..encoder import Out, Ticket
from ..errors import InvalidArgument, MissingFileError
from ..memory.buffer import as_array
from ..memory.texture import MlxTexture
from ..pipelines.pipeline import Binding, Pipeline
from .arguments import LANGUAGE, arguments_for, parse_argument, parse_sizes

__all__ = [
    "KernelLaunch",
    "add_launch_options",
    "add_source_options",
    "chosen_kernel",
    "launch_from",
    "library_of",
    "said_as_options",
]


def add_launch_options(command: argparse.ArgumentParser) -> None:
    """Adds the options of `run`, `check` and `inspect` that describe a launch."""
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = LANGUAGE
    command.add_argument("--kernel", metavar="K", help="which kernel of the file; not needed where there is one")
    command.add_argument("--arg", action="append", default=[], metavar="NAME=VALUE", help="an argument; see below")
    command.add_argument("--threads", metavar="N", help="threads, such as 1024 or 64x64; by default those of an array")
    command.add_argument("--threadgroups", metavar="N", help="threadgroups, instead of --threads")
    command.add_argument("--group", metavar="N", help="threads of a threadgroup; by default as many as suit the kernel")
    command.add_argument(
        "--shared", action="append", default=[], type=int, metavar="BYTES", help="length of a threadgroup argument"
    )
    add_source_options(command)


def add_source_options(command: argparse.ArgumentParser) -> None:
    """Adds the options for compiling a file."""
    command.add_argument(
        "--constant", action="append", default=[], metavar="NAME=VALUE", help="value of a function constant"
    )
    command.add_argument(
        "--include",
        "-I",
        action="append",
        default=[],
        metavar="FOLDER",
        help="headers, beside the file's own folder",
    )


@contextmanager
def said_as_options() -> Iterator[None]:
    """Names arguments of Python as options of the command line, in messages."""
    try:
        yield
    except (InvalidArgument, MissingFileError) as problem:
        text = _KEYWORD.sub(lambda found: f"--{found[1]}" + " " * bool(found[2]), str(problem))
        if "function constant" in text:
            text += "; give them as --constant NAME=VALUE"
        raise type(problem)(text) from None


@dataclass
class KernelLaunch:
    """A kernel with its arguments and launch size."""

    kernel: Kernel
    pipeline: Pipeline
    values: list[Any]
    sizes: dict[str, Any]

    def run(self) -> Ticket:
        with said_as_options():
            return self.kernel(*self.values, **self.sizes)

    def results(self) -> dict[str, Any]:
        """The arguments that the kernel may have written, by name."""
        textures = [binding for binding in self.pipeline.textures if binding.kind == "texture"]
        pairs = zip((*self.pipeline.buffers, *textures), self.values, strict=False)  # samplers hold no results
        return {binding.name: _array(value) for binding, value in pairs if binding is not None and binding.writes}


def library_of(device: MlxDevice, file: str, chosen: argparse.Namespace) -> Library:
    """The kernels of a file, compiled with the command line's function constants and include folders."""
    given = [parse_argument(text, "--constant") for text in chosen.constant]
    values = {each.name: each.value(_NO_BINDING, device.empty) for each in given}
    with said_as_options():
        return device.compile(Path(file), constants=values, include=chosen.include)


def chosen_kernel(library: Library, name: str | None, file: str) -> Kernel:
    if name is not None:
        return library[name]
    if len(library) != 1:
        names = ", ".join(library) or "none"
        raise InvalidArgument(f"{file} has {len(library)} kernels, so --kernel must name one; there are: {names}")
    return library[next(iter(library))]


def launch_from(chosen: argparse.Namespace, kernel: Kernel, device: MlxDevice) -> KernelLaunch:
    """The launch described by the options; it has not run yet."""
    with said_as_options():
        pipeline = kernel.pipeline
    values = arguments_for(pipeline, [parse_argument(text) for text in chosen.arg], device, kernel.source)
    sizes = {
        name: parse_sizes(text, f"--{name}")
        for name in ("threads", "threadgroups", "group")
        if (text := getattr(chosen, name)) is not None
    }
    return KernelLaunch(kernel, pipeline, values, {**sizes, "shared": tuple(chosen.shared)})


_KEYWORD = re.compile(r"\b(threads|threadgroups|group|shared|include)=(?=([\w(])?)")
_NO_BINDING = Binding(0, "", "buffer", "read")


def _array(value: Any) -> Any:
    return (
        value.numpy() if isinstance(value, MlxTexture) else as_array(value.buffer if isinstance(value, Out) else value)
    )

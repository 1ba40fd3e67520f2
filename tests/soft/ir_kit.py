"""Short ways to get LLVM's text of kernels and functions, and to write it back, for the lanes engine's own tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

from mlx_native_py.pipelines.sources import kernel_source
from mlx_native_py.softmetal.engines.lanes.ir.model import IrFunction, Module
from mlx_native_py.softmetal.engines.lanes.ir.parse import parse_function, parse_module
from mlx_native_py.softmetal.engines.lanes.ir.text import render_function
from mlx_native_py.softmetal.msl import open_compiler, open_library
from mlx_native_py.softmetal.msl.build import BuildSpec
from mlx_native_py.softmetal.msl.lanes import LanesBuilder
from mlx_native_py.softmetal.program import SourceOptions
from mlx_native_py.softmetal.toolchain import find_toolchain

ROOT = Path(__file__).parents[2]
SOURCES = [*sorted((ROOT / "kernels").glob("*.metal")), ROOT / "mlx_native_py" / "bench" / "soft.metal"]
SCALAR = ("-O2", "-fno-vectorize", "-fno-slp-vectorize", "-S", "-emit-llvm")


def kernel_texts(path: Path, folder: Path, shape: tuple[int, int, int] = (64, 1, 1)) -> Iterator[str]:
    """Kernels of a file for one thread, as the pass gets them; of the shipped ones the first and the last."""
    shipped = path.parent.name == "kernels"
    library = open_library(kernel_source(path.stem) if shipped else path.read_text(), SourceOptions())
    names = [name for name, kernel in library.kernels.items() if not kernel.constants]
    for name in names if not shipped else dict.fromkeys(names[at] for at in (0, -1) if names):
        spec = BuildSpec(library._manifest, name, {}, False, "fast")
        yield LanesBuilder(spec, open_compiler(), "", 0)._scalar(shape, folder)


def function_text(source: str, folder: Path) -> str:
    """C++ as LLVM's text."""
    toolchain = find_toolchain()
    file, target = folder / "function.cpp", folder / "function.ll"
    file.write_text(source)
    flags = [*toolchain.target, "-fPIC", "-fmax-type-align=8", *SCALAR]
    toolchain.run([*toolchain.compiler, "-x", "c++", *flags, str(file), "-o", str(target)])
    return target.read_text()


def function_of(text: str, name: str = "f") -> IrFunction:
    return parse_function(parse_module(text), name)


def written(module: Module, functions: list[IrFunction]) -> str:
    """The module with these functions in place of its own."""
    mine = {function.name for function in functions}
    called = {i.callee: i for f in functions for i in f.instructions() if i.callee and i.callee not in module.functions}
    parts = [module.header, *module.globals.values()]
    parts[1:1] = [f"{name} = type {type(s)(s.fields, s.packed)}" for name, s in module.types.items()]
    parts += [f.text for f in module.functions.values() if f.name not in mine]
    parts += [f"declare {i.type} @{name}({', '.join(str(o.type) for o in i.operands)})" for name, i in called.items()]
    parts += [render_function(function) for function in functions]
    parts += [f"attributes {name} = {{ {words} }}" for name, words in module.attributes.items()]
    return "\n".join(line.partition(", !")[0] for part in parts for line in part.splitlines()) + "\n"


def verified(text: str, folder: Path, name: str = "module") -> Path:
    """An object file; clang verifies the text first."""
    toolchain = find_toolchain()
    source, target = folder / f"{name}.ll", folder / f"{name}.o"
    source.write_text(text)
    flags = [*toolchain.target, "-O1", "-fPIC", "-Wno-override-module", "-fverify-intermediate-code"]
    toolchain.run([*toolchain.compiler, *flags, "-x", "ir", "-c", str(source), "-o", str(target)])
    return target


def assembled(text: str, folder: Path, name: str) -> Path:
    """A shared object."""
    linked = folder / f"{name}.so"
    toolchain = find_toolchain()
    toolchain.run(toolchain.link([verified(text, folder, name)], linked))
    return linked


def called(library: Path, name: str, given: bytes, room: int) -> bytes:
    """What the C function `name(const void *in, void *out)` writes."""
    run: Callable[..., None] = getattr(ctypes.CDLL(str(library)), name)
    out = ctypes.create_string_buffer(room)
    run(ctypes.create_string_buffer(given, len(given)), out)
    return out.raw

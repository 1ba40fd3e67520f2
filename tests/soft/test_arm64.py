"""The runtime and kernels compiled for ARM64 Linux; tests/arm64.sh runs them, under emulation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mlx_native_py.softmetal.engines.runtime import Part, build_library
from mlx_native_py.softmetal.msl import image
from mlx_native_py.softmetal.system import System
from mlx_native_py.softmetal.toolchain import Toolchain, zig_toolchain

from .header_tables import LAYOUTS

DIVIDE = """#include "soft.h"
static void k(__global int* out, uint i) { out[i] /= out[i + 1]; }
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))"""
BRK_DIVISION = (0xD4200000 | 0x5503 << 5).to_bytes(4, "little")
# Of the compiler's own library, which is not linked: the C library has none of them.
COMPILERS_OWN = ("__clear_cache", "__aarch64_", "__addtf", "__multf", "__popcount", "__udiv", "__div")


@pytest.fixture(scope="module")
def arm64() -> Toolchain:
    return replace(zig_toolchain(System("linux", "aarch64")), cpu="cortex-a76")


def imports(data: bytes) -> set[str]:
    """What a shared object takes from others."""
    sections = image.sections_of(data)
    (table,) = [section for section in sections if section.kind == image._DYNSYM]
    strings, found = sections[table.link].offset, set()
    for offset in range(table.offset + image._SYMBOL.size, table.offset + table.size, image._SYMBOL.size):
        name, _, _, home, _, _ = image._SYMBOL.unpack_from(data, offset)
        if home == 0:
            found.add(image._text(data, strings + name))
    return found


@pytest.mark.parametrize(
    ("part", "wanted"),
    [("runtime", {"mmap", "syscall", "__register_atfork"}), ("checker", {"mmap", "dladdr", "_ZN4soft7checkerE"})],
)
def test_libraries_take_nothing_but_the_c_library(
    arm64: Toolchain, tmp_path: Path, part: Part, wanted: set[str]
) -> None:
    needed = imports(build_library(arm64, tmp_path, part).read_bytes())
    assert wanted <= needed
    assert not [name for name in needed if name.startswith(COMPILERS_OWN)]


def test_layouts(arm64: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "layouts.clcpp"
    lines = [f"static_assert(sizeof({n}) == {s} && alignof({n}) == {a});" for n, s, a in LAYOUTS]
    source.write_text("\n".join(['#include "soft.h"', "using namespace metal;", *lines]))
    arm64.run(arm64.check_syntax(source, [*arm64.dialect(), *arm64.engine_flags("fibers")]))


def test_a_division_stops_at_zero(arm64: Toolchain, tmp_path: Path) -> None:
    source = tmp_path / "k.clcpp"
    source.write_text(DIVIDE)
    compiled = arm64.compile_kernel(source, tmp_path / "k.o", "flat")
    assert BRK_DIVISION in compiled.path.read_bytes()

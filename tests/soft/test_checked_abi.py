"""The Python mirror of soft_check.h agrees with the compiler's view of it."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from mlx_native_py.softmetal.checked import abi
from mlx_native_py.softmetal.toolchain import INCLUDE, find_toolchain


def test_layouts_agree(tmp_path: Path) -> None:
    lines = [f'#include "{INCLUDE / "soft_check.h"}"']
    for name, mirror in abi.STRUCTURES.items():
        lines.append(f'static_assert(sizeof({name}) == {ctypes.sizeof(mirror)}, "size of {name}");')
        for field, *_ in mirror._fields_:
            offset = getattr(mirror, field).offset
            lines.append(f'static_assert(__builtin_offsetof({name}, {field}) == {offset}, "{name}.{field}");')
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join(lines))
    toolchain = find_toolchain()
    toolchain.run([*toolchain.compiler, "-x", "c++", "-std=c++17", "-fsyntax-only", str(source)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SOFT_READ", abi.READ),
        ("SOFT_WRITE", abi.WRITE),
        ("SOFT_ATOMIC", abi.ATOMIC),
        ("SOFT_DEVICE", abi.DEVICE),
        ("SOFT_THREADGROUP", abi.THREADGROUP),
        ("SOFT_OUT_OF_BOUNDS", abi.OUT_OF_BOUNDS),
        ("SOFT_RACE_IN_GROUP", abi.RACE_IN_GROUP),
        ("SOFT_RACE_BETWEEN_GROUPS", abi.RACE_BETWEEN_GROUPS),
        ("SOFT_BLOCK", abi.BLOCK),
    ],
)
def test_constants_agree(name: str, value: int) -> None:
    assert f"{name} = {value}" in (INCLUDE / "soft_check.h").read_text()

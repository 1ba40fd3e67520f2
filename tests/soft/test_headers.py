"""The headers of types and functions by themselves: layouts, constant results, and what they accept and refuse."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mlx_native_py.softmetal.toolchain import INCLUDE, CompilerFailed, Toolchain, find_toolchain

from .builtin_object_tables import OBJECTS
from .builtin_tables import FAMILIES, Family
from .header_tables import ACCEPTED, LAYOUTS, REFUSED, TRUE


class Checker:
    """Compiles snippets against the precompiled headers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.toolchain: Toolchain = find_toolchain()
        self.options = [*self.toolchain.dialect(), *self.toolchain.engine_flags("fibers")]
        self.header = folder / "soft.pch"
        self.toolchain.run(self.toolchain.precompile(INCLUDE / "soft.h", self.header, self.options))

    def check(self, text: str, *more: str) -> None:
        """Raises CompilerFailed with the compiler's words."""
        source = self.folder / "snippet.clcpp"
        # Textures are included by the sources that name them.
        source.write_text(f'#include "soft_texture.h"\nusing namespace metal;\n{text}\n')
        options = [*self.options, "-include-pch", str(self.header), *more]
        self.toolchain.run(self.toolchain.check_syntax(source, options))


@pytest.fixture(scope="module")
def checker(tmp_path_factory: pytest.TempPathFactory) -> Checker:
    return Checker(tmp_path_factory.mktemp("headers"))


def test_layouts(checker: Checker) -> None:
    checker.check(
        "\n".join(
            f"static_assert(sizeof({name}) == {size} && alignof({name}) == {alignment});"
            for name, size, alignment in LAYOUTS
        )
    )


def test_types_are_trivial(checker: Checker) -> None:
    names = [name for name, _, _ in LAYOUTS if "x" not in name]
    checker.check(
        "\n".join(f"static_assert(is_trivial_v<{name}> && is_trivially_copyable_v<{name}>);" for name in names)
    )


@pytest.mark.parametrize("topic", TRUE)
def test_constant_results(checker: Checker, topic: str) -> None:
    checker.check("\n".join(f"static_assert({expression});" for expression in TRUE[topic]))


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(checker: Checker, name: str) -> None:
    checker.check(ACCEPTED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_refused(checker: Checker, name: str) -> None:
    text, message = REFUSED[name]
    with pytest.raises(CompilerFailed, match=message):
        checker.check(text)


@pytest.mark.parametrize("family", (*FAMILIES, *OBJECTS), ids=lambda family: family.name)
def test_builtin_accepted(checker: Checker, family: Family) -> None:
    checker.check("\n".join(f"static_assert(is_same_v<decltype({call}), {kind}>);" for call, kind in family.accepted))


@pytest.mark.parametrize("family", (*FAMILIES, *OBJECTS), ids=lambda family: family.name)
def test_builtin_refused(checker: Checker, family: Family) -> None:
    text = "\n".join(f"void refused_{row}() {{ (void)({call}); }}" for row, call in enumerate(family.refused))
    with pytest.raises(CompilerFailed) as failure:
        checker.check(text, "-ferror-limit=0")
    place = r"snippet\.clcpp:(\d+):\d+: (?:error:|note: in instantiation)"
    lines = {int(line) for line in re.findall(place, failure.value.output)}
    # The first lines of the snippet are the checker's own.
    assert [call for row, call in enumerate(family.refused) if row + 3 not in lines] == []


def test_cost_of_the_headers(checker: Checker, tmp_path: Path) -> None:
    source = tmp_path / "small.clcpp"
    source.write_text('extern "C" void k(__global float *p, uint3 n) { p[n.x] += 1; }\n')
    options = [*checker.options, "-include-pch", str(checker.header)]
    command = checker.toolchain.compile(source, tmp_path / "small.o", options)
    before = os.times()
    checker.toolchain.run(command)
    after = os.times()
    # An order of magnitude, of the processor's time: machines that run tests are often busy.
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.6

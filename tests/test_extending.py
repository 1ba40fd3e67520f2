"""The recipe of docs/extending.md for a new op, followed step by step in a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text()
STEPS = re.findall(r"^\*\*\d\.[^`]*`([\w/.]+)`.*?\n```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^\*\*5\..*?```\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0].splitlines()


def follow(tree: Path) -> None:
    """Does what the four steps say: three blocks at the end of their files, one in a list, a name in `__all__`."""
    assert [path.split("/")[0] for path, _ in STEPS[:4]] == ["kernels", "mlx_native_py", "tests", "tests"]
    for path, block in STEPS[:3]:
        with (tree / path).open("a") as file:
            file.write("\n\n" + block)
    family = tree / STEPS[1][0]
    family.write_text(family.read_text().replace('    "log",\n', '    "leaky_relu",\n    "log",\n', 1))
    rows = tree / STEPS[3][0]
    head, opening, rest = rows.read_text().partition("ROWS = [\n")
    rows.write_text(f"{head}{opening}    {STEPS[3][1].strip()},\n{rest}")


def run(tree: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=500)


@pytest.mark.soft
def test_the_recipe_adds_an_op(tmp_path: Path) -> None:
    for part in ("mlx_native_py", "kernels", "tests", "docs", "pyproject.toml", "README.md"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, tmp_path / part)
    follow(tmp_path)
    for command in COMMANDS[:2]:
        program, _, target = command.removeprefix("mlx-native ").partition(" > ")
        printed = run(tmp_path, sys.executable, "-m", "mlx_native_py", *program.split())
        assert "leaky_relu" in printed.stdout, printed.stderr
        (tmp_path / target).write_text(printed.stdout)
    arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', COMMANDS[2])]
    tested = run(tmp_path, sys.executable, "-m", *arguments, "-v", "--metal=skip", "-p", "no:cacheprovider")
    assert tested.returncode == 0, tested.stdout
    for test in ("test_case[leaky_relu-f32", "test_row[soft-leaky_relu", "the_stub_is", "the_page_is"):
        assert test in tested.stdout, tested.stdout

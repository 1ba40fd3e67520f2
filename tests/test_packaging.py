"""The wheel: pure, complete and typed; and the README's commands are the ones that CI runs."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import mlx_native_py
from mlx_native_py.pipelines.sources import kernel_directory, kernel_source

ROOT = Path(__file__).parent.parent
DATA = (".metal", ".h", ".cpp", ".clcpp")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(folder.iterdir())


def test_wheel_is_pure(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [n for n in names if n.endswith((".so", ".dylib", ".pyd", ".o", ".pch"))]


def test_wheel_has_everything(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {p.relative_to(ROOT).as_posix() for p in (ROOT / "mlx_native_py").rglob("*") if p.is_file()}
    wanted = {p for p in package if "__pycache__" not in p}
    wanted |= {f"mlx_native_py/kernels/{p.name}" for p in (ROOT / "kernels").glob("*.metal")}
    assert wanted <= names
    assert "mlx_native_py/py.typed" in names
    assert {Path(n).suffix for n in names} & set(DATA) >= {".metal", ".h"}


def test_wheel_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    [metadata] = [archive.read(n).decode() for n in archive.namelist() if n.endswith("METADATA")]
    assert "Requires-Python: >=3.11" in metadata
    for wanted in ("ziglang", "pyobjc-framework-metal", "pyobjc-core"):
        assert re.search(rf"Requires-Dist: {wanted}.*; sys_platform", metadata, re.IGNORECASE)
    assert {"models", "cli", "test", "bench"} <= set(re.findall(r"Provides-Extra: (\w+)", metadata))
    [entry] = [archive.read(n).decode() for n in archive.namelist() if n.endswith("entry_points.txt")]
    assert "mlx-native = mlx_native_py.cli.main:main" in entry


def test_the_readme_of_an_index_has_no_dead_links(wheel: Path) -> None:
    """Links to files are their text alone until the project has an address; then they are absolute."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("dist-info/METADATA"))
        text = archive.read(name).decode()
    assert "Description-Content-Type: text/markdown" in text and "mlx-native generate" in text
    assert not re.findall(r"\]\((?!https?:|#)", text)


def test_kernels_are_found_here() -> None:
    assert (kernel_directory() / "self_check.metal").is_file()
    assert "kernel void self_check" in kernel_source("self_check")
    with pytest.raises(FileNotFoundError, match="no kernel family 'nothing'; there are: .*self_check"):
        kernel_source("nothing")


def test_readme_has_its_two_commands() -> None:
    readme = (ROOT / "README.md").read_text()
    commands = dict(re.findall(r"<!-- (\w+)-command -->\n```sh\n(.+)\n```", readme))
    assert commands.keys() == {"run", "test"}
    assert "pip install ." in commands["run"] and "examples/hello_kernel.py" in commands["run"]
    assert "pip install -e '.[test]'" in commands["test"] and commands["test"].endswith("pytest -n auto")
    assert commands["run"] in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_the_changelog_has_this_version() -> None:
    versions = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert versions[0] == "Unreleased" and mlx_native_py.__version__ in versions

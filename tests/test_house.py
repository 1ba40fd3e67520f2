"""Every file keeps the rules of the house, and every rule bites."""

from __future__ import annotations

import ast
import importlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import house
import pytest

import mlx_native_py

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mlx_native_py"
SUFFIXES = (".py", ".h", ".cpp", ".metal")


def faults(path: Path, text: str) -> Iterator[str]:
    is_test = path.is_relative_to(ROOT / "tests")
    yield from house.size_faults(text, path.suffix, longest=60 if is_test else 40)
    if is_test:
        return
    yield from house.history_faults(text, path.suffix)
    if path.suffix == ".py":
        tree = house.parse(text)
        yield from house.docstring_faults(tree)
        yield from house.export_faults(tree)
        if path.is_relative_to(PACKAGE):
            yield from house.layer_faults(tree, path, PACKAGE)
            yield from house.bridge_faults(tree, path, PACKAGE)


@pytest.mark.parametrize("folder", ["mlx_native_py", "kernels", "tests", "examples"])
def test_house(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    found = {path.relative_to(ROOT).as_posix(): list(faults(path, path.read_text())) for path in sorted(paths)}
    assert found and {path: complaints for path, complaints in found.items() if complaints} == {}


@pytest.mark.parametrize(
    ("where", "text", "complaint"),
    [
        ("settings.py", "from .metal import open_metal", "settings imports metal"),
        ("metal/x.py", "from ..device import y", "metal imports device"),
        ("metal/x.py", "from .. import cli", "metal imports cli"),
        ("ops/x.py", "import mlx_native_py.bench", "ops imports bench"),
        ("softmetal/x.py", "from .. import settings", "nothing of ours but errors"),
        ("softmetal/objects/x.py", "def f():\n    from ...settings import current", "nothing of ours but errors"),
        ("novel.py", "", "novel has no layer"),
        ("metal/x.py", "import Metal", "imports Metal"),
        ("cli/x.py", "from objc import NULL", "imports objc"),
        ("cli/x.py", "import os\nos.environ['X']", "touches the environment"),
        ("cli/x.py", "import os\nos.getenv('X')", "touches the environment"),
        ("memory/x.py", "import threading\nlock = threading.RLock()", "forked child"),
        ("ops/x.py", "def f(e): e.setBuffer_offset_atIndex_(1, 2, 3)", "sends setBuffer_offset_atIndex_"),
        ("cli/x.py", "# done in phase 3", "says 'phase 3'"),
        ("cli/x.py", "# as of 2026-04-26", "says '2026-04'"),
        ("cli/x.py", '"""See /home/me/x."""', "says '/home/'"),
        ("cli/x.py", "x = 1  # TODO later", "says 'TODO'"),
        ("cli/x.py", "\n" * 401, "401 lines"),
        ("cli/x.py", "def f():\n" + "    x = 1\n" * 40, "f has 41 lines"),
        ("cli/x.py", "__all__ = ['b', 'a']", "not sorted"),
        ("cli/x.py", "__all__ = []\ndef f(): ...", "lacks ['f']"),
        ("cli/x.py", "x = 1", "no module docstring"),
        ("softmetal/include/x.h", "// ADR-015 says so", "says 'ADR-01"),
        ("softmetal/include/x.h", "/* fixed\n in iter37 */", "says 'iter3'"),
    ],
)
def test_rules_bite(where: str, text: str, complaint: str) -> None:
    problems = list(faults(PACKAGE / where, text))
    assert any(complaint[:-1] in fault for fault in problems), problems


def test_rules_leave_good_code_alone() -> None:
    text = '"""Says hello."""\n\nfrom ..errors import MlxError\n\n# Why.\n__all__ = ["f"]\n\n\ndef f(): ...\n'
    assert list(faults(PACKAGE / "metal" / "x.py", text)) == []


def test_class_names_are_unique() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in PACKAGE.rglob("*.py")}
    assert list(house.repeated_classes(texts)) == []
    twice = {"a.py": "class A: ...", "b.py": "def f():\n    class A: ..."}
    assert list(house.repeated_classes(twice)) == ["A is defined at a.py:1, b.py:2"]


def test_no_knot_of_imports_has_more_than_three_modules() -> None:
    files = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    del modules[PACKAGE.name]  # it only names what the others have
    imports = {
        name: house.modules_imported(name, path.read_text(), modules, package=path.stem == "__init__")
        for name, path in modules.items()
    }
    assert [sorted(knot) for knot in house.knots(imports) if len(knot) > 3] == []
    ring = {"p.a": "from .b import x", "p.b": "def f():\n    from . import c", "p.c": "from .a import y"}
    assert house.knots({n: house.modules_imported(n, t, ring, package=False) for n, t in ring.items()}) == [set(ring)]


def test_public_names_are_complete_and_sorted() -> None:
    listed = mlx_native_py.__all__
    assert listed == sorted(listed)
    assert all(hasattr(mlx_native_py, name) for name in listed)
    exported = {
        alias.asname or alias.name
        for block in ast.parse((PACKAGE / "__init__.py").read_text()).body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert exported == set(listed) == {*mlx_native_py._MODULES, *mlx_native_py._HOMES}
    assert set(listed) <= set(dir(mlx_native_py))


def test_no_public_name_is_hidden_by_a_module_of_that_name() -> None:
    """A submodule that is imported becomes an attribute of the package, in place of what `__getattr__` would find."""
    assert not [name for name in mlx_native_py._HOMES if (PACKAGE / name).exists() or (PACKAGE / f"{name}.py").exists()]


def modules() -> list[str]:
    """Every module outside software Metal that can be imported anywhere."""
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in sorted(PACKAGE.rglob("*.py")))
    names = [".".join(path.parts) for path in paths if path.parts[0] != "softmetal" and path.stem != "__init__"]
    return [name for name in names if name not in ("__main__", "metal.pyobjc")]


def test_exports_exist() -> None:
    for name in modules():
        module = importlib.import_module(f"mlx_native_py.{name}")
        assert [public for public in getattr(module, "__all__", ()) if not hasattr(module, public)] == [], name


def test_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 150


def test_nothing_lies_about() -> None:
    """The top level is what the project is made of; a program's output has no place there."""
    known = {"docs", "examples", "kernels", "mlx_native_py", "tests", "mkdocs.yml", "pyproject.toml", "hatch_build.py"}
    documents = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    top = {name.split("/")[0] for name in tracked.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= known | documents

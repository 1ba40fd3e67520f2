"""Software Metal in layers: objects reach for nobody's private names, and no knot of imports is hidden by lazy ones."""

from __future__ import annotations

import ast
from pathlib import Path

from mlx_native_py import softmetal

ROOT = Path(softmetal.__file__).parent
LARGEST_CYCLE = 3


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix("__init__").rstrip("."): path
        for path in ROOT.rglob("*.py")
    }


def imports(name: str, path: Path, known: dict[str, Path]) -> set[str]:
    """What a module imports of software Metal, wherever in the file."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    result = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level and node.level <= len(package) + 1:
            base = [*package[: len(package) - node.level + 1], *(node.module or "").split(".")]
            stem = ".".join(part for part in base if part)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlx_native_py.softmetal"):
            stem = (node.module or "").removeprefix("mlx_native_py.softmetal").lstrip(".")
        else:
            continue
        targets = {f"{stem}.{alias.name}".lstrip(".") for alias in node.names}
        result |= {target if target in known else stem for target in targets}
    return result & known.keys() - {name}


def reachable(start: str, graph: dict[str, set[str]]) -> set[str]:
    result: set[str] = set()
    todo = [start]
    while todo:
        for target in graph[todo.pop()] - result:
            result.add(target)
            todo.append(target)
    return result


def test_no_import_cycle_has_more_than_three_modules() -> None:
    known = modules()
    graph = {name: imports(name, path, known) for name, path in known.items()}
    assert len(graph["objects.device"]) > 10
    reach = {name: reachable(name, graph) for name in graph}
    cycles = {frozenset(other for other in reach[name] if name in reach[other]) for name in graph}
    assert [sorted(cycle) for cycle in cycles if len(cycle) > LARGEST_CYCLE] == []


def test_objects_reach_for_nobodys_private_names() -> None:
    result = []
    for folder in ("objects", "execution"):
        for path in sorted((ROOT / folder).glob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
                    continue
                if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                    result.append(f"{path.name}:{node.lineno} {ast.unparse(node)}")
    assert result == []

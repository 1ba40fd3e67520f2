"""The rules of the house, as functions from source text to complaints."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Container, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from mlx_native_py.metal.contract import CONTRACT

# Top to bottom: a module imports only from members above its own; inside a package the modules are free.
# A dotted name is one module of a package with a place of its own.
LAYERS = (
    "errors",
    "forks",
    "json_fields",
    "settings",
    "compat",
    "counters",
    "table",
    "dtypes",
    "softmetal",
    "metal",
    "profiling.kernel_profile",
    "profiling.observer",
    "profiling.regions",
    "hazards",
    "memory",
    "pipelines",
    "encoder",
    "profiling",
    "graph",
    "calls.measuring",
    "calls.inspection",
    "calls.staging",
    "calls.library",
    "device",
    "shared_device",
    "calls",
    "distributed",
    "notebook",
    "weights",
    "ops",
    "fn",
    "models",
    "parallel",
    "report",
    "testing",
    "bench",
    "cli",
    "__main__",
)
RANK = {name: rank for rank, name in enumerate(LAYERS)}
WITHOUT_SELECTORS = ("counters", "dtypes", "hazards", "ops", "fn", "weights", "models", "parallel", "report")
# Devices refuse forked children before they take a lock; the worker hands its one from thread to thread.
WITH_LOCKS = ("forks.py", "softmetal/", "parallel/worker_thread.py")
SELECTORS = {s.python_name for s in CONTRACT if "_" in s.python_name}

HISTORY = re.compile(
    r"\b(?:iter|iteration|phase|wave|adr|ticket|issue|sprint)[ #-]?\d|#\d{2,}"
    r"|\b20\d\d-\d\d\b|/(?:home|Users|opt|tmp|work|root)/|\b(?:TODO|FIXME|XXX|HACK)\b|\bused to be\b",
    re.IGNORECASE,
)


parse = lru_cache(maxsize=8)(ast.parse)
"""The rules look at one file after the other."""


def member_of(dotted: str) -> str:
    """The layer member that a module belongs to: the longest listed prefix of its dotted name."""
    parts = dotted.split(".")
    prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((prefix for prefix in prefixes if prefix in RANK), parts[0])


def module_of(path: Path, package: Path) -> str:
    """The layer member that a file belongs to; empty for the package's own `__init__`."""
    parts = path.relative_to(package).with_suffix("").parts
    return member_of(".".join(parts).removesuffix(".__init__")) if parts != ("__init__",) else ""


def imported(tree: ast.AST, path: Path, package: Path) -> Iterator[str]:
    """The layer members that a module imports, wherever in the file: at the top, in a function, for types alone."""
    parents = path.relative_to(package.parent).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(parents[: len(parents) - node.level + 1]) if node.level else []
            stem = ".".join(base + ([node.module] if node.module else []))
            names = [f"{stem}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            if first == package.name and rest and rest != "__version__":
                yield member_of(rest)


def layer_faults(tree: ast.AST, path: Path, package: Path) -> Iterator[str]:
    name = module_of(path, package)
    if not name:
        return
    if name not in RANK:
        yield f"{name} has no layer: give it one in tests/house.py"
        return
    for target in sorted(set(imported(tree, path, package))):
        if target == name:
            continue
        if name == "softmetal" and target != "errors":
            yield f"softmetal imports {target}, but may import nothing of ours but errors"
        elif target not in RANK or RANK[target] > RANK[name]:
            yield f"{name} imports {target}, which is not above it"


def bridge_faults(tree: ast.AST, path: Path, package: Path) -> Iterator[str]:
    """`Metal` and `objc` come in through one file, the environment through another, locks through a third."""
    where = path.relative_to(package).as_posix()
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in names:
            if name.split(".")[0] in ("Metal", "objc", "Foundation", "AppKit") and where != "metal/pyobjc.py":
                yield f"line {node.lineno} imports {name}"  # type: ignore[attr-defined]
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "putenv") and where != "settings.py":
            yield f"line {node.lineno} touches the environment"
        if isinstance(node, ast.Attribute) and node.attr in ("Lock", "RLock") and not where.startswith(WITH_LOCKS):
            yield f"line {node.lineno} makes a lock that a forked child would wait for; take forks.Lock"
        if isinstance(node, ast.Attribute) and node.attr in SELECTORS and module_of(path, package) in WITHOUT_SELECTORS:
            yield f"line {node.lineno} sends {node.attr}"


def remarks(text: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Comments and docstrings, with their lines."""
    if suffix != ".py":
        for match in re.finditer(r"//[^\n]*|/\*.*?\*/", text, re.DOTALL):
            yield text.count("\n", 0, match.start()) + 1, match.group()
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def history_faults(text: str, suffix: str) -> Iterator[str]:
    if not HISTORY.search(text):
        return
    for line, remark in remarks(text, suffix):
        if match := HISTORY.search(remark):
            yield f"line {line} says {match.group()!r}"


def size_faults(text: str, suffix: str, longest: int) -> Iterator[str]:
    if (lines := text.count("\n")) > 400:
        yield f"{lines} lines, more than 400"
    for node in ast.walk(parse(text)) if suffix == ".py" else ():
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > longest:
                yield f"{node.name} has {length} lines, more than {longest}"


def export_faults(tree: ast.Module) -> Iterator[str]:
    """Where a module has `__all__`, it is sorted and names every public class and function of the module."""
    listed: list[str] | None = None
    public = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and [getattr(t, "id", "") for t in node.targets] == ["__all__"]:
            if not isinstance(node.value, ast.List):
                return  # derived from what it would repeat
            listed = ast.literal_eval(node.value)
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            public.add(node.name)
    if listed is None:
        return
    if listed != sorted(listed):
        yield f"__all__ is not sorted: {listed}"
    if missing := public - set(listed):
        yield f"__all__ lacks {sorted(missing)}"


def docstring_faults(tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield "no module docstring"


def repeated_classes(texts: dict[str, str]) -> Iterator[str]:
    """Classes of one name in several places: a reader who searches for one would find the other."""
    places: dict[str, list[str]] = {}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    for name, where in sorted(places.items()):
        if len(where) > 1:
            yield f"{name} is defined at {', '.join(where)}"


def modules_imported(name: str, text: str, modules: Container[str], *, package: bool) -> set[str]:
    """The modules of ours that a module imports anywhere: at its top, inside of functions, or for types alone."""
    base = name.split(".") if package else name.split(".")[:-1]
    targets = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            home = ".".join([*base[: len(base) - node.level + 1], *filter(None, [node.module])])
            targets |= {f"{home}.{each.name}" if f"{home}.{each.name}" in modules else home for each in node.names}
    return {target for target in targets if target in modules}


def knots(imports: Mapping[str, set[str]]) -> list[set[str]]:
    """The modules that lead back to each other by imports, in groups."""
    reached = {name: set(targets) for name, targets in imports.items()}
    for middle in imports:
        for targets in reached.values():
            if middle in targets:
                targets |= reached[middle]
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in imports}
    return [set(group) for group in groups if len(group) > 1]

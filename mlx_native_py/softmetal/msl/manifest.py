"""Library manifests: what is cached of a translated source, enough to list its kernels and to emit each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from ..data_types import DataType
from ..program import Constant, Diagnostic, KernelArgument
from .closure import reach
from .emit import Piece, pieces
from .kernels import Entry
from .resources import names_textures
from .translate import Translation


@dataclass(frozen=True)
class ParameterItem:
    """One parameter: a bindable argument or built-in value, optionally enabled by a function constant."""

    macro: str
    argument: KernelArgument | None
    condition: str | None


@dataclass(frozen=True)
class Function:
    """A kernel function, shared by all its entries."""

    name: str
    items: tuple[ParameterItem, ...]
    max_threads: int | None
    max_threads_name: str | None


@dataclass(frozen=True)
class Bound:
    """A function constant and the number of its macro."""

    number: int
    constant: Constant
    type: DataType


@dataclass(frozen=True)
class LibraryManifest:
    """Kernels, constants and text of a library, as stored in the cache."""

    pieces: tuple[Piece, ...]
    uses: dict[str, list[str]]
    waiting: frozenset[str]
    common: tuple[str, ...]
    functions: tuple[Function, ...]
    entries: dict[str, Entry]
    constants: dict[str, Bound]
    initialisers: dict[str, list[str]]
    warnings: tuple[Diagnostic, ...]
    closure: dict[str, str]
    textures: bool = False  # whether the source names textures or samplers
    _reached: dict[tuple[str, ...], set[str]] = field(default_factory=dict)

    def reached(self, entry: str) -> set[str]:
        """The names that an entry's kernel comes by."""
        called = self.entries[entry]
        start = (self.functions[called.function].name.rpartition("::")[2], *called.roots)
        if start not in self._reached:
            self._reached[start] = reach(self.uses, start)
        return self._reached[start]

    def is_called(self, name: str) -> bool:
        """Whether some kernel comes by this name; those of operators are not followed."""
        return not name.isidentifier() or any(name in self.reached(entry) for entry in self.entries)

    @cached_property
    def always(self) -> set[str]:
        """The names that the common text comes by."""
        return reach(self.uses, self.common)

    def to_json(self) -> bytes:
        """As bytes; texts of instantiations are left out, no kernel needs them."""
        kept = [(p.kind, p.owner, p.text) for p in self.pieces if p.kind != "instantiation"]
        data = {
            "pieces": kept,
            "uses": self.uses,
            "waiting": sorted(self.waiting),
            "common": self.common,
            "functions": [asdict(function) for function in self.functions],
            "entries": [vars(entry) for entry in self.entries.values()],
            "constants": [(b.number, asdict(b.constant), b.type) for b in self.constants.values()],
            "initialisers": self.initialisers,
            "warnings": [asdict(warning) for warning in self.warnings],
            "closure": self.closure,
            "textures": self.textures,
        }
        return json.dumps(data, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, body: bytes) -> LibraryManifest:
        """The inverse of `to_json`."""
        data = json.loads(body)
        bounds = [Bound(number, Constant(**constant), DataType(*kind)) for number, constant, kind in data["constants"]]
        return cls(
            pieces=tuple(Piece(*piece) for piece in data["pieces"]),
            uses=data["uses"],
            waiting=frozenset(data["waiting"]),
            common=tuple(data["common"]),
            functions=tuple(_function(function) for function in data["functions"]),
            entries={entry["host_name"]: _entry(entry) for entry in data["entries"]},
            constants={bound.constant.name: bound for bound in bounds},
            initialisers=data["initialisers"],
            warnings=tuple(Diagnostic(**warning) for warning in data["warnings"]),
            closure=data["closure"],
            textures=data["textures"],
        )


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(**{**data, "roots": tuple(data["roots"])})


def _function(data: dict[str, Any]) -> Function:
    items = tuple(
        ParameterItem(
            item["macro"], KernelArgument(**item["argument"]) if item["argument"] else None, item["condition"]
        )
        for item in data["items"]
    )
    return Function(data["name"], items, data["max_threads"], data["max_threads_name"])


def make_manifest(
    translation: Translation, closure: dict[str, str], warnings: tuple[Diagnostic, ...]
) -> LibraryManifest:
    """The manifest of a translated source."""
    text = translation.unit.tokens.text
    functions = []
    for function in translation.functions:
        items = tuple(
            ParameterItem(p.item(on=True), p.argument, text[p.condition] if p.condition >= 0 else None)
            for p in function.parameters
        )
        functions.append(Function(function.name, items, function.max_threads, function.max_threads_name))
    values = translation.values
    bounds = {name: Bound(c.number, c.constant, c.type) for name, c in values.function_constants.items()}
    conditions = {item.condition for function in functions for item in function.items if item.condition}
    return LibraryManifest(
        pieces=tuple(pieces(translation.unit, list(translation.segments))),
        uses=translation.graph.uses,
        waiting=frozenset(translation.graph.waiting),
        common=tuple(translation.graph.common),
        functions=tuple(functions),
        entries=translation.entries,
        constants=bounds,
        initialisers=_needed(conditions, values.initialisers),
        warnings=(*translation.unit.warnings, *warnings),
        closure=closure,
        textures=names_textures(translation.unit.tokens),
    )


def _needed(names: set[str], initialisers: dict[str, list[str]]) -> dict[str, list[str]]:
    """The initialisers that some condition depends on, each behind those that it depends on itself."""
    needed: dict[str, list[str]] = {}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo[-1]
        if name in seen or name not in initialisers:
            todo.pop()
            if name in seen:
                needed.setdefault(name, initialisers[name])
        else:
            seen.add(name)
            todo += [word for word in initialisers[name] if word not in seen]
    return needed

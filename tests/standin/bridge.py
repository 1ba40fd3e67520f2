"""PyObjC's side of the stand-in: registered metadata, autorelease pools and the selector table."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from mlx_native_py import softmetal
from mlx_native_py.softmetal.program import EngineChoice

from .profiles import PLAIN, Profile

TABLE = Path(__file__).parent.parent / "data" / "pyobjc-selectors.json"


@dataclass(frozen=True)
class Row:
    """One selector as PyObjC would treat it."""

    owner: str
    selector: str
    arguments: tuple[str, ...]
    lengths: dict[int, int]
    result: str
    introduced: tuple[int, ...] = ()  # the macOS that it came with
    owned: bool = False  # PyObjC knows that the caller owns the result
    memory: bool = False  # PyObjC knows that the pointer that comes back is one to memory

    @property
    def makes_new(self) -> bool:
        return self.selector.startswith("new")


def load_rows() -> list[Row]:
    """The table as shipped with PyObjC: without our corrections, native types where PyObjC lets them win."""
    rows = []
    for entry in json.loads(TABLE.read_text()):
        native = entry.get("header_args", entry["args"])
        arguments = tuple(n if n.startswith("{") else a for a, n in zip(entry["args"], native, strict=True))
        lengths = {int(k): v for k, v in entry.get("array_length_in_arg", {}).items()}
        introduced = tuple(int(part) for part in (entry.get("introduced") or "0").split("."))
        memory = entry.get("retval_varlen", False)
        rows.append(
            Row(entry["owner"], entry["selector"], arguments, lengths, entry["retval"], introduced, memory=memory)
        )
    return rows


class Bridge:
    """The state of one stand-in for PyObjC."""

    NULL = object()

    def __init__(self, profile: Profile = PLAIN, *, has_device: bool = True, engine: EngineChoice = "flat") -> None:
        self.profile = profile
        # What a Mac does to kernels is no matter of engines: it takes the builds of the software device as they are.
        options = softmetal.SoftOptions(capture_enabled=True, engine=engine)
        self.device = softmetal.open_device(options, profile.device) if has_device else None
        self.leaked: list[Any] = []
        """What nobody can give back any more: new objects whose owner PyObjC was not told of."""
        self.registered: dict[bytes, dict[str, Any]] = {}
        self.sent: list[str] = []
        self.loose = 0  # autoreleased objects made where no pool would ever drain them
        self._classes: dict[str, tuple[int, ...]] = {}
        self._rows: dict[str, list[Row]] = {}
        self._frozen: dict[str, Row] = {}
        self._pools = threading.local()
        for row in load_rows():
            self._rows.setdefault(row.selector.replace(":", "_"), []).append(row)
            if row.introduced != (0,):
                self._classes[row.owner] = min(row.introduced, self._classes.get(row.owner, row.introduced))

    def module(self) -> ModuleType:
        objc = ModuleType("objc")
        vars(objc).update(
            registerMetaDataForSelector=self.register, autorelease_pool=self.autorelease_pool, NULL=self.NULL
        )
        return objc

    def register(self, owner: bytes, selector: bytes, metadata: dict[str, Any]) -> None:
        if not (isinstance(owner, bytes) and isinstance(selector, bytes)):
            raise TypeError("class and selector are bytes")
        self.registered[selector] = metadata

    @contextmanager
    def autorelease_pool(self) -> Iterator[None]:
        self._pools.depth = self.pool_depth + 1
        try:
            yield
        finally:
            self._pools.depth -= 1

    @property
    def pool_depth(self) -> int:
        return getattr(self._pools, "depth", 0)

    def has(self, name: str) -> bool:
        """Whether some object of this system responds to it."""
        return any(row.introduced <= self.profile.macos for row in self._rows.get(name, ()))

    def has_class(self, name: str) -> bool:
        return self._classes.get(name, (0,)) <= self.profile.macos

    def row(self, name: str, count: int) -> Row:
        """How a selector is called, fixed at its first use: later registrations do not reach it."""
        if name not in self._frozen:
            row = self._rows[name][0]
            if count != len(row.arguments):
                raise TypeError(f"{name}: need {len(row.arguments)} arguments, got {count}")
            self._frozen[name] = _corrected(row, self.registered.get(row.selector.encode()))
        return self._frozen[name]


def _corrected(row: Row, metadata: dict[str, Any] | None) -> Row:
    """Registered metadata replaces the shipped one; what it leaves out falls back to the bare types."""
    if metadata is None:
        return row
    arguments, lengths = [], {}
    for i, native in enumerate(row.arguments):
        told = metadata.get("arguments", {}).get(i + 2, {"type": native.lstrip("no").encode()})
        arguments.append(told.get("type_modifier", b"").decode() + told["type"].decode())
        if "c_array_length_in_arg" in told:
            lengths[i] = told["c_array_length_in_arg"] - 2
    result = metadata.get("retval", {})
    owned, memory = (bool(result.get(name)) for name in ("already_retained", "c_array_of_variable_length"))
    return replace(row, arguments=tuple(arguments), lengths=lengths, owned=owned, memory=memory)

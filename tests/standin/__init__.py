"""Stand-ins for `objc`, `Metal` and `Foundation` that enforce PyObjC's selector table over software Metal."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from mlx_native_py import metal, softmetal

from .bridge import Bridge
from .objects import ClassProxy, wrap

__all__ = ["Bridge", "install"]


class _Metal(ModuleType):
    """`import Metal`: software Metal's names, with every object behind the bridge."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__("Metal")
        self._bridge = bridge

    def __getattr__(self, name: str) -> Any:
        value = getattr(softmetal, name)
        if isinstance(value, type):
            return ClassProxy(self._bridge, value)
        if callable(value):
            return lambda *arguments: wrap(self._bridge, value(*arguments))
        return value


class _NoDevice(_Metal):
    """A machine with PyObjC and without a GPU."""

    def __getattr__(self, name: str) -> Any:
        return (lambda: None) if name == "MTLCreateSystemDefaultDevice" else super().__getattr__(name)


class _URL:
    """`NSURL`, as far as files go."""

    @staticmethod
    def fileURLWithPath_(path: str) -> Any:
        if not isinstance(path, str):
            raise TypeError(f"an NSString is needed, not {type(path).__name__}")
        return softmetal.NSURL.fileURLWithPath_(path)


def install(monkeypatch: pytest.MonkeyPatch, *, has_device: bool = True) -> Bridge:
    """Puts the stand-ins where `import` finds them, for one test; the backend's bridge is imported anew."""
    bridge = Bridge()
    foundation = ModuleType("Foundation")
    foundation.NSURL = _URL  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "objc", bridge.module())
    monkeypatch.setitem(sys.modules, "Metal", (_Metal if has_device else _NoDevice)(bridge))
    monkeypatch.setitem(sys.modules, "Foundation", foundation)
    # Set first, so that leaving the test removes whatever it imported.
    monkeypatch.setitem(sys.modules, "mlx_native_py.metal.pyobjc", ModuleType("placeholder"))
    monkeypatch.setattr(metal, "pyobjc", None, raising=False)
    del sys.modules["mlx_native_py.metal.pyobjc"]
    monkeypatch.delattr(metal, "pyobjc")
    return bridge

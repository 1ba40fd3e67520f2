"""Stand-ins for `objc`, `Metal` and `Foundation` that enforce PyObjC's selector table over software Metal."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from mlx_native_py import metal, softmetal

from .bridge import Bridge
from .objects import ClassProxy, wrap
from .profiles import PLAIN, PROFILES, REFUSED, Profile
from .teeth import Aborted

__all__ = ["PROFILES", "REFUSED", "Aborted", "Bridge", "Profile", "install", "modules"]


class _Metal(ModuleType):
    """`import Metal`: software Metal's names, with every object behind the bridge."""

    def __init__(self, bridge: Bridge) -> None:
        super().__init__("Metal")
        self._bridge = bridge

    def MTLCreateSystemDefaultDevice(self) -> Any:
        return wrap(self._bridge, self._bridge.device)

    def __getattr__(self, name: str) -> Any:
        value = getattr(softmetal, name)
        if isinstance(value, type):
            if not self._bridge.has_class(name):
                raise AttributeError(f"this macOS has no class {name}")
            return ClassProxy(self._bridge, value)
        if callable(value):
            return lambda *arguments: wrap(self._bridge, value(*arguments))
        return value


class _URL:
    """`NSURL`, as far as files go."""

    @staticmethod
    def fileURLWithPath_(path: str) -> Any:
        if not isinstance(path, str):
            raise TypeError(f"an NSString is needed, not {type(path).__name__}")
        return softmetal.NSURL.fileURLWithPath_(path)


def modules(bridge: Bridge) -> dict[str, ModuleType]:
    """What `import` is to find, by name."""
    foundation = ModuleType("Foundation")
    foundation.NSURL = _URL  # type: ignore[attr-defined]
    return {"objc": bridge.module(), "Metal": _Metal(bridge), "Foundation": foundation}


def install(monkeypatch: pytest.MonkeyPatch, profile: Profile = PLAIN, *, has_device: bool = True) -> Bridge:
    """Puts the stand-ins where `import` finds them, for one test; the backend's bridge is imported anew."""
    bridge = Bridge(profile, has_device=has_device)
    for name, module in modules(bridge).items():
        monkeypatch.setitem(sys.modules, name, module)
    # Set first, so that leaving the test removes whatever it imported.
    monkeypatch.setitem(sys.modules, "mlx_native_py.metal.pyobjc", ModuleType("placeholder"))
    monkeypatch.setattr(metal, "pyobjc", None, raising=False)
    del sys.modules["mlx_native_py.metal.pyobjc"]
    monkeypatch.delattr(metal, "pyobjc")
    return bridge

"""Which tests can run where: by the device that a test asks for, checked each time that it asks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any
from zlib import crc32

import pytest
from standin import PROFILES, Bridge, install, modules

from mlx_native_py import metal
from mlx_native_py.errors import DeviceNotFound
from mlx_native_py.metal import Backend, open_metal

__all__ = ["MACS", "SoftGuard", "absence", "kinds", "needs_soft", "opened", "play_mac"]

_FIXTURES = {"soft", "bridge"}
_DEVICES = ("backend", "device")


def needs_soft(item: pytest.Item) -> bool:
    """Whether a test runs kernels on the software device, as far as its parameters, fixtures and folder tell."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    fixtures = _FIXTURES & set(getattr(item, "fixturenames", ()))
    asked = any(params.get(name) == "soft" for name in _DEVICES)
    return bool(fixtures) or asked or "soft" in item.path.parts[-2:-1]


@cache
def absence(kind: Any) -> str:
    """Why this kind of Metal cannot be used here; empty where it can."""
    try:
        open_metal(kind)
    except DeviceNotFound as reason:
        return str(reason.__cause__ or reason)
    return ""


class SoftGuard:
    """Fails a test that asks for the software device and is not marked `soft`: on a Mac it would have none."""

    def __init__(self) -> None:
        self.item: pytest.Item | None = None
        self._open: Callable[[str], Backend] = metal._open_soft

    def open_soft(self, declined: str) -> Backend:
        asked = declined == metal.ASKED_FOR_SOFT
        if asked and self.item is not None and not self.item.get_closest_marker("soft"):
            raise AssertionError(f"{self.item.nodeid} asks for the software device: mark it `soft`")
        return self._open(declined)

    def install(self) -> None:
        metal._open_soft = self.open_soft


MACS = [pytest.param(name, marks=pytest.mark.soft) for name in sorted(PROFILES)]
"""Values for a `backend` or `device` parameter: each Mac that the stand-in plays."""


def kinds(metafunc: pytest.Metafunc) -> list[Any]:
    """The devices of a test: soft, metal, and two of the played Macs, in turn."""
    turn = crc32(metafunc.definition.nodeid.encode())
    return [
        "soft",
        pytest.param("metal", marks=pytest.mark.metal),
        *(MACS[(turn + step) % len(MACS)] for step in (0, 3)),
    ]


@cache
def _played(name: str) -> Backend:
    with pytest.MonkeyPatch.context() as patch:
        install(patch, PROFILES[name])
        return open_metal("metal")


def opened(kind: Any) -> Backend:
    """The backend of a kind, or the one that a Mac's name in `PROFILES` stands for."""
    return _played(kind) if kind in PROFILES else open_metal(kind)


def play_mac(name: str) -> Bridge:
    """From now on this process is on a Mac: PyObjC's modules are the stand-in's, and there is no software Metal."""
    bridge = Bridge(PROFILES[name], engine="auto")
    sys.modules.update(modules(bridge))

    def refuse(declined: str) -> Backend:
        raise DeviceNotFound(f"MLX_NATIVE_DEVICE=soft opens software Metal on a Mac. Apple's Metal: {declined}")

    metal._open_soft = refuse
    return bridge

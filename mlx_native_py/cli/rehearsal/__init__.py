"""`mlx-native doctor --mac`: checks every library, pipeline, op and capability of a device."""

from __future__ import annotations

import platform
from collections.abc import Generator, Sequence
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path

from ... import settings
from ...device import MlxDevice
from ...pipelines.sources import kernel_families
from ...settings import BackendName
from ..finding import Finding, Progress, changed_settings, tried
from .abilities import ABILITIES
from .kernels import kernel_findings
from .ops import TABLE, op_findings
from .report import ReportFile

__all__ = ["ReportFile", "rehearse"]

_PACKAGES = ("mlx_native_py", "numpy", "pyobjc-core", "pyobjc-framework-Cocoa", "pyobjc-framework-Metal")


def rehearse(
    device: BackendName | None = None,
    *,
    table: Path = TABLE,
    families: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> Generator[Finding]:
    """Runs all checks; failures are findings and do not stop it.

    `families` limits the kernels; `progress` is told what is under way.
    """
    yield Finding("versions", True, _versions(), facts={name: _version(name) for name in _PACKAGES})
    yield Finding("settings", True, changed_settings(), facts=asdict(settings.current()))
    with MlxDevice(device) as opened:
        able = opened.capabilities
        newest = ".".join(map(str, able.language_version))
        yield Finding("device", True, f"{able.name}, MSL up to {newest}", facts=opened.info())
        for subject, look in ABILITIES.items():
            progress(subject)
            yield tried(subject, partial(look, opened))
        # Built on all cores before the ops need some of them.
        yield from kernel_findings(opened, families or kernel_families(), progress)
        yield from op_findings(opened, table, progress)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _versions() -> str:
    system = f"macOS {platform.mac_ver()[0]}" if platform.system() == "Darwin" else platform.platform()
    bridge = _version("pyobjc-framework-Metal")
    return f"Python {platform.python_version()}, {system}" + (f", PyObjC's Metal {bridge}" if bridge else "")

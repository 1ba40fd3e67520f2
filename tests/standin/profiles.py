"""The Macs that the stand-in plays: what each lacks, refuses or answers differently."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mlx_native_py.softmetal import DeviceProfile

__all__ = ["PLAIN", "PROFILES", "REFUSED", "Profile"]

_LANGUAGES = {13: (3, 0), 14: (3, 1), 15: (3, 2), 26: (4, 0)}


@dataclass(frozen=True)
class Profile:
    """A Mac: its system, its GPU, and the environment that Python was started in."""

    macos: tuple[int, int] = (15, 0)
    """Selectors and classes that came later are not there."""
    host_language: tuple[int, int] = (2, 4)
    """What Metal compiles where no language version is given: that of the executable's own SDK."""
    debug_layer: bool = False
    """Wrappers around every object, and an abort for what a release build lets pass."""
    archive_reflection: bool = True
    """Whether a pipeline out of a binary archive comes with its reflection."""
    offers: frozenset[str] = frozenset()
    """Selectors that its objects respond to and software Metal's do not."""
    nil: frozenset[str] = frozenset()
    """Selectors that answer nil, with an NSError where they have one."""
    aborts: frozenset[str] = frozenset()
    """Selectors that this GPU has and nobody may send to it."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    device: DeviceProfile = field(default_factory=DeviceProfile)

    @property
    def language(self) -> tuple[int, int]:
        """The newest language version that the system's compiler knows."""
        return max(version for system, version in _LANGUAGES.items() if system <= self.macos[0])


def _families(apple: int, *, metal3: bool = True) -> frozenset[int]:
    return frozenset({*range(1001, 1001 + apple), *range(3001, 3004), *((5001,) if metal3 else ())})


def _gpu(name: str, architecture: str, apple: int, **more: Any) -> DeviceProfile:
    metal3 = more.pop("metal3", True)
    return DeviceProfile(name=name, architecture=architecture, families=_families(apple, metal3=metal3), **more)


_M1 = _gpu("Apple M1", "applegpu_g13g", 7)
_INDIRECT = "newIndirectCommandBufferWithDescriptor:maxCommandCount:options:"
_ARGUMENTS = ("newArgumentEncoderWithBufferIndex:", "newArgumentEncoderWithArguments:")

PLAIN = Profile()
PROFILES: dict[str, Profile] = {
    "m4": Profile(device=_gpu("Apple M4", "applegpu_g16g", 9)),
    "m1": Profile(device=_M1),
    "macos-26": Profile(
        macos=(26, 0), offers=frozenset({"newMTL4CommandQueue"}), device=_gpu("Apple M5", "applegpu_g17g", 10)
    ),
    "macos-14": Profile(macos=(14, 0), device=_M1),
    "debug-layer": Profile(debug_layer=True, device=_M1),
    "paravirtual": Profile(
        aborts=frozenset({_INDIRECT, *_ARGUMENTS, "gpuAddress"}),
        device=_gpu(
            "Apple Paravirtual device", "air64_v27", 5, metal3=False, counter_sampling=frozenset(), counter_sets=False
        ),
    ),
    "no-residency": Profile(nil=frozenset({"newResidencySetWithDescriptor:error:"}), device=_M1),
    "no-reflection": Profile(archive_reflection=False, device=_M1),
    "no-indirect": Profile(nil=frozenset({_INDIRECT}), device=_M1),
    "no-counters": Profile(nil=frozenset({"counterSets", "newCounterSampleBufferWithDescriptor:error:"}), device=_M1),
}
"""Macs on which everything runs, each by its own road."""

REFUSED: dict[str, Profile] = {
    "intel": Profile(device=_gpu("AMD Radeon Pro 5500M", "amd", 0)),
    "macos-13": Profile(macos=(13, 6), device=_M1),
}
"""Macs that are refused with a sentence."""

"""Shipped kernels with one barrier fewer, and the conformance cases that run them."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any

import pytest
from kit.encoding import soft_device
from ops.bench import Bench
from ops.table import Case

from mlx_native_py import Dispatch, MlxDevice, settings
from mlx_native_py.errors import DataRaceError, OutOfBoundsError, UninitialisedReadError
from mlx_native_py.pipelines import registry
from mlx_native_py.pipelines.sources import kernel_directory, kernel_families, kernel_source
from mlx_native_py.softmetal import DeviceProfile

REPORTS = DataRaceError, UninitialisedReadError, OutOfBoundsError
KINDS = ("cpu", "gpu")
Use = tuple[str, Case]
_BARRIER = re.compile(r"\b(?:threadgroup|simdgroup)_barrier\([^()]*\)")
_AROUND = 200  # characters by which the place is known where a header was put in


@dataclass(frozen=True)
class Place:
    """One barrier in a file of the shipped kernels."""

    file: str
    line: int
    before: str
    text: str
    after: str

    @property
    def id(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def families(self) -> list[str]:
        """Those that have it."""
        return [family for family in kernel_families() if self.before + self.text + self.after in kernel_source(family)]

    def source(self, family: str) -> str:
        """The text of a family, without this barrier in the one it has it in."""
        return kernel_source(family).replace(self.before + self.text + self.after, self.before + self.after)


def places() -> list[Place]:
    """Every barrier of every shipped file."""
    found = []
    for path in sorted([*kernel_directory().glob("*.metal"), *kernel_directory().glob("shared/*.h")]):
        text = path.read_text()
        for match in _BARRIER.finditer(text):
            start, end = match.span()
            before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
            # Includes are at the top of a file.
            before = before.rpartition('.h"\n')[2]
            found.append(Place(path.name, text.count("\n", 0, start) + 1, before, match[0], after))
    return found


@contextmanager
def opened(kind: str, *, checked: bool) -> Iterator[MlxDevice]:
    """The software device as it is, or under the name of a GPU, for which ops choose other kernels."""
    profile = DeviceProfile(architecture="applegpu_g15s") if kind == "gpu" else DeviceProfile()
    with settings.override(soft_checked=checked), soft_device(profile, checked=checked) as device:
        yield device


class _Listening(Bench):
    """A bench that runs nothing, and writes down which sources and kernels its dispatches are from."""

    def __init__(self, device: MlxDevice, number: int) -> None:
        super().__init__(device, number)
        self.used: set[tuple[str, str]] = set()

    def run(self, op: Any, *args: Any, **options: Any) -> Any:
        with self.device.command_encoder() as enc:
            enc.start_capture()
            result = op(enc, *args, **options)
            pipelines = [node.pipeline for node in enc.take_capture() or () if isinstance(node, Dispatch)]
            self.used.update((each.origin[0].source, "_".join(each.name.split("_")[:2])) for each in pipelines)
        return result


def users(cases: Iterable[Case]) -> dict[str, list[Use]]:
    """What runs kernels of each family: a case of each kind of kernel, then another, and so on."""
    families = {kernel_source(family): family for family in kernel_families()}
    found: dict[str, dict[Any, list[Use]]] = defaultdict(lambda: defaultdict(list))
    for kind in KINDS:
        with opened(kind, checked=False) as device:
            for case in cases:
                bench = _Listening(device, case.number)
                with suppress(AssertionError):  # its numbers were never computed
                    case.run(bench)
                for source, kernel in bench.used:
                    if source in families:
                        found[families[source]][kernel].append((kind, case))
    return {family: _in_turns(list(kernels.values())) for family, kernels in found.items()}


def _in_turns(lists: list[list[Use]]) -> list[Use]:
    for each in lists:
        random.Random(0).shuffle(each)  # neighbours in the table are much alike
    in_turns = [use for use in chain.from_iterable(zip_longest(*lists)) if use is not None]
    return list({(kind, case.number): (kind, case) for kind, case in in_turns}.values())


def flagged(place: Place, uses: Iterable[Use]) -> str:
    """The first of the cases in which checked mode misses the barrier, with what it says; else nothing."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(registry, "kernel_source", place.source)
        devices = {kind: stack.enter_context(opened(kind, checked=True)) for kind in KINDS}
        for kind, case in uses:
            try:
                case.run(Bench(devices[kind], case.number))
            except REPORTS as error:
                return f"{kind} {case.id}: {type(error).__name__}"
            except AssertionError:
                pass  # wrong numbers are not a report
    return ""

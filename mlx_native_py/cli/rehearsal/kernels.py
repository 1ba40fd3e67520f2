"""Every shipped library compiled and every pipeline built, on all cores, with their limits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...device import MlxDevice
from ...pipelines.builders import Builders
from ...pipelines.function_constants import Constants
from ...pipelines.pipeline import Pipeline
from ...pipelines.registry import KernelLibrary
from ..finding import FAILURES, Finding, Progress, fault

__all__ = ["ORDINARY", "kernel_findings"]

ORDINARY: Constants = {
    "BATCH": 4,
    "BITS": 8,
    "COLUMNS": 64,
    "DIM": 64,
    "GROUP_SHIFT": 1,
    "GROUP_SIZE": 64,
    "INCLUSIVE": True,
    "MXFP4": False,
    "PARTS": 1,
    "PER_LANE": 2,
    "REVERSE": True,
    "SCALE_TYPE": 0,
    "SIDE_BY_SIDE": True,
    "SLICE": 64,
    "V_DIM": 64,
    "V_SLICE": 64,
}
"""Values for the function constants that kernels require: ordinary ones, and those of the conformance cases."""

_USUAL_THREADS = 1024
_PATIENCE = 0.25
"""Seconds between two looks at how far the builders are."""


def kernel_findings(device: MlxDevice, families: Sequence[str], progress: Progress) -> Iterator[Finding]:
    """First the libraries, then the pipelines of each."""
    with Builders() as builders:
        compiled = {family: builders.begin(partial(_compile, device, family)) for family in families}
        begun: dict[str, list[_Begun]] = {}
        for family, future in compiled.items():
            _await([future], f"library {family}", progress)
            yield _library_finding(family, future)
            if future.exception() is None:
                begun[family] = _begin(device, future.result()[0], builders)
        everything = [each.future for some in begun.values() for each in some]
        for family, some in begun.items():
            _await([each.future for each in some], f"pipelines {family}", progress, everything)
            yield _pipelines_finding(family, some)


@dataclass(frozen=True)
class _Begun:
    """A pipeline that is being built."""

    name: str
    future: Future[tuple[Pipeline, float]]


def _compile(device: MlxDevice, family: str) -> tuple[KernelLibrary, float]:
    begin = time.perf_counter()
    return device.kernels.shipped(family), time.perf_counter() - begin


def _build(device: MlxDevice, library: KernelLibrary, name: str) -> tuple[Pipeline, float]:
    begin = time.perf_counter()
    with device.backend.autorelease_pool():
        declared = library.mtl.newFunctionWithName_(name).functionConstantsDictionary() or {}
        needed = [str(constant.name()) for constant in declared.values() if constant.required()]
    constants: Constants = {key: ORDINARY[key] for key in needed if key in ORDINARY}
    return device.kernels.get_pipeline(name, constants, library=library), time.perf_counter() - begin


def _begin(device: MlxDevice, library: KernelLibrary, builders: Builders) -> list[_Begun]:
    return [_Begun(name, builders.begin(partial(_build, device, library, name))) for name in sorted(library.names)]


def _await(
    futures: Sequence[Future[Any]], subject: str, progress: Progress, everything: Sequence[Future[Any]] = ()
) -> None:
    """Waits, and says now and then how much of everything is done; Ctrl-C is seen in between."""
    left = set(futures)
    while left:
        done = sum(future.done() for future in everything)
        progress(f"{subject}, {done} of {len(everything)} pipelines" if everything else subject)
        left = wait(left, _PATIENCE).not_done


def _library_finding(family: str, future: Future[tuple[KernelLibrary, float]]) -> Finding:
    try:
        library, seconds = future.result()
    except FAILURES as error:
        return fault(f"library {family}", error)
    return Finding(f"library {family}", True, "compiles", facts={"seconds": seconds, "found": library.names})


def _pipelines_finding(family: str, begun: Sequence[_Begun]) -> Finding:
    subject, built, broken = f"pipelines {family}", dict[str, Any](), dict[str, str]()
    first: BaseException | None = None
    for each in begun:
        try:
            pipeline, seconds = each.future.result()
        except FAILURES as error:
            first = first or error
            broken[each.name] = f"{type(error).__name__}: {error}"
        else:
            built[pipeline.label] = _limits(pipeline, seconds)
    facts = {"found": built, "errors": broken}
    if first is not None:
        more = f" ({len(broken)} of {len(begun)} kernels: {', '.join(broken)})" if len(broken) > 1 else ""
        return fault(subject, first, more, facts)
    return Finding(subject, True, f"{len(built)} built{_narrow(built)}", facts=facts)


def _limits(pipeline: Pipeline, seconds: float) -> dict[str, float]:
    return {
        "max_threads": pipeline.max_threads,
        "width": pipeline.width,
        "static_threadgroup_bytes": pipeline.static_threadgroup_bytes,
        "seconds": seconds,
    }


def _narrow(built: Mapping[str, Mapping[str, float]]) -> str:
    """The kernels that allow fewer threads than usual."""
    few = [f"{label} {told['max_threads']}" for label, told in built.items() if told["max_threads"] < _USUAL_THREADS]
    return f"; fewer than {_USUAL_THREADS} threads: {', '.join(few)}" if few else ""

"""`mlx-native doctor`: checks the installation, and says what to do about problems."""

from __future__ import annotations

import argparse
import platform
import struct
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import MlxError
from ..metal import Backend, ns_error, open_metal
from ..pipelines.compile_options import CompileOptions
from ..pipelines.sources import kernel_source
from ..settings import BackendName, current, misspelt, strange
from .finding import Finding, changed_settings
from .status_line import StatusLine
from .table import print_json, print_table

if TYPE_CHECKING:
    from .rehearsal import ReportFile

__all__ = ["examine", "options", "run"]

_COUNT = 256


def options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", choices=("auto", "metal", "soft"), help="instead of MLX_NATIVE_DEVICE")
    command.add_argument("--mac", action="store_true", help="look at every library, pipeline and op as well")
    command.add_argument("--report", default="mlx-native-doctor.json", help="of --mac: the file (%(default)s)")
    command.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(chosen: argparse.Namespace) -> int:
    if chosen.mac:
        return _rehearse(chosen)
    findings = examine(chosen.device)
    if chosen.json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [(finding.subject, finding.verdict, finding.detail) for finding in findings]
        print_table(("check", "state", "detail"), rows)
        advice = [f"{finding.subject}: {finding.advice}" for finding in findings if finding.advice]
        print("\n".join(advice) if advice else "All is well.")
    return 1 if any(finding.good is False for finding in findings) else 0


def _rehearse(chosen: argparse.Namespace) -> int:
    from .rehearsal import ReportFile, rehearse

    begin, report = time.monotonic(), ReportFile(Path(chosen.report))
    try:
        with StatusLine() as line, closing(rehearse(chosen.device, progress=line.show)) as findings:
            for finding in findings:
                report.add(finding)
                line.clear()
                if not chosen.json:
                    print(f"{finding.verdict:15}{finding.subject}: {finding.detail}", flush=True)
    except KeyboardInterrupt:
        report.write(complete=False)  # it may have come while that was written
        _conclude(chosen, report, f"stopped after {time.monotonic() - begin:.0f} s")
        raise
    report.write(complete=True)
    return _conclude(chosen, report, f"in {time.monotonic() - begin:.0f} s")


def _conclude(chosen: argparse.Namespace, report: ReportFile, when: str) -> int:
    if chosen.json:
        print_json([asdict(finding) for finding in report.findings])
    else:
        print(f"{len(report.findings)} things {when}, {report.faults} faults; all of it is in {chosen.report}")
    return 1 if report.faults else 0


def examine(device: BackendName | None = None) -> list[Finding]:
    """Checks everything that a kernel needs, and then runs one."""
    findings = [Finding("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    findings += _try("settings", changed_settings, "correct the variable or unset it")
    if not findings[-1].good:
        return findings
    findings.append(_variables())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*no such setting")  # found already
        return findings + _of_device(device)


def _of_device(device: BackendName | None) -> list[Finding]:
    findings = list(_try("backend", lambda: open_metal(device).kind, "see the message"))
    if findings[-1].good:
        backend = open_metal(device)
        findings.append(_apple(backend))
        if backend.kind == "soft":
            findings += _soft()
        findings += _try("language", lambda: _compile_bfloat(backend), "attach this to a bug report")
        findings += _try("kernel", lambda: _run_self_check(backend), "compile the kernel alone to see its errors")
    return findings


def _try(subject: str, look: Callable[[], str], advice: str) -> Iterator[Finding]:
    try:
        yield Finding(subject, True, look())
    except (MlxError, OSError, RuntimeError, ValueError) as error:
        yield Finding(subject, False, str(error), advice)


def _variables() -> Finding:
    """Environment variables that look like settings but are not."""
    wrong = [f"{name} (did you mean {flag}?)" for name, flag in misspelt().items()]
    if wrong:
        return Finding("variables", False, f"no such setting: {', '.join(wrong)}", "correct the name or unset it")
    others = strange()
    return Finding("variables", True, f"none of ours: {', '.join(others)}" if others else "none is misspelt")


def _apple(backend: Backend) -> Finding:
    if backend.kind == "metal":
        return Finding("Apple's Metal", True, "in use")
    advice = "pip install pyobjc-framework-Metal" if platform.system() == "Darwin" else ""
    return Finding("Apple's Metal", True, f"not used: {backend.declined}", advice)


def _soft() -> Iterator[Finding]:
    from ..softmetal import cache, toolchain

    now = current()

    def compiler() -> str:
        chain = toolchain.find_toolchain(str(now.soft_clang) if now.soft_clang else None)
        version = chain.run([*chain.compiler, "--version"]).stdout.splitlines()[0]
        return f"{version} ({' '.join(chain.compiler)})"

    def cache_directory() -> str:
        directory = now.kernel_cache or cache.default_directory()
        usage = cache.Store(directory).usage()
        return f"{directory}, {usage.files} files, {usage.nbytes / (1 << 20):.1f} MiB"

    yield from _try("compiler", compiler, "pip install ziglang, or point MLX_SOFT_CLANG at a recent clang")
    yield from _try("cache folder", cache_directory, "give it mode 700 and to your user, or set MLX_SOFT_CACHE_DIR")


def _run_self_check(backend: Backend) -> str:
    """Runs the shipped self-check kernel and compares its results with numpy's."""
    device = backend.default_device()
    with backend.autorelease_pool():
        pipeline = _pipeline(backend, device)
        width = pipeline.threadExecutionWidth()
        buffers = [device.newBufferWithLength_options_(4 * _COUNT, 0) for _ in range(3)]
        x, y, sums = (np.frombuffer(b.contents().as_buffer(4 * _COUNT), np.float32) for b in buffers)
        x[:], y[:], sums[:] = np.arange(_COUNT), 1.0, 0.0
        commands = device.newCommandQueue().commandBuffer()
        encoder = commands.computeCommandEncoder()
        encoder.setComputePipelineState_(pipeline)
        for index, buffer in enumerate(buffers):
            encoder.setBuffer_offset_atIndex_(buffer, 0, index)
        encoder.setBytes_length_atIndex_(struct.pack("<f", 0.5), 4, 3)
        encoder.dispatchThreads_threadsPerThreadgroup_((_COUNT, 1, 1), (width, 1, 1))
        encoder.endEncoding()
        commands.commit()
        commands.waitUntilCompleted()
        if commands.error() is not None:
            raise RuntimeError(ns_error.reason(commands.error()))
        wanted = 0.5 * np.arange(_COUNT, dtype=np.float32) + 1.0
        if not (np.array_equal(y, wanted) and np.allclose(sums[: _COUNT // width], wanted.reshape(-1, width).sum(1))):
            raise RuntimeError("the self-check kernel ran, but its results are wrong")
        return f"right, on {device.name()}, in {(commands.GPUEndTime() - commands.GPUStartTime()) * 1e6:.0f} us"


def _compile_bfloat(backend: Backend) -> str:
    """Compiles bfloat, which needs the right language version and is used by nearly every family."""
    device = backend.default_device()
    with backend.autorelease_pool():
        _library(backend, device, "kernel void f(device bfloat *x [[buffer(0)]]) { x[0] = bfloat(1.0f); }")
    return f"MSL up to {'.'.join(map(str, backend.capabilities(device).language_version))}; bfloat compiles"


def _library(backend: Backend, device: Any, source: str) -> Any:
    options = CompileOptions().mtl(backend, backend.capabilities(device))
    library, error = device.newLibraryWithSource_options_error_(source, options, None)
    if library is None:
        raise RuntimeError(ns_error.reason(error))
    return library


def _pipeline(backend: Backend, device: Any) -> Any:
    function = _library(backend, device, kernel_source("self_check")).newFunctionWithName_("self_check")
    pipeline, error = device.newComputePipelineStateWithFunction_error_(function, None)
    if pipeline is None:
        raise RuntimeError(ns_error.reason(error))
    return pipeline

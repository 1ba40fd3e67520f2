"""No source reads a file, runs a program, ends the process or takes the machine: it is refused, or does nothing bad."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from mlx_native_py import softmetal as Metal
from mlx_native_py.softmetal.compiler_process import CompileLimits

from . import hostile_forms, hostile_gaps, hostile_spellings
from .hostile_table import BOMBS, HEAD, KERNEL, ROWS, Hostile

WORD = "HOSTILE_SOURCES_READ_THIS"
LIMITS = CompileLimits(seconds=8, memory_mib=2048, output_mib=16)


@pytest.fixture(scope="module")
def device(request: pytest.FixtureRequest) -> Any:
    """With the headers compiled, so that the limits below are those of the sources alone."""
    isolated = request.param == "isolated"
    usual = Metal.open_device(Metal.SoftOptions(isolated=isolated))
    for body in ("out[i] = 1;", "threadgroup_barrier(mem_flags::mem_none);"):
        assert outcome(usual, HEAD + KERNEL.format(body))[0] == ""
    return Metal.open_device(Metal.SoftOptions(watchdog_seconds=2.0, compile_limits=LIMITS, isolated=isolated))


def outcome(device: Any, source: str) -> tuple[str, bytes]:
    """The message of the refusal, or nothing, and what the kernel wrote if it ran."""
    library, error = device.newLibraryWithSource_options_error_(source, None, None)
    if library is None:
        return error.localizedDescription(), b""
    function = library.newFunctionWithName_("k")
    if function is None:
        return "", b""
    pipeline, error = device.newComputePipelineStateWithFunction_error_(function, None)
    if pipeline is None:
        return error.localizedDescription(), b""
    buffer = device.newBufferWithLength_options_(4096, 0)
    commands = device.newCommandQueue().commandBuffer()
    encoder = commands.computeCommandEncoder()
    encoder.setComputePipelineState_(pipeline)
    encoder.setBuffer_offset_atIndex_(buffer, 0, 0)
    encoder.dispatchThreads_threadsPerThreadgroup_((32, 1, 1), (32, 1, 1))
    encoder.endEncoding()
    commands.commit()
    commands.waitUntilCompleted()
    return "", bytes(buffer.contents().as_buffer(4096))


def children(device: Any) -> set[str]:
    """Processes of this one, but for the helpers of the device."""
    every = set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    return every - {str(helper.pid) for helper in getattr(device.state.runtime, "_idle", ())}


ALL_BOMBS = (*BOMBS, *hostile_forms.BOMBS, *hostile_gaps.BOMBS, *hostile_spellings.GROWING)
ALL_ROWS = (*ROWS, *hostile_forms.FORMS, *hostile_gaps.FORMS, *hostile_spellings.FORMS)
# What is refused ends in the compiler, which is the same for both.
CASES = [
    pytest.param(
        place,
        row,
        id=f"{place}-{row.name}",
        marks=[pytest.mark.full] * (place == "isolated" and (row in ALL_BOMBS or not row.runs)),
    )
    for place in ("in-process", "isolated")
    for row in ALL_ROWS
]


@pytest.mark.parametrize(("device", "row"), CASES, indirect=["device"])
def test_source(device: Any, row: Hostile, tmp_path: Path) -> None:
    secret, sentinel = tmp_path / "secret.h", tmp_path / "sentinel"
    secret.write_text(f"{WORD}\n")
    before = children(device)
    begin = time.monotonic()
    message, written = outcome(device, row.source.replace("SECRET", str(secret)).replace("SENTINEL", str(sentinel)))
    assert time.monotonic() - begin < 60
    assert row.runs or message, "the source was accepted"
    # What grows may need more than the limits of this test, where others use the processors too.
    is_limited = row in ALL_BOMBS and "MLX_SOFT_COMPILE_" in message
    assert not row.runs or not message or is_limited, f"refused: {message}"
    assert WORD not in message and WORD.encode() not in written
    assert not sentinel.exists() and not list(Path(tempfile.gettempdir()).glob("left_behind*"))
    assert children(device) <= before


def test_there_are_enough() -> None:
    names = [row.name for row in ALL_ROWS]
    assert len(set(names)) == len(names) >= 560


@pytest.mark.parametrize("row", BOMBS[:1], ids=lambda row: row.name)
def test_limits_are_named(row: Hostile) -> None:
    small = Metal.open_device(Metal.SoftOptions(compile_limits=CompileLimits(seconds=8, memory_mib=2048, output_mib=1)))
    message, _ = outcome(small, row.source)
    assert "MLX_SOFT_COMPILE_" in message


def test_a_short_source_stays_a_short_one() -> None:
    """Within the usual limits: text of this length would take the passes of this process a quarter of a minute."""
    tenfold = "\n".join(f"#define Y{n + 1} " + f"Y{n} " * 10 for n in range(6))
    begin = time.monotonic()
    message, _ = outcome(
        Metal.open_device(Metal.SoftOptions()), f"#define Y0 out[i] += 1;\n{tenfold}\n" + HEAD + KERNEL.format("Y6")
    )
    assert "characters with its macros and includes expanded, expected at most 4,000,000" in message
    assert time.monotonic() - begin < 60

"""The runtime and kernels compiled for macOS on Apple silicon: they link, and are what a Mac's loader wants."""

from __future__ import annotations

import platform
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mlx_native_py import metal
from mlx_native_py.softmetal import SoftOptions, system
from mlx_native_py.softmetal.engines.lanes.vectorise import vectorise
from mlx_native_py.softmetal.engines.runtime import build_library
from mlx_native_py.softmetal.msl.image import ImageRefused, check_image
from mlx_native_py.softmetal.msl.image_macho import LIBRARY, MachImage, read_image
from mlx_native_py.softmetal.system import System
from mlx_native_py.softmetal.toolchain import Engine, Toolchain, zig_toolchain

HEAD = """#include "soft.h"
using namespace metal;
#define device __attribute__((opencl_global_device))
"""
SHAPE = (64, 1, 1)
PUBLIC = {"soft_entry_point", "soft_tg_size", "soft_arguments", "soft_arguments_count"}
FLAT = """
static void k(device float* out, const device int* in, uint i) {
  out[i] = sin(float(in[i])) * cos(float(in[i])) + float(bfloat(float(i))) + float(half(in[i] / in[i + 1]));
}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_IN(thread_position_in_grid))"""
WAITING = """
static void k(device float* out, const device int* in, uint i, uint t) {
  SOFT_TG_VAR(float, shared, [64]);
  SOFT_TG_VAR(uint, total, [1]);
  shared[t] = in[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = simd_sum(shared[63 - t]) + float(in[i] / in[t]);
}
SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_BUFFER(1), SOFT_IN(thread_position_in_grid),
           SOFT_IN(thread_index_in_threadgroup))"""
# What the runtime takes from the system: memory, threads, signals, a clock, text, and the loader's own.
SYSTEM = set(
    "__ulock_wait __ulock_wake _tlv_bootstrap clock_gettime_nsec_np dyld_stub_binder getrlimit memcpy mmap mprotect "
    "munmap pthread_atfork pthread_create pthread_detach pthread_key_create pthread_kill pthread_self "
    "pthread_setspecific pthread_sigmask raise sigaction sigaltstack strlen sysconf vsnprintf".split()
)
# And the checker, which takes the rest from the runtime.
CHECKER = set(
    "_tlv_bootstrap aligned_alloc bzero calloc dladdr dyld_stub_binder free memcpy memmove memset mmap mprotect "
    "realloc sched_yield strlen strncmp strstr".split()
)
BRK_DIVISION = 0xD4200000 | 0x5503 << 5
READ_THREAD_POINTER = 0xD53BD060  # mrs x0, tpidrro_el0; the low five bits are the register


@pytest.fixture(scope="module")
def mac() -> Toolchain:
    return replace(zig_toolchain(System("darwin", "aarch64")), cpu="apple-m1")


def linked(mac: Toolchain, folder: Path, source: str, engine: Engine, *, checked: bool = False) -> MachImage:
    """A kernel as the front end's steps make it."""
    path, target, image = folder / "k.clcpp", folder / "k.o", folder / "k.dylib"
    path.write_text(HEAD + source)
    if engine == "lanes":
        flags = [*mac.dialect(), *mac.engine_flags("lanes"), f"-DSOFT_SHAPE={SHAPE[0]},1,1"]
        mac.run(mac.to_ir(path, folder / "k.ll", flags))
        vectors = vectorise((folder / "k.ll").read_text(), "soft_entry_point", SHAPE).text
        (folder / "v.ll").write_text(vectors)
        mac.run(mac.assemble(folder / "v.ll", target))
    else:
        mac.compile_kernel(path, target, engine, checked=checked)
    mac.run(mac.link([target], image, checked=checked))
    return read_image(image.read_bytes())


def section(image: MachImage, name: str) -> tuple[str, int, int]:
    (found,) = [each for each in image.sections if each.name == name]
    return found.segment, found.address, found.size


def test_the_runtime(mac: Toolchain, tmp_path: Path) -> None:
    image = read_image(build_library(mac, tmp_path).read_bytes())
    assert image.libraries == (LIBRARY,)
    assert image.imports == SYSTEM
    assert image.exports >= {"soft_run", "soft_meet", "soft_barrier", "soft_lanes_barrier", "soft_lane_offset"}
    inside = {"soft_switch", "soft_call_escapable", "soft_leave", "soft_escape", "soft_fiber_start", "soft_run_on"}
    assert inside <= {symbol.name for symbol in image.symbols if symbol.defined} and not inside & image.exports
    assert section(image, "__text")[0] == "__TEXT"


def test_the_checker(mac: Toolchain, tmp_path: Path) -> None:
    runtime, checker = (read_image(build_library(mac, tmp_path, part).read_bytes()) for part in ("runtime", "checker"))
    shared = checker.imports & runtime.exports
    assert checker.libraries == (LIBRARY,)
    assert checker.imports - shared == CHECKER
    assert shared and all(name.startswith("_ZN4soft") for name in shared)  # which no kernel may import
    assert checker.exports >= {"__tsan_read4", "__tsan_atomic32_fetch_add", "soft_private_begin", "soft_ends"}
    assert not {name for name in runtime.exports if name.startswith(("__tsan", "__ubsan"))}


@pytest.mark.parametrize(
    ("source", "engine", "imports"),
    [
        (FLAT, "flat", {"__sincosf_stret"}),
        (FLAT, "fibers", {"__sincosf_stret"}),
        (FLAT, "lanes", set()),
        (WAITING, "fibers", {"soft_meet", "soft_barrier", "soft_lane_offset"}),
        (WAITING, "lanes", {"soft_lanes_barrier"}),
    ],
    ids=["flat", "fibers", "lanes", "fibers-waiting", "lanes-waiting"],
)
def test_kernels(mac: Toolchain, tmp_path: Path, source: str, engine: Engine, imports: set[str]) -> None:
    image = linked(mac, tmp_path, source, engine)
    check_image(image.data)
    assert image.imports >= imports and {name for name in image.imports if name.startswith("soft_")} <= imports
    assert image.exports >= (PUBLIC - {"soft_entry_point"} | {"soft_lanes_entry"} if engine == "lanes" else PUBLIC)
    # Divisions stop at zero; a lane is found through the thread pointer, in the one engine that looks for it.
    assert BRK_DIVISION in image.words("__text")
    reads = any(word & ~0x1F == READ_THREAD_POINTER for word in image.words("__text"))
    assert reads == ("soft_lane_offset" in imports)


@pytest.mark.parametrize("engine", ["fibers", "lanes"])
def test_threadgroup_variables_lie_in_a_section_of_their_own(mac: Toolchain, tmp_path: Path, engine: Engine) -> None:
    image = linked(mac, tmp_path, WAITING, engine)
    segment, start, size = section(image, "soft_tg")
    places = {symbol.name: symbol.address for symbol in image.symbols}
    assert segment == "__DATA" and size >= 64 * 4
    assert places["section$start$__DATA$soft_tg"] == start
    assert places["section$end$__DATA$soft_tg"] == start + size


def test_checked_kernels(mac: Toolchain, tmp_path: Path) -> None:
    image = linked(mac, tmp_path, WAITING, "fibers", checked=True)
    check_image(image.data)
    assert image.imports >= {"__tsan_read4", "__tsan_write4"}


@pytest.mark.parametrize(
    ("head", "call", "reason"),
    [
        ("int system(int);", "system(int(i))", "undefined function 'system'"),
        ("typedef int F(int);", "(*(F **)out)(int(i))", "call through a pointer"),
        ("__global int kept;", "kept += int(i)", "all threads could write"),
    ],
    ids=["import", "pointer", "variable"],
)
def test_what_a_kernel_may_not_have(mac: Toolchain, tmp_path: Path, head: str, call: str, reason: str) -> None:
    entry = "SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))"
    text = f"{head}\nstatic void k(device int* out, uint i) {{ out[i] = {call}; }}\n{entry}"
    with pytest.raises(ImageRefused, match=reason):
        check_image(linked(mac, tmp_path, text, "fibers").data)


def test_a_damaged_library_is_refused(mac: Toolchain, tmp_path: Path) -> None:
    whole = linked(mac, tmp_path, FLAT, "flat").data
    for length in (3, 20, 31, 200, len(whole) // 2):
        with pytest.raises(ImageRefused):
            check_image(whole[:length])


def test_limits_are_set_by_the_command_itself_where_nobody_else_can(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {resource.RLIMIT_CPU: 7, resource.RLIMIT_FSIZE: 1 << 20, resource.RLIMIT_CORE: 0, resource.RLIMIT_AS: 1}
    monkeypatch.setattr(sys, "platform", "darwin")
    command = system.within_limits(["/bin/sh", "-c", 'ulimit -t; echo "$1"', "name", "two words"], limits)
    monkeypatch.undo()
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "7\ntwo words\n"


def test_a_mac_has_it_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "host", lambda: System("darwin", "aarch64"))
    assert "MLX_NATIVE_DEVICE=soft" in metal._lacks_soft("PyObjC is not installed")
    assert metal._lacks_soft(metal.ASKED_FOR_SOFT) == ""
    monkeypatch.setattr(metal, "find_spec", lambda name: None)
    assert "pip install" in metal._lacks_soft(metal.ASKED_FOR_SOFT)
    monkeypatch.setattr(system, "host", lambda: None)
    assert "Linux and on Apple silicon" in metal._lacks_soft(metal.ASKED_FOR_SOFT)


def test_isolated_devices_are_for_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ValueError, match="isolated devices are walled in by Linux, and this is darwin"):
        SoftOptions(isolated=True)


@pytest.mark.parametrize(
    ("name", "machine", "found"),
    [
        ("linux", "x86_64", System("linux", "x86_64")),
        ("linux", "aarch64", System("linux", "aarch64")),
        ("linux", "riscv64", None),
        ("darwin", "arm64", System("darwin", "aarch64")),
        ("darwin", "x86_64", None),
        ("win32", "AMD64", None),
    ],
)
def test_where_it_runs(monkeypatch: pytest.MonkeyPatch, name: str, machine: str, found: System | None) -> None:
    monkeypatch.setattr(sys, "platform", name)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    here = system.host()
    monkeypatch.undo()
    assert here == found

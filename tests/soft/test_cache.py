"""The disk cache: private, verified, atomic, bounded, and shared by processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlx_native_py.softmetal import cache, msl
from mlx_native_py.softmetal.cache import CacheError, Store, default_directory, digest
from mlx_native_py.softmetal.msl.compiler import Compiler
from mlx_native_py.softmetal.program import EngineChoice, SourceOptions
from mlx_native_py.softmetal.toolchain import ToolchainError, find_toolchain

ENGINES: tuple[EngineChoice, ...] = ("auto", "fibers", "lanes")
SOURCE = "kernel void f(device float* a, uint i [[thread_position_in_grid]]) { a[i] = 3; }\n// cache "


def test_digest_tells_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a", b"b") == digest("a", "b")


def test_records(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    assert store.record("k") is None
    store.put_record("k", b"value")
    assert Store(tmp_path / "c").record("k") == b"value"


def test_directory_is_private(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "c")
    assert store.directory.stat().st_mode & 0o777 == 0o700
    store.put_record("k", b"value")
    assert all(path.stat().st_mode & 0o077 == 0 for path in store.directory.iterdir())


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_open_directories_are_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(CacheError, match=f"mode {mode:o}"):
        Store(folder)


def test_links_and_foreign_directories_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(CacheError, match="not a directory"):
        Store(tmp_path / "link")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(CacheError, match="belongs to user"):
        Store(tmp_path / "real")


@pytest.mark.parametrize("damage", [b"", b"x", b"0" * 64 + b"value"])
def test_damaged_records_are_forgotten(tmp_path: Path, damage: bytes) -> None:
    store = Store(tmp_path / "c")
    store.put_record("k", b"value")
    (store.directory / "k.record").write_bytes(damage)
    assert store.record("k") is None


def test_damaged_artefacts_are_forgotten(tmp_path: Path) -> None:
    name = Store(tmp_path / "c").put_artefact(b"code", ".so")
    store = Store(tmp_path / "c")
    path = store.artefact(name)
    assert path and path.read_bytes() == b"code"
    path.write_bytes(b"c0de")
    assert Store(tmp_path / "c").artefact(name) is None
    assert not path.exists()


def test_names_that_lead_out_of_the_directory_are_nothing(tmp_path: Path) -> None:
    """A record may have been planted; what it names is neither loaded nor removed."""
    outside = tmp_path / "kept.so"
    outside.write_bytes(b"x")
    store = Store(tmp_path / "c")
    names = ("../kept.so", str(outside), "", ".", "..", "swept", f"{digest('x')}.so/../../kept.so", "a\0b", "\ud800")
    for name in names:
        assert store.artefact(name) is None, name
    assert outside.read_bytes() == b"x" and (tmp_path / "c").is_dir()


def test_links_in_place_of_entries_are_nothing(tmp_path: Path) -> None:
    """Even to the same bytes: who owns the other file could change them once they are verified."""
    store = Store(tmp_path / "c")
    store.put_record("k", b"value")
    name = store.put_artefact(b"code", ".so")
    for entry in (store.directory / "k.record", store.directory / name):
        other = entry.rename(tmp_path / entry.name)
        entry.symlink_to(other)
    fresh = Store(store.directory)
    assert fresh.record("k") is None and fresh.artefact(name) is None


def test_oldest_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", limit=10_000)
    for number in range(8):
        store.put_record(f"k{number}", bytes(1_500))
        os.utime(store.directory / f"k{number}.record", (number, number))
    store.put_record("k8", bytes(1_500))
    kept = sorted(path.name for path in store.directory.glob("*.record"))
    assert "k8.record" in kept and "k0.record" not in kept
    assert sum(path.stat().st_size for path in store.directory.iterdir()) <= 10_000


def test_a_large_cache_costs_small_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "c")
    store.put_record("first", b"value")
    monkeypatch.setattr(os, "scandir", forbid("the whole directory was looked at"))
    store.put_record("second", b"value")


def test_leftovers_of_killed_processes_go(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", limit=32)
    kept, old = store.directory / "scratch-new", store.directory / "scratch-old"
    for folder in (kept, old):
        folder.mkdir()
        (folder / "kernel.o").write_bytes(b"half")
    (store.directory / "new-old").write_bytes(b"half")
    for path in (old, store.directory / "new-old"):
        os.utime(path, (1, 1))
    store.put_record("k", b"value")
    names = {path.name for path in store.directory.iterdir()}
    assert names >= {"scratch-new"} and not names & {"scratch-old", "new-old"}


def test_a_stopped_process_holds_nobody_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_LOCK_PATIENCE_S", 0.2)
    store, heard = Store(tmp_path / "c"), list[str]()
    with store.alone("a", heard.append), store.alone("b", heard.append):
        assert heard == []
        with store.alone("a", heard.append):
            pass
    assert len(heard) == 2 and "waiting" in heard[0] and "without it" in heard[1]
    with store.alone("a", heard.append):
        assert len(heard) == 2


def test_use_keeps_a_record_young(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    store.put_record("k", b"value")
    path = store.directory / "k.record"
    os.utime(path, (1, 1))
    store.record("k")
    assert path.stat().st_mtime > 1


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "c")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        store.put_record("k", b"value")
    assert list(store.directory.iterdir()) == []


@pytest.mark.parametrize("kind", ["record", "artefact"])
def test_an_entry_that_is_a_directory_is_replaced(tmp_path: Path, kind: str) -> None:
    store = Store(tmp_path / "c")
    name = store.put_artefact(b"kernel", ".so")
    store.put_record("k", b"body")
    path = store.directory / ("k.record" if kind == "record" else name)
    path.unlink()
    (path / "inside").mkdir(parents=True)
    fresh = Store(tmp_path / "c")
    assert (fresh.record("k") if kind == "record" else fresh.artefact(name)) is None
    fresh.put_record("k", b"again")
    fresh.put_artefact(b"kernel", ".so")
    assert fresh.record("k") == b"again"
    found = fresh.artefact(name)
    assert found is not None and found.read_bytes() == b"kernel"


def second_compiler() -> Compiler:
    """A compiler with nothing in memory, on the cache that the other tests use."""
    return Compiler(Store(default_directory()), find_toolchain(None))


def forbid(message: str) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(message)

    return refuse


def forbid_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", forbid("a process was started"))


def test_hits_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    msl.open_library(SOURCE + "hit", SourceOptions()).build("f", {})
    compiler = second_compiler()
    forbid_processes(monkeypatch)
    built = msl.open_library(SOURCE + "hit", SourceOptions(), compiler=compiler).build("f", {})
    assert built.engine == "flat"


@pytest.mark.parametrize(
    ("body", "checked", "asked", "why"),
    [
        ("", False, "flat", None),
        ("metal::threadgroup_barrier(metal::mem_flags::mem_none);", False, "fibers", "the settings ask for fibers"),
        ("", True, "fibers", "checked mode runs on fibers, which tell threads apart"),
    ],
)
def test_engines_that_come_to_the_same_share_a_build(
    monkeypatch: pytest.MonkeyPatch, body: str, checked: bool, asked: EngineChoice, why: str | None
) -> None:
    source = SOURCE.replace("a[i] = 3;", f"{body} a[i] = 4;")
    first = msl.open_library(source, SourceOptions()).build("f", {}, checked=checked)
    compiler = replace(second_compiler(), engine=asked)
    forbid_processes(monkeypatch)
    again = msl.open_library(source, SourceOptions(), compiler=compiler).build("f", {}, checked=checked)
    assert again.engine == first.engine and again.declined.get("flat") == why


@pytest.mark.parametrize("change", [{"macros": (("X", "1"),)}, {"math_mode": "safe"}, {"language_version": (3, 1)}])
def test_options_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch, change: dict[str, object]) -> None:
    msl.open_library(SOURCE + "options", SourceOptions())
    forbid_processes(monkeypatch)
    with pytest.raises(AssertionError, match="a process"):
        msl.open_library(SOURCE + "options", SourceOptions(**change))  # type: ignore[arg-type]


def test_a_damaged_kernel_is_built_again() -> None:
    compiler = second_compiler()
    library = msl.open_library(SOURCE + "damaged", SourceOptions(), compiler=compiler)
    image: Any = library.build("f", {}).image
    path = Path(image._name)
    # A new file: the old one is mapped into this process.
    path.rename(path.with_suffix(".gone"))
    path.with_suffix(".so").write_bytes(b"not an object")
    again = msl.open_library(SOURCE + "damaged", SourceOptions(), compiler=second_compiler()).build("f", {})
    assert again.entry
    path.with_suffix(".gone").unlink()


WORKER = """
import pathlib, sys
from mlx_native_py.softmetal import cache, msl
from mlx_native_py.softmetal.program import EngineChoice, SourceOptions
compiler = msl.open_compiler(pathlib.Path(sys.argv[1]))
started = []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
for number in range(3):
    library = msl.open_library(sys.argv[2] + str(number), SourceOptions(), compiler=compiler)
    assert library.build("f", {}).entry
print(len(started))
"""


def processes_started(count: int, text: str) -> int:
    """How often the compiler runs where so many processes want the same kernels at once."""
    command = [sys.executable, "-c", WORKER, str(default_directory()), SOURCE + f"{text} {os.getpid()} "]
    crowd = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(count)]
    results = [process.communicate(timeout=120) for process in crowd]
    assert all(process.returncode == 0 for process in crowd), results
    return sum(int(out) for out, _ in results)


def test_eight_processes_at_once_compile_once() -> None:
    assert 0 < processes_started(1, "single") == processes_started(8, "crowd")
    leftovers = [p.name for p in default_directory().iterdir() if p.name.startswith("new-")]
    assert leftovers == []


def test_a_broken_compiler_is_no_fault_of_the_source(tmp_path: Path) -> None:
    msl.open_library(f"{SOURCE}whole {os.getpid()}", SourceOptions())  # not a hit, so the headers are ready
    compiler = Compiler(Store(tmp_path / "c"), replace(find_toolchain(None), linker=("/bin/false",)))
    compiler._headers.update(msl.open_compiler()._headers)
    with pytest.raises(ToolchainError, match="said nothing"):
        msl.open_library(SOURCE + "broken", SourceOptions(), compiler=compiler).build("f", {})


def test_the_set_up_is_announced_once_for_all_modes(tmp_path: Path) -> None:
    heard: list[str] = []
    for engine in ENGINES:
        compiler = Compiler(Store(tmp_path / "c"), find_toolchain(), heard.append, engine)
        compiler._announce_once()
    assert heard == ["software Metal: preparing the compiler, once for this machine"]


def test_threads_that_set_up_take_turns_without_a_word(tmp_path: Path) -> None:
    heard: list[str] = []
    compilers = [Compiler(Store(tmp_path / "c"), find_toolchain(), heard.append, engine) for engine in ENGINES]
    inside, most = [0], [0]

    def make() -> Path:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return tmp_path

    threads = [threading.Thread(target=each._once, args=(("same",), make)) for each in compilers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (heard, most) == ([], [1])


def test_clearing_leaves_what_a_compilation_needs(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    store.put_record("k", b"value")
    name = store.put_artefact(b"code", ".so")
    with store.scratch() as folder:
        removed = store.clear()
        assert folder.is_dir()
    assert removed.files == 2 and removed.nbytes > 4
    assert store.record("k") is None and store.artefact(name) is None and store.usage().files == 0


def test_headers_that_nobody_uses_go_before_kernels(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", limit=10_000)
    kernel = store.put_artefact(bytes(2_000), ".so")
    stale, used = store.put_artefact(bytes(3_000), ".pch"), store.put_artefact(bytes(2_001), ".pch")
    now = time.time()
    for name, age in ((kernel, 9_000), (stale, 5_000), (used, 10)):
        os.utime(store.directory / name, (now - age, now - age))
    store.put_record("k", bytes(3_200))
    assert store.artefact(stale) is None and store.artefact(kernel) and store.artefact(used)


def test_one_header_serves_flat_kernels_in_any_order(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []
    source = tmp_path / "k.clcpp"
    source.write_text(
        "#include <soft.h>\nstatic void k(__global int* o, uint i) { int a[64]; for (int j = 0; j < 64; j++) "
        "a[j] = o[j + i]; o[i] = a[o[i] & 63]; } SOFT_ENTRY((k), SOFT_BUFFER(0), SOFT_IN(thread_position_in_grid))"
    )
    compiler = msl.open_compiler()

    def precompiled(flags: Sequence[str]) -> Path:
        asked.append(tuple(flags))
        return compiler.precompiled(flags)

    made = compiler.toolchain.compile_kernel(source, tmp_path / "k.o", "flat", precompiled=precompiled)
    assert not made.parallel and len(asked) == 2 and len(set(asked)) == 1


def test_keys_name_everything_that_makes_a_kernel() -> None:
    """Also what the flags of a system are, and what reads the code that is changed."""
    from mlx_native_py.softmetal.msl.identity import _files

    named = {Path(path).name for path, _ in _files()}
    assert {"toolchain.py", "system.py", "padding.py", "parse.py", "layout.py", "soft_entry.h"} <= named

"""Damaged and planted cache entries: what comes out is what was put in, or nothing. Cold starts of many processes."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mlx_native_py.softmetal import msl
from mlx_native_py.softmetal.cache import Store, default_directory
from mlx_native_py.softmetal.msl.compiler import Compiler
from mlx_native_py.softmetal.program import SourceOptions
from mlx_native_py.softmetal.toolchain import find_toolchain

from .test_cache import SOURCE, processes_started

Damage = Callable[[Path, Path, random.Random], object]


def _changed(path: Path, change: Callable[[bytearray], object]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.unlink()  # a new file: processes may have the old one mapped
    path.write_bytes(data)


def _flip(path: Path, other: Path, rng: random.Random) -> None:
    def change(data: bytearray) -> None:
        for _ in range(rng.choice((1, 1, 3, 100))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)

    _changed(path, change)


def _cut(path: Path, other: Path, rng: random.Random) -> None:
    def change(data: bytearray) -> None:
        del data[rng.randrange(len(data)) :]

    _changed(path, change)


def _longer(path: Path, other: Path, rng: random.Random) -> None:
    _changed(path, lambda data: data.extend(rng.randbytes(rng.choice((1, 64, 5000)))))


def _another(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.write_bytes(other.read_bytes())


def _linked(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    os.link(other, path)


def _symbolic(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.symlink_to(rng.choice((str(other), "/dev/zero", "/dev/tty", "/proc/self/mem", "nowhere", path.name)))


def _pipe(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").write_bytes(b"x")


def _gone(path: Path, other: Path, rng: random.Random) -> None:
    path.unlink()


DAMAGES: tuple[Damage, ...] = (_flip, _flip, _cut, _longer, _another, _linked, _symbolic, _pipe, _folder, _gone)


def _count(request: pytest.FixtureRequest) -> int:
    return 5_000 if request.config.getoption("--full") else 500


def test_damaged_entries_are_what_they_were_or_nothing(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rng, folder = random.Random(0), tmp_path / "c"
    bodies = {f"k{n}": rng.randbytes(rng.randrange(1, 3000)) for n in range(4)}
    for _ in range(_count(request)):
        store = Store(folder)
        for key, body in bodies.items():
            store.put_record(key, body)
        names = {store.put_artefact(body, ".so"): body for body in bodies.values()}
        paths = [folder / f"{key}.record" for key in bodies] + [folder / name for name in names]
        path, other = rng.sample(paths, 2)
        rng.choice(DAMAGES)(path, other, rng)
        fresh = Store(folder)
        assert all(fresh.record(key) in (body, None) for key, body in bodies.items())
        for name, body in names.items():
            found = fresh.artefact(name)
            assert found is None or found.read_bytes() == body


def _build(folder: Path) -> None:
    """With a compiler that has nothing in memory."""
    compiler = Compiler(Store(folder), find_toolchain(None))
    built = msl.open_library(SOURCE + f"damage {folder}", SourceOptions(), compiler=compiler).build("f", {})
    assert built.entry


def test_kernels_are_built_again_from_damaged_entries(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rng, folder = random.Random(1), tmp_path / "c"
    folder.mkdir(mode=0o700)
    _build(default_directory())
    for each in default_directory().iterdir():  # with the headers, which take long; others use that folder too
        if each.suffix in (".pch", ".record", ".so"):
            with suppress(OSError):
                os.link(each, folder / each.name)
    before = set(folder.iterdir())
    _build(folder)
    mine = sorted(each for each in set(folder.iterdir()) - before if each.suffix in (".so", ".record"))
    assert mine
    for _ in range(_count(request) // 50):
        path = rng.choice(mine)
        rng.choice(DAMAGES)(path, rng.choice([each for each in mine if each != path]), rng)
        _build(folder)
        assert all(each.is_file() and not each.is_symlink() for each in mine)


@pytest.mark.full
def test_twenty_cold_starts_of_eight_processes() -> None:
    alone = processes_started(1, "cold alone")
    for number in range(20):
        assert processes_started(8, f"cold {number}") == alone


def test_a_folder_in_place_of_a_lock(tmp_path: Path) -> None:
    store = Store(tmp_path / "c")
    (tmp_path / "c" / "lock-it" / "inside").mkdir(parents=True)
    with store.alone("it", lambda message: None):
        assert (tmp_path / "c" / "lock-it").is_file()

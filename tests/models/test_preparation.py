"""Kernels that are compiled while a model is loaded."""

from __future__ import annotations

import io
import logging
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kit.encoding import soft_device

from mlx_native_py import MlxDevice
from mlx_native_py.errors import MlxError
from mlx_native_py.models import generation, preparation
from mlx_native_py.models import loading as models
from mlx_native_py.models.preparation import Preparation
from mlx_native_py.models.tiny import write_tiny
from mlx_native_py.softmetal import DeviceProfile

PROMPT = list(range(1, 2 * preparation._CHUNK))


@pytest.fixture
def opened(tmp_path: Path) -> models.OpenedModel:
    return models.open_model(write_tiny(tmp_path / "tiny"))


class Held:
    """A family whose models wait until they may go on, or fail."""

    gguf_names: dict[str, str] = {}

    def __init__(self, error: Exception | None = None) -> None:
        self.gate = threading.Event()
        self._error = error

    def __call__(self, checkpoint: Any, metadata: Any) -> Any:
        assert self.gate.wait(60)
        raise self._error or MlxError("stopped")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nothing_is_left_to_compile(device: MlxDevice, opened: models.OpenedModel) -> None:
    """Neither for the step nor for a chunk of a prompt that is as long as the one that was prepared."""
    with MlxDevice(device.backend.kind) as own:
        assert Preparation(opened.family, opened.file, opened.config, own).start().wait(300)
        before = own.kernels.stats
        model = models.load(opened.file.path, own)
        list(generation.generate_ids(model, PROMPT[: preparation._CHUNK + 1], max_tokens=2))
        after = own.kernels.stats
    assert before.pipelines == after.pipelines > 0
    assert before.libraries == after.libraries > 0


def test_a_model_that_is_prepared_says_the_same(device: MlxDevice, opened: models.OpenedModel) -> None:
    said = [
        [
            each.token
            for each in generation.generate_ids(
                models.load(opened.file.path, device, prepare=how), PROMPT, max_tokens=3
            )
        ]
        for how in (True, False)
    ]
    assert said[0] == said[1]


@pytest.mark.soft
def test_a_model_that_fits_is_loaded(opened: models.OpenedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though weights of another type are made twice, for the preparation too."""
    with MlxDevice("soft") as device:
        model = models.load(opened.file.path, device, dtype="f16")
        needed = device.info()["currently_allocated"]
        del model
    taken, waited = threading.Event(), threading.Event()
    start, wait = Preparation.start, Preparation.wait

    def few_layers(file: Any, config: Any, device: MlxDevice, *_: Any) -> Any:
        held = device.empty(needed // 2, "u8")
        taken.set()
        assert waited.wait(60)
        del held
        raise MlxError("seen")

    def started(self: Preparation) -> Preparation:
        start(self)
        assert taken.wait(60)
        return self

    def waiting(self: Preparation, seconds: float | None = None) -> bool:
        waited.set()
        return wait(self, seconds)

    for where, name, own in ((preparation, "_few_layers", few_layers), (Preparation, "start", started)):
        monkeypatch.setattr(where, name, own)
    monkeypatch.setattr(Preparation, "wait", waiting)
    limit = needed * 5 // 4
    with soft_device(DeviceProfile(memory=limit, working_set=limit)) as device:
        try:
            assert models.load(opened.file.path, device, dtype="f16", prepare=True)
        finally:
            waited.set()


def test_layers_of_each_kind(opened: models.OpenedModel) -> None:
    assert preparation._kinds(opened.file, opened.config) == [0, 1], "two of a kind meet somewhere"
    longer = replace(opened.config, n_layers=5, sliding=(False, False, False, True, True))
    # The file has two layers; the others are alike but for their windows.
    assert preparation._kinds(opened.file, longer) == [0, 2, 3]


def test_a_family_without_a_decoder_is_only_loaded(device: MlxDevice, tmp_path: Path) -> None:
    assert repr(models.load(write_tiny(tmp_path / "bert", "bert"), device, prepare=True)).startswith("<bert")


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "file"])
def test_a_line_after_a_while(
    device: MlxDevice, opened: models.OpenedModel, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_QUIET_S", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    family = Held()
    begun = Preparation(family, opened.file, opened.config, device).start()
    begun._timer.join(60)
    assert not begun.wait(0.01)
    family.gate.set()
    assert begun.wait(60)
    expected = f"compiling kernels for {opened.file.path.name}, once" if stream.isatty() else ""
    assert expected in stream.getvalue() and bool(stream.getvalue()) == stream.isatty()


@pytest.mark.parametrize(("error", "level"), [(MlxError("no"), logging.DEBUG), (ValueError("no"), logging.WARNING)])
def test_errors_are_told_where_nobody_else_will(
    device: MlxDevice, opened: models.OpenedModel, error: Exception, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    family = Held(error)
    family.gate.set()
    with caplog.at_level(logging.DEBUG, "mlx_native_py.models"):
        assert Preparation(family, opened.file, opened.config, device).start().wait(60)
    assert [record.levelno for record in caplog.records] == [level]


def test_without_threads_nothing_is_prepared(
    device: MlxDevice, opened: models.OpenedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert Preparation(opened.family, opened.file, opened.config, device).start().wait(1)

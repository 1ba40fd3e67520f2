"""Flags: one rule for all, errors that name the flag, overrides that stay where they are made."""

from __future__ import annotations

import re
import threading
from dataclasses import fields
from pathlib import Path

import pytest

from mlx_native_py import settings
from mlx_native_py.errors import SettingsError
from mlx_native_py.settings import Settings

FLAGS = {f.metadata["flag"]: f for f in fields(Settings)}
SWITCHES = [flag for flag, f in FLAGS.items() if isinstance(f.default, bool)]
OTHERS = {
    "MLX_NATIVE_DEVICE": (["auto", "metal", "soft"], ["gpu", "Soft", "", "1"]),
    "MLX_SOFT_SCHEDULE": (
        ["ordered", "reversed", "shuffled:0", "shuffled:123"],
        ["shuffled", "shuffled:", "shuffled:-1", ""],
    ),
    "MLX_SOFT_ENGINE": (["auto", "flat", "fibers"], ["fiber", ""]),
    "MLX_SOFT_THREADS": (["1", "64"], ["0", "-1", "two", "1.5", ""]),
    "MLX_SOFT_TIMEOUT": (["0.5", "30"], ["0", "-1", "inf", "nan", "soon", ""]),
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in FLAGS:
        monkeypatch.delenv(flag, raising=False)


def test_defaults() -> None:
    assert settings.current() == Settings()
    assert settings.current().auto_barrier
    assert not settings.current().profile_cb


@pytest.mark.parametrize("flag", SWITCHES)
def test_switches_take_one_and_zero_and_nothing_else(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = FLAGS[flag].name
    for text, value in (("1", True), ("0", False)):
        monkeypatch.setenv(flag, text)
        assert getattr(settings.current(), name) is value
    for text in ("", "2", "yes", "true", " 1"):
        monkeypatch.setenv(flag, text)
        with pytest.raises(SettingsError, match=f"{flag} is .*1 \\(on\\) or 0 \\(off\\)"):
            settings.current()


@pytest.mark.parametrize("flag", OTHERS)
def test_other_flags(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = OTHERS[flag]
    for text in good:
        monkeypatch.setenv(flag, text)
        assert str(getattr(settings.current(), FLAGS[flag].name)) in (text, f"{text}.0")
    for text in bad:
        monkeypatch.setenv(flag, text)
        with pytest.raises(SettingsError, match=re.escape(f"{flag} is {text!r}; allowed: ")):
            settings.current()


@pytest.mark.parametrize("flag", ["MLX_METAL_CAPTURE", "MLX_SOFT_CACHE_DIR", "MLX_SOFT_CLANG"])
def test_paths(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flag, "some/where")
    assert getattr(settings.current(), FLAGS[flag].name) == Path("some/where")
    monkeypatch.setenv(flag, "")
    assert getattr(settings.current(), FLAGS[flag].name) is None


def test_override_nests_and_ends() -> None:
    with settings.override(profile_cb=True) as inside:
        assert inside.profile_cb and settings.current() == inside
        with settings.override(device="soft", profile_cb=False):
            assert settings.current().device == "soft"
            assert not settings.current().profile_cb
        assert settings.current().profile_cb
    assert settings.current() == Settings()


def test_override_ends_on_an_exception() -> None:
    with pytest.raises(KeyError), settings.override(profile_cb=True):
        raise KeyError
    assert not settings.current().profile_cb


def test_override_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF2Q_AUTO_BARRIER", "0")
    with settings.override(auto_barrier=True):
        assert settings.current().auto_barrier
    assert not settings.current().auto_barrier


@pytest.mark.parametrize(
    "changes",
    [{"profile": True}, {"profile_cb": "1"}, {"profile_cb": 1}, {"device": "gpu"}, {"soft_threads": 0}]
    + [{"soft_threads": True}, {"soft_timeout": -1.0}, {"soft_schedule": "random"}, {"device": None}],
)
def test_override_refuses(changes: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(changes))), settings.override(**changes):
        pass


def test_override_accepts() -> None:
    with settings.override(soft_threads=2, soft_timeout=3, soft_cache_dir=Path("x"), metal_capture=None) as now:
        assert (now.soft_threads, now.soft_timeout, now.soft_cache_dir) == (2, 3, Path("x"))


def test_override_stays_in_its_thread() -> None:
    seen = []
    with settings.override(profile_cb=True):
        thread = threading.Thread(target=lambda: seen.append(settings.current().profile_cb))
        thread.start()
        thread.join()
    assert seen == [False]


def test_settings_page_lists_every_flag() -> None:
    page = (Path(__file__).parent.parent / "docs" / "settings.md").read_text()
    for flag, f in FLAGS.items():
        assert f"`{flag}` | `{f.name}` |" in page
    assert len(re.findall(r"^\| `[A-Z]", page, re.M)) == len(FLAGS)

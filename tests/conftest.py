"""Options and fixtures: which devices the tests run on, and a plain report of what did not run."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import browser
import bytecode  # noqa: F401, before what it concerns
import hypothesis
import pytest
from lanes_report import LanesReport
from selection import SoftGuard, absence, kinds, needs_soft, opened, play_mac
from standin import PROFILES

from mlx_native_py import MlxDevice, settings, softmetal
from mlx_native_py.metal import Backend, open_metal

LONGEST = 7200
"""Seconds that one of the long runs may take."""

SOFT_TESTS = Path(__file__).parent / "soft"
GUARD = pytest.StashKey[SoftGuard]()
NOT_RUN = pytest.StashKey[dict[str, tuple[int, str]]]()
LANES = pytest.StashKey[LanesReport]()

hypothesis.settings.register_profile("default", max_examples=50, deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("full", max_examples=1000, deadline=None)
RUN_FIRST = frozenset(
    f"test_{name}.py"
    for name in ("collectives", "extending", "faults", "lanes_random_kernels", "parallel_models", "stateful", "typed")
)
"""Long ones, with which no worker is to be left alone at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--metal",
        choices=("auto", "require", "skip"),
        default="auto",
        help="tests that need a GPU: run where Metal is (auto), fail where it is not (require), leave out (skip)",
    )
    parser.addoption("--standin", choices=sorted(PROFILES), help="play this Mac: Metal is the stand-in for PyObjC")
    parser.addoption("--full", action="store_true", help="also the long runs")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: one worker more than cores, since many tests wait for a compiler or for other processes."""
    return (os.cpu_count() or 1) + 1


def pytest_configure(config: pytest.Config) -> None:
    # A shell starts its background jobs with Ctrl-C ignored, and Python then leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[NOT_RUN] = {}
    config.stash[GUARD] = SoftGuard()
    if played := config.getoption("--standin"):
        play_mac(played)
    else:
        config.stash[GUARD].install()
    if settings.current().soft_engine == "lanes":
        config.stash[LANES] = LanesReport()
    hypothesis.settings.load_profile("full" if config.getoption("--full") else "default")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        metafunc.parametrize("backend", kinds(metafunc), indirect=True)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # Its modules open the software device as they are imported.
    return True if collection_path == SOFT_TESTS and absence("soft") else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if needs_soft(item):
            item.add_marker("soft")
    choice = config.getoption("--metal")
    reasons = {
        "metal": absence("metal") if choice == "auto" else "--metal=skip" if choice == "skip" else "",
        "soft": absence("soft"),
        "full": "" if config.getoption("--full") else "only with --full",
        "browser": browser.absence(),
        "speedscope": browser.absence() or browser.absence_of_speedscope(),
    }
    for mark, reason in reasons.items():
        left_out = {item for item in items if reason and item.get_closest_marker(mark)}
        config.stash[NOT_RUN][mark] = (len(left_out), reason)
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.path.name not in RUN_FIRST)


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    # Thousands of tests stay to the end: no collection of garbage need look at them.
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.config.getoption("--full"):
        faulthandler.dump_traceback_later(LONGEST, exit=True)
    item.config.stash[GUARD].item = item
    if item.get_closest_marker("metal") and absence("metal"):
        pytest.fail(f"--metal=require, but Metal is not here: {absence('metal')}", pytrace=False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    item.config.stash[GUARD].item = None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for mark, (count, reason) in config.stash[NOT_RUN].items():
        why = f": {reason}" if count else ""
        more = " and all of tests/soft" if mark == "soft" and reason else ""
        terminalreporter.write_line(f"{mark}: {count} tests{more} not run{why}")
    if LANES in config.stash:
        for line in config.stash[LANES].lines():
            terminalreporter.write_line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where tests run in several processes, each of them tells the first what it saw."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["not_run"] = session.config.stash[NOT_RUN]
        if LANES in session.config.stash:
            told["lanes"] = session.config.stash[LANES].counts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told, stash = getattr(node, "workeroutput", {}), node.config.stash
    # Every process looks at all tests, so what one leaves out they all do.
    stash[NOT_RUN].update({mark: tuple(result) for mark, result in told.get("not_run", {}).items()})
    if LANES in stash and "lanes" in told:
        stash[LANES].add(*told["lanes"])


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each kind of Metal in turn."""
    opened_backend = opened(request.param)
    with opened_backend.autorelease_pool():
        yield opened_backend


@pytest.fixture
def device(backend: Backend) -> Iterator[MlxDevice]:
    """A device of each kind of Metal in turn."""
    with MlxDevice(backend) as opened:
        yield opened


@pytest.fixture
def soft() -> ModuleType:
    """Software Metal, in the place where PyObjC's `Metal` module would be."""
    return softmetal


@pytest.fixture
def mtl_device(soft: ModuleType) -> Any:
    """The software device, as the settings want it."""
    return open_metal("soft").default_device()

"""The pytest plugin: the fixture `metal_device`, and `pytest --metal-check`.

pytest imports it in every project of the environment, so it imports nothing else until a test asks for a device.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = [
    "metal_device",
    "metal_device_name",
    "pytest_addoption",
    "pytest_configure",
    "pytest_generate_tests",
    "pytest_runtest_call",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
    "pytest_sessionfinish",
    "pytest_terminal_summary",
    "pytest_testnodedown",
]

_CHECKED = ["soft-checked"]
_NAMES = ("soft", "soft-checked", "soft-shuffled", "metal")  # those of DEVICES
_FOUND = pytest.StashKey[list[str]]()
_TEST = pytest.StashKey[str]()
_LEFT_OUT = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("metal", "Metal kernels")
    group.addoption(
        "--metal-check",
        action="store_true",
        dest="mlx_native_metal_check",
        help="run every kernel of every test on the software device with every load and store checked",
    )
    group.addoption(
        "--metal-devices",
        default="",
        dest="mlx_native_metal_devices",
        metavar="NAMES",
        help="what metal_device runs on: soft,soft-checked,soft-shuffled,metal (default: those that are here)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FOUND], config.stash[_LEFT_OUT], config.stash[_TEST] = [], {}, "no test"
    _asked(config)
    if config.getoption("--metal-check"):
        _check_everything(config)


def _check_everything(config: pytest.Config) -> None:
    """Changes the settings of the whole process, since tests may open devices on other threads."""
    from .. import settings
    from ..softmetal.checked.errors import CheckedError, observers

    checked = contextlib.ExitStack()
    checked.enter_context(settings.exported(device="soft", soft_checked=True, soft_isolated=False))
    config.add_cleanup(checked.close)

    def note(finding: CheckedError) -> None:
        config.stash[_FOUND].append(f"{config.stash[_TEST]}: {type(finding).__name__}: {finding}")

    observers.append(note)
    config.add_cleanup(lambda: observers.remove(note))


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_TEST] = item.nodeid


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    return (yield from _settled(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[Any]:
    return (yield from _settled(item))


def _settled(item: pytest.Item) -> Iterator[Any]:
    """Waits for what a test did not wait for, so that findings are its own and not those of a later test."""
    try:
        result = yield
    except BaseException:
        with contextlib.suppress(Exception):  # the summary lists findings; the test has failed already
            _wait(item.config)
        raise
    _wait(item.config)
    return result


def _wait(config: pytest.Config) -> None:
    if config.getoption("--metal-check"):
        from ..profiling import kernel_profile

        for queue in kernel_profile.queues():
            queue.wait_all()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With several worker processes, each reports its findings to the controller."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["metal_findings"] = session.config.stash[_FOUND]
        told["metal_left_out"] = session.config.stash[_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    told = getattr(node, "workeroutput", {})
    node.config.stash[_FOUND].extend(told.get("metal_findings", ()))
    node.config.stash[_LEFT_OUT].update(told.get("metal_left_out", {}))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = [str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize") if mark.args]
    if "metal_device_name" in metafunc.fixturenames and "metal_device_name" not in ",".join(chosen):
        metafunc.parametrize("metal_device_name", _devices(metafunc.config), indirect=True)


def _asked(config: pytest.Config) -> list[str]:
    """The devices that the command line names."""
    asked = [name.strip() for name in str(config.getoption("--metal-devices")).split(",") if name.strip()]
    if unknown := [name for name in asked if name not in _NAMES]:
        raise pytest.UsageError(f"--metal-devices: there is no {unknown[0]!r}; there are: {', '.join(_NAMES)}")
    return list(dict.fromkeys(asked))


def _devices(config: pytest.Config) -> list[str]:
    """The requested devices, or those available."""
    from .devices import DEVICES, absent

    if config.getoption("--metal-check"):
        return _CHECKED
    if asked := _asked(config):
        return asked
    reasons = {name: absent(name) for name in DEVICES}
    config.stash[_LEFT_OUT] = {name: reason for name, reason in reasons.items() if reason}
    if all(reasons.values()):
        raise pytest.UsageError(f"metal_device has no device to run on: {'; '.join(reasons.values())}")
    return [name for name, reason in reasons.items() if not reason]


@pytest.fixture
def metal_device_name(request: pytest.FixtureRequest) -> str:
    """The name of the device that `metal_device` opens; the first one where a test cannot run once for each."""
    return str(getattr(request, "param", None) or _devices(request.config)[0])


@pytest.fixture
def metal_device(metal_device_name: str, pytestconfig: pytest.Config) -> Iterator[Any]:
    """An open MlxDevice: the software one, plain, checked and shuffled, and Apple's if there is one."""
    from .devices import absent, opened

    if metal_device_name not in _NAMES:
        pytest.fail(f"there is no device {metal_device_name!r}; there are: {', '.join(_NAMES)}", pytrace=False)
    name = _CHECKED[0] if pytestconfig.getoption("--metal-check") else metal_device_name
    if reason := absent(name):
        pytest.fail(f"metal_device cannot be {name}: {reason}", pytrace=False)
    with opened(name) as device:
        yield device


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    for name, reason in config.stash[_LEFT_OUT].items():
        terminalreporter.write_line(f"metal_device: nothing ran on {name}: {reason}")
    if not config.getoption("--metal-check"):
        return
    problems = config.stash[_FOUND]
    terminalreporter.section("metal check", sep="-")
    count = f"{len(problems)} finding{'s' * (len(problems) > 1)}"
    terminalreporter.write_line(f"{count}, also those that tests expect:" if problems else "no findings")
    for line in problems:
        terminalreporter.write_line(line)

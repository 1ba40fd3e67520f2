"""The pytest plugin and its budgets, tried in sessions of their own as a user's project would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from mlx_native_py import InvalidArgument, MlxDevice, kernel, settings
from mlx_native_py.testing import (
    assert_barriers,
    assert_command_buffers,
    assert_deterministic,
    assert_dispatches,
    assert_messages,
    assert_no_leak,
)
from mlx_native_py.testing.devices import DEVICES

pytestmark = pytest.mark.soft
ROOT = Path(__file__).parent.parent

TESTS = '''
import numpy as np
import pytest
from mlx_native_py import CommandBufferError, kernel

SOURCE = """kernel void shift(device float *y, device const float *x, uint i [[thread_position_in_grid]]) {
  y[i] = x[i + OFF];
}"""

def test_right(metal_device):
    y = np.zeros(64, np.float32)
    metal_device.compile(SOURCE.replace("OFF", "0")).shift(y, np.ones(64, np.float32))
    assert y.tolist() == [1] * 64

def test_wrong(metal_device):
    metal_device.compile(SOURCE.replace("OFF", "1")).shift(np.zeros(64, np.float32), np.ones(64, np.float32))

def test_wrong_without_a_fixture():
    kernel(SOURCE.replace("OFF", "1")).shift(np.zeros(64, np.float32), np.ones(64, np.float32))

def test_expected():
    try:
        kernel(SOURCE.replace("OFF", "2")).shift(np.zeros(64, np.float32), np.ones(64, np.float32))
    except CommandBufferError:
        pass
'''


def session(tmp_path: Path, *arguments: str, text: str = TESTS) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_kernels.py").write_text(text)
    plugin = ["-p", "mlx_native_py.testing.plugin", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-v", *plugin, *arguments, str(tmp_path)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    lines = [line.split() for line in done.stdout.splitlines() if "::" in line and "%]" in line]
    return {line[0].partition("::")[2]: line[1] for line in lines}


def test_a_test_runs_on_every_device(tmp_path: Path) -> None:
    done = session(tmp_path)
    assert outcomes(done) == {
        "test_right[soft]": "PASSED",
        "test_right[soft-checked]": "PASSED",
        "test_right[soft-shuffled]": "PASSED",
        "test_wrong[soft]": "PASSED",
        "test_wrong[soft-checked]": "FAILED",
        "test_wrong[soft-shuffled]": "PASSED",
        "test_wrong_without_a_fixture": "PASSED",
        "test_expected": "PASSED",
    }, done.stdout
    assert "metal_device: nothing ran on metal: Metal was requested but is not available" in done.stdout


@pytest.mark.parametrize("processes", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_metal_check(tmp_path: Path, processes: list[str]) -> None:
    done = session(tmp_path, "--metal-check", *processes)
    assert "2 failed, 2 passed" in done.stdout, done.stdout
    assert "3 findings" in done.stdout
    assert "objects/command_buffer.py" not in done.stdout, "the finding has no traceback of the device"
    assert "test_kernels.py::test_expected: OutOfBounds: kernel 'shift': read of 4 bytes outside of" in done.stdout


def test_checked_mode_is_chosen_although_the_environment_isolates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLX_SOFT_ISOLATED", "1")
    assert outcomes(session(tmp_path, "-k", "right"))["test_right[soft-checked]"] == "PASSED"
    assert "2 failed, 2 passed" in session(tmp_path, "--metal-check").stdout


def test_devices_are_chosen(tmp_path: Path) -> None:
    assert set(outcomes(session(tmp_path, "--metal-devices=soft-shuffled,soft-shuffled", "-k", "right"))) == {
        "test_right[soft-shuffled]"
    }
    refused = session(tmp_path, "--metal-devices=gpu")
    assert refused.stderr.strip() == f"ERROR: --metal-devices: there is no 'gpu'; there are: {', '.join(DEVICES)}"
    done = session(tmp_path, "--metal-devices=metal", "-k", "right")
    assert done.returncode == 1 and "Metal was requested but is not available" in done.stdout
    assert "Traceback" not in done.stdout and "plugin.py" not in done.stdout


NOT_WAITED_FOR = """
from mlx_native_py import CommandBufferError, default_device, kernel

SHIFT = "kernel void shift(device float *y, uint i [[thread_position_in_grid]]) { y[i + 1] = 1; }"
y = default_device().zeros(64)

def test_not_waited_for():
    kernel(SHIFT).shift(default_device().zeros(64), wait=False)

def test_innocent():
    kernel(SHIFT.replace("+ 1", "")).shift(default_device().zeros(64))
"""


@pytest.mark.parametrize("processes", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_findings_that_a_test_did_not_wait_for_are_its_own(tmp_path: Path, processes: list[str]) -> None:
    done = session(tmp_path, "--metal-check", *processes, text=NOT_WAITED_FOR)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "FAILED" in next(line for line in done.stdout.splitlines() if "test_not_waited_for" in line and "%]" in line)
    assert "1 finding, also" in done.stdout
    assert "test_kernels.py::test_not_waited_for: OutOfBounds: " in done.stdout


WAYS = """
import unittest
import pytest

@pytest.mark.parametrize("metal_device_name", ["soft-shuffled"])
def test_chosen(metal_device):
    assert metal_device.name

@pytest.mark.parametrize("metal_device_name", ["gpu"])
def test_misspelt(metal_device):
    pass

def test_asked_for_later(request):
    assert request.getfixturevalue("metal_device").name

class Old(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def device(self, metal_device):
        self.device = metal_device

    def test_old(self):
        self.assertTrue(self.device.name)
"""


def test_tests_that_choose_a_device_or_cannot_run_on_each(tmp_path: Path) -> None:
    done = session(tmp_path, "--metal-devices= soft-shuffled , soft", text=WAYS)
    assert outcomes(done) == {
        "test_chosen[soft-shuffled]": "PASSED",
        "test_misspelt[gpu]": "ERROR",
        "test_asked_for_later": "PASSED",
        "Old::test_old": "PASSED",
    }, done.stdout
    assert "there is no device 'gpu'; there are: soft, soft-checked" in done.stdout


OWN_FIXTURES = {
    "other": "@pytest.fixture(params=['a', 'b'])\ndef metal_device(request): return request.param",
    "wrapped": "@pytest.fixture\ndef metal_device(metal_device): return metal_device.name",
}


@pytest.mark.parametrize(("kind", "passed"), [("other", 2), ("wrapped", 1)])
def test_fixtures_of_the_same_name(tmp_path: Path, kind: str, passed: int) -> None:
    (tmp_path / "conftest.py").write_text(f"import pytest\n{OWN_FIXTURES[kind]}\n")
    text = "def test_it(metal_device): assert isinstance(metal_device, str)"
    done = session(tmp_path, "--metal-devices=soft", "-W", "error", text=text)
    assert f"{passed} passed" in done.stdout, done.stdout


BROKEN_BUDGETS = """
import numpy as np
from mlx_native_py.testing import assert_deterministic, assert_dispatches, assert_messages, assert_no_leak

def test_dispatches():
    with assert_dispatches(1):
        pass

def test_messages(metal_device):
    with assert_messages(metal_device, 1):
        pass

def test_leak(metal_device):
    with assert_no_leak(metal_device):
        kept = metal_device.empty(1 << 20)

def test_order():
    numbers = iter(range(9))
    assert_deterministic(lambda: np.array(next(numbers)))
"""


def test_failures_show_the_test_and_not_the_assertion(tmp_path: Path) -> None:
    done = session(tmp_path, "--metal-devices=soft", text=BROKEN_BUDGETS)
    assert "4 failed" in done.stdout and "0 dispatches; exactly 1 are allowed" in done.stdout, done.stdout
    assert "testing/assertions.py" not in done.stdout, done.stdout


def test_the_plugin_costs_other_projects_nothing(tmp_path: Path) -> None:
    heavy = {"numpy", "mlx_native_py.device", "mlx_native_py.softmetal"}
    text = f"import sys\ndef test_it(): assert not {heavy} & set(sys.modules)"
    assert session(tmp_path, text=text).returncode == 0


@pytest.fixture
def device() -> Iterator[MlxDevice]:
    with MlxDevice("soft") as opened:
        yield opened


ADD = "kernel void add(device float *x, uint i [[thread_position_in_grid]]) { x[i] += 1; }"


def test_budgets(device: MlxDevice) -> None:
    add = device.compile(ADD).add.pipeline
    x = device.buffer(np.zeros(8, np.float32))

    def encode(count: int) -> None:
        with device.command_encoder() as enc:
            for _ in range(count):
                enc.dispatch(add, x, threads=8)

    with assert_dispatches(3), assert_barriers(2), assert_command_buffers(1), assert_messages(device, at_most=12):
        encode(3)
    assert x.numpy().tolist() == [3] * 8
    with pytest.raises(AssertionError, match="2 dispatches; exactly 3 are allowed"), assert_dispatches(3):
        encode(2)
    with pytest.raises(AssertionError, match="1 barriers; at most 0 are allowed"), assert_barriers(at_most=0):
        encode(2)
    with pytest.raises(AssertionError, match=r"messages \(.*dispatchThreads.* 2"), assert_messages(device, at_most=1):
        encode(2)


@pytest.mark.parametrize("exactly", [(), (2, "at_most"), ("two",), (-1,), (1.5,)])
def test_a_budget_that_is_none_is_refused_before_the_block_runs(exactly: tuple[Any, ...]) -> None:
    given: dict[str, Any] = {"exactly": exactly[0]} if exactly else {}
    given |= {"at_most": 2} if "at_most" in exactly else {}
    with pytest.raises(InvalidArgument, match="give either|number of dispatches is"), assert_dispatches(**given):
        pytest.fail("the block ran")


def test_assertions_on_what_is_no_device() -> None:
    nothing: Any = None
    with pytest.raises(InvalidArgument, match="device is None"), assert_messages(nothing, 3):
        pass
    with pytest.raises(InvalidArgument, match="device is None"), assert_no_leak(nothing):
        pass


def test_budgets_hold_where_python_leaves_assertions_out(tmp_path: Path) -> None:
    text = "from mlx_native_py.testing import assert_dispatches\nwith assert_dispatches(1):\n  pass"
    done = subprocess.run([sys.executable, "-O", "-c", text], capture_output=True, text=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "AssertionError: 0 dispatches; exactly 1 are allowed"


def test_leaks(device: MlxDevice) -> None:
    kept = []
    with assert_no_leak(device):
        device.empty(1 << 20)
    with pytest.raises(AssertionError, match="bytes of device memory are still allocated"), assert_no_leak(device):
        kept.append(device.empty(1 << 20))
    with assert_no_leak(device, at_most=8 << 20):
        kept.append(device.empty(1 << 20))


ORDER = """
kernel void put(device uint *x, constant uint &value) { x[0] = value; }
kernel void last(device uint *x, uint g [[threadgroup_position_in_grid]]) { x[0] = g; }
"""


def test_determinism() -> None:
    def right() -> np.ndarray:
        x = np.zeros(8, np.float32)
        kernel(ADD).add(x)
        return x

    def depends_on_the_order() -> object:
        with settings.override(auto_barrier=False), MlxDevice("soft") as device:
            x = device.buffer(np.zeros(1, np.uint32))
            put = device.compile(ORDER).put.pipeline
            with device.command_encoder() as enc:
                for value in range(5):
                    enc.dispatch(put, x, value, threads=1)
            return {"x": x.numpy().copy()}

    def depends_on_the_groups() -> object:
        with settings.override(soft_threads=1), MlxDevice("soft") as device:
            x = device.buffer(np.zeros(1, np.uint32))
            device.compile(ORDER).last(x, threads=256, group=32)
            return {"x": x.numpy().copy()}

    assert_deterministic(right)
    for wrong in (depends_on_the_order, depends_on_the_groups):
        with pytest.raises(
            AssertionError, match=r"result x .*in the order 'reversed' than .*: 1 of 1 values, .* at \[0\]"
        ):
            assert_deterministic(wrong)


def test_determinism_on_a_device_that_is_open_already(device: MlxDevice) -> None:
    """As that of the fixture `metal_device` is: its order is not that of the settings."""
    library = device.compile(ORDER)

    def run(name: str, threads: int) -> np.ndarray:
        x = np.zeros(1, np.uint32)
        library[name](*([x] if name == "last" else [x, 7]), threads=threads, group=32)
        return x

    assert_deterministic(lambda: run("put", 1))
    with pytest.raises(AssertionError, match="in the order 'reversed', .* in a pass that runs 'last'"):
        assert_deterministic(lambda: run("last", 1024))
    assert_deterministic(lambda: run("put", 1))


@pytest.mark.parametrize("returned", [None, [], {}, [np.zeros(1), object()]])
def test_determinism_of_nothing_is_refused(returned: Any) -> None:
    with pytest.raises(InvalidArgument, match="expected arrays or buffers to compare"):
        assert_deterministic(lambda: returned)


def test_determinism_needs_a_function_and_runs() -> None:
    nothing: Any = 3
    with pytest.raises(InvalidArgument, match="takes a function without arguments, not 3"):
        assert_deterministic(nothing)
    with pytest.raises(InvalidArgument, match="times is 0, expected at least 1"):
        assert_deterministic(lambda: np.zeros(1), times=0)


ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"


def action_steps() -> list[dict[str, Any]]:
    return list(yaml.safe_load(ACTION.read_text())["runs"]["steps"])


@pytest.mark.parametrize("package", ["", "some-package==1"])
def test_the_action_installs_its_own_revision(tmp_path: Path, package: str) -> None:
    (step,) = (step["run"] for step in action_steps() if "pip install" in step.get("run", ""))
    (tmp_path / "python").write_text('#!/bin/sh\nfor last; do :; done\nprintf %s "$last"\n')
    (tmp_path / "python").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PACKAGE": package, "GITHUB_ACTION_PATH": str(ACTION.parent)}
    done = subprocess.run(["bash", "-e", "-c", step], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == package if package else Path(done.stdout).samefile(ROOT)


SIZED = """struct Sizes { uint n[2]; };
kernel void sized(device float *x, constant Sizes &p, uint i [[thread_position_in_grid]]) { if (i < p.n[0]) x[i] = 1; }
"""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("--kernel right --arg x=zeros:64", 0),
        ("--kernel wrong --arg x=zeros:64", 1),
        ('--kernel sized --arg x=zeros:64 --arg p={"n":[64,2]}', 0),
    ],
)
def test_the_action_runs_what_it_says(tmp_path: Path, arguments: str, status: int) -> None:
    """The last step of the action, as a runner would run it, on files that a pattern finds."""
    folder = tmp_path / "Sources" / "Shaders"
    folder.mkdir(parents=True)
    body = "uint i [[thread_position_in_grid]]) { x[i%s] = 1; }"
    sources = [f"kernel void {name}(device float *x, {body % off}" for name, off in (("right", ""), ("wrong", " / 2"))]
    (folder / "k.metal").write_text("\n".join([*sources, SIZED]))
    (tmp_path / "mlx-native").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mlx_native_py "$@"\n')
    (tmp_path / "mlx-native").chmod(0o755)
    script = action_steps()[-1]["run"]
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(Path.home()),
        "FILES": "Sources/**/*.metal",
        "ARGUMENTS": arguments,
    }
    command = ["bash", "-e", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done
    assert ("DataRace" in done.stdout) is bool(status)
    assert ("::error file=Sources/Shaders/k.metal,line=2,col=" in done.stdout) is bool(status)
    none = subprocess.run(
        command, cwd=tmp_path, env={**environment, "FILES": "*.metal"}, capture_output=True, text=True
    )
    assert none.returncode == 1 and "no file matches" in none.stderr

"""What pytest would select on a Mac: nothing that needs the software device, everything that needs Metal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from selection import SoftGuard
from standin import PROFILES

from mlx_native_py import metal

TESTS = Path(__file__).parent
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ON_A_MAC = ("calls", "encoder", "graph", "hazards", "memory", "metal", "ops", "pipelines", "profiling", "weights")


@pytest.fixture(scope="module")
def selected() -> list[str]:
    """The tests that a Mac would run."""
    command = [*PYTEST, "-n0", "--collect-only", "--standin=m1", str(TESTS)]
    completed = subprocess.run(command, capture_output=True, text=True, cwd=TESTS.parent, check=False)
    assert completed.returncode == 0, completed.stdout[-2000:] + completed.stderr[-2000:]
    return [line for line in completed.stdout.splitlines() if "::" in line]


def parameters(node: str) -> list[str]:
    return node.partition("[")[2].rstrip("]").split("-")


def test_nothing_needs_the_software_device(selected: list[str]) -> None:
    assert [node for node in selected if node.startswith("tests/soft/") or "soft" in parameters(node)] == []


def test_what_runs_on_metal_is_selected(selected: list[str]) -> None:
    for place in ("encoder/test_encoder.py", "graph/test_plans.py", "ops/test_conformance.py", "weights/test_files.py"):
        assert any(f"tests/{place}::" in node and "metal" in parameters(node) for node in selected), place


@pytest.mark.parametrize("program", sorted(TESTS.rglob("programs/*.py")), ids=lambda path: path.stem)
def test_processes_that_tests_start_take_any_device(program: Path) -> None:
    """The guard sees only what the test's own process asks for."""
    assert 'MlxDevice("soft")' not in program.read_text()


def run_on(name: str, places: Sequence[str]) -> None:
    command = [*PYTEST, "-n2", f"--standin={name}", *(str(TESTS / place) for place in places)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


@pytest.mark.full
@pytest.mark.soft
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_the_core_graphs_and_ops_on_every_mac(name: str) -> None:
    run_on(name, ON_A_MAC)


@pytest.mark.full
@pytest.mark.soft
def test_models_and_commands_on_a_mac() -> None:
    run_on(
        "m1", ("bench", "cli", "models", "test_counters.py", "test_device.py", "test_examples.py", "test_interrupts.py")
    )


class Item:
    """A collected test, as far as the guard looks at it."""

    nodeid = "tests/test_x.py::test_x"

    def __init__(self, *marks: str) -> None:
        self.marks = marks

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


@pytest.mark.soft
def test_the_guard_bites() -> None:
    guard = SoftGuard()
    guard.item = Item()  # type: ignore[assignment]
    with pytest.raises(AssertionError, match="test_x asks for the software device: mark it `soft`"):
        guard.open_soft(metal.ASKED_FOR_SOFT)
    assert guard.open_soft("no module named Metal").kind == "soft"
    guard.item = Item("soft")  # type: ignore[assignment]
    assert guard.open_soft(metal.ASKED_FOR_SOFT).kind == "soft"
